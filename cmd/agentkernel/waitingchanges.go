package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/datadir"
	"agentkernel/internal/sandbox/workspace"
)

const (
	// shownWaiting is how many runs are named that wait with changes; listedWaiting, how many with --json.
	shownWaiting, listedWaiting = 10, 1000
	// searchedWaiting is among how many of the newest processes with a folder they are looked for. Some 20 µs each.
	searchedWaiting = 50_000
)

// waitingRun is a run that has ended and whose changes nobody has applied or discarded.
type waitingRun struct {
	PID     agentkernel.PID    `json:"pid"`
	Name    string             `json:"name"`
	Folder  string             `json:"folder"`
	Added   int                `json:"added"`
	Changed int                `json:"changed"`
	Deleted int                `json:"deleted"`
	Never   int                `json:"never_applied,omitempty"`
	Created time.Time          `json:"created"`
	Error   *agentkernel.Error `json:"error,omitempty"` // why its changes cannot be read
}

// waitingList is what apply, diff and discard print with --json if no PID is given.
type waitingList struct {
	Waiting []waitingRun `json:"waiting"`
	More    int          `json:"more"`     // older ones that probably wait, too
	NotSeen int          `json:"not_seen"` // still older processes with a folder that were not looked at
}

// listWaiting is a command about the changes of a run without a PID: it lists the runs that wait with changes, the newest first, each as the
// command that is meant.
func (a *app) listWaiting(command string) error {
	most := shownWaiting
	if a.cli.JSON {
		most = listedWaiting
	}
	list, err := a.waitingRuns(most)
	switch {
	case err != nil:
		return err
	case a.cli.JSON:
		return a.printJSON(list)
	case len(list.Waiting) == 0 && list.NotSeen == 0:
		a.con.Note("no run waits with changes; agentkernel ps -a lists all")
		return nil
	}
	if len(list.Waiting) > 0 {
		a.con.Out(a.waitingTable(command, &list))
	}
	if text := list.rest(); text != "" {
		a.con.Note("%s", text)
	}
	if len(list.Waiting) == 0 {
		return nil
	}
	a.con.Note("these runs wait with changes, the newest first; agentkernel diff PID shows them")
	return a.outputError()
}

// whichPID is the error of such a command where what was given is no PID: it lists the same.
func (a *app) whichPID(command string, wrong error) error {
	list, err := a.waitingRuns(shownWaiting)
	switch {
	case err != nil:
		return asError(wrong).WithHint("agentkernel ps -a lists all; which runs wait with changes could not be read: %v", err)
	case len(list.Waiting) == 0 && list.NotSeen == 0:
		return asError(wrong).WithHint("no run waits with changes; agentkernel ps -a lists all")
	case len(list.Waiting) == 0:
		return asError(wrong).WithHint("%s; agentkernel ps -a lists all", list.rest())
	}
	if !a.cli.JSON {
		a.con.Err(a.waitingTable(command, &list))
	}
	return asError(wrong).WithHint("these runs wait with changes, the newest first: agentkernel %s %d; agentkernel diff PID shows them", command, list.Waiting[0].PID)
}

// rest says what is not in the table.
func (l *waitingList) rest() (text string) {
	if l.More > 0 {
		text = fmt.Sprintf("%d more: --json lists %d", l.More, listedWaiting)
	}
	if l.NotSeen > 0 {
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf("%s with a folder, all older, were not looked at", counted(int64(l.NotSeen), "process", "processes"))
	}
	return text
}

func (a *app) waitingTable(command string, list *waitingList) string {
	rows := make([][]string, 0, len(list.Waiting))
	for i := range list.Waiting {
		r := &list.Waiting[i]
		what := withNever(countText(r.Added, r.Changed, r.Deleted), r.Never) + " in " + r.Folder
		if r.Error != nil {
			what = r.Error.Message()
		}
		rows = append(rows, []string{a.withHome("agentkernel " + command + " " + r.PID.String()), what, r.Name, console.Age(time.Since(r.Created)) + " ago"})
	}
	return console.Table(rows)
}

// waitingRuns looks for runs that wait with changes, at most so many. What holds something is known on the disk: asked of the kernel are
// those alone, however many processes there are.
func (a *app) waitingRuns(most int) (list waitingList, err error) {
	list.Waiting = []waitingRun{}
	home, err := a.home()
	if err != nil {
		return list, err
	}
	if _, err := os.Stat(home); errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	dir, err := datadir.OpenToRead(home)
	if err != nil {
		return list, err
	}
	pids, older, err := workspace.HoldingIn(dir.Workspaces(), searchedWaiting)
	if err != nil {
		return list, err
	}
	if list.NotSeen = older; len(pids) == 0 {
		return list, nil
	}
	k, err := a.kernel() // as diff PID: without one nobody reads layers
	if err != nil {
		return list, err
	}
	defer k.Close()
	for i, pid := range pids {
		if len(list.Waiting) == most {
			list.More = len(pids) - i
			return list, nil
		}
		p, err := k.Process(a.ctx, pid)
		switch {
		case agentkernel.CodeOf(err) == agentkernel.CodeNotFound: // pruned, or about to be created
			continue
		case err != nil:
			return list, err
		case !p.State.Terminal():
			continue
		}
		r := waitingRun{PID: pid, Name: p.Name, Created: p.Created}
		c, err := k.Changes(a.ctx, pid)
		switch {
		case err != nil && a.ctx.Err() != nil:
			return list, err
		case err != nil:
			r.Error = asError(err)
		case c.State != agentkernel.LayerKept || len(c.Changes) == 0:
			continue
		}
		r.Folder = a.folderText(c.Folder, waiting(&c))
		r.Added, r.Changed, r.Deleted, r.Never = c.Count(agentkernel.FileAdded), c.Count(agentkernel.FileChanged), c.Count(agentkernel.FileDeleted), c.Never()
		list.Waiting = append(list.Waiting, r)
	}
	return list, nil
}
