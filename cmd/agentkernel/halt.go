package main

import (
	"strings"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
)

// heldFlags say what halt and thaw are about.
type heldFlags struct {
	Namespace string `placeholder:"NAME" help:"Only the processes of this namespace."`
	Tree      string `placeholder:"PID" help:"Only this process and all below it."`
}

func (f *heldFlags) hold(why string) (h agentkernel.Hold, err error) {
	if h.Namespace, h.Why = f.Namespace, why; f.Tree != "" {
		h.Tree, err = agentkernel.ParsePID(f.Tree)
	}
	if err == nil {
		err = h.Validate()
	}
	return h, err
}

type haltCmd struct {
	heldFlags
	Why string `placeholder:"TEXT" help:"The reason, for whoever meets it."`
}

func (haltCmd) Help() string {
	return `Nothing that is halted makes a call or starts a process until agentkernel thaw, also if the kernel stops and starts again.
Calls that are under way end, and their results wait. What computes in a sandbox of its own is stopped there; sleeps and limits
go by the clock as ever. To read, to kill and to answer works as before.

` + examples("agentkernel halt --why 'the billing API is down'", "agentkernel halt --tree 12", "agentkernel thaw")
}

func (c *haltCmd) Run(a *app) error {
	h, err := c.hold(c.Why)
	if err != nil {
		return err
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	if err := k.Halt(a.ctx, h); err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(held{true, h.Namespace, h.Tree})
	}
	a.con.Note("%s stands still · go on: agentkernel %s", h.Over(), h.Command("thaw"))
	if h.Namespace != "" {
		if n, err := k.Count(a.ctx, agentkernel.Filter{Namespace: h.Namespace, Unfinished: true}); err == nil && n == 0 {
			a.con.Note("no process is in the namespace %s now; those that come there are refused", h.Namespace)
		}
	}
	return nil
}

// held is what halt and thaw --json print.
type held struct {
	Halted    bool            `json:"halted"`
	Namespace string          `json:"namespace,omitempty"`
	Tree      agentkernel.PID `json:"tree,omitempty"`
}

// noteHolds says what stands still.
func (a *app) noteHolds(k agentkernel.Kernel) error {
	if a.cli.JSON {
		return nil
	}
	info, err := k.Info(a.ctx)
	if err != nil {
		return err
	}
	for _, h := range info.Holds {
		why := ""
		if h.Why != "" {
			why = " (" + console.Line(h.Why) + ")"
		}
		a.con.Note("%s stands still since %s%s · go on: agentkernel %s", h.Over(), h.Since.Local().Format(time.DateTime), why, h.Command("thaw"))
	}
	return nil
}

type thawCmd struct {
	heldFlags
}

func (thawCmd) Help() string {
	return "It ends what the same agentkernel halt has begun; agentkernel ps shows what is halted.\n\n" +
		examples("agentkernel thaw", "agentkernel thaw --tree 12", "agentkernel thaw --namespace team")
}

func (c *thawCmd) Run(a *app) error {
	h, err := c.hold("")
	if err != nil {
		return err
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	if err := k.Thaw(a.ctx, h); err != nil {
		if info, ierr := k.Info(a.ctx); ierr == nil && len(info.Holds) > 0 && agentkernel.CodeOf(err) == agentkernel.CodeConflict {
			var commands []string
			for _, other := range info.Holds {
				commands = append(commands, "agentkernel "+other.Command("thaw"))
			}
			return agentkernel.AsError(err, "", "thaw").WithHint("what is halted: %s", strings.Join(commands, ", "))
		}
		return err
	}
	if a.cli.JSON {
		return a.printJSON(held{false, h.Namespace, h.Tree})
	}
	a.con.Note("%s goes on", h.Over())
	return a.noteHolds(k)
}
