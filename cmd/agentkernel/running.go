package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/asktext"
)

// withPrograms adds to a task what the programs that its model wrote have done, as far as a receipt tells of it. It returns the processes below
// one that has ended which have not: nothing ends a child with its parent.
func (w *watch) withPrograms(p *agentkernel.Process) (running []agentkernel.Process) {
	if w.k == nil || p.PID == 0 || !p.State.Terminal() || !w.isTask() && w.a.cli.quiet() && !w.a.cli.JSON {
		return nil
	}
	if !w.isTask() { // what ended children of it have left behind is not worth a question for each
		if w.children == nil {
			running, _ = w.k.List(w.a.ctx, agentkernel.Filter{Parent: p.PID, Unfinished: true, Limit: shownChildren})
			return running
		}
		return slices.DeleteFunc(slices.Clone(w.children), func(q agentkernel.Process) bool { return q.State.Terminal() })
	}
	for parents := []agentkernel.PID{p.PID}; len(parents) > 0; parents = parents[1:] {
		below := w.children
		if parents[0] != p.PID || below == nil {
			var err error
			if below, err = w.k.List(w.a.ctx, agentkernel.Filter{Parent: parents[0]}); err != nil {
				return running // it is a matter of numbers
			}
		}
		for i := range below {
			parents = append(parents, below[i].PID)
			p.Usage.ToolCalls += below[i].Usage.ToolCalls
			p.Usage.BytesIn += below[i].Usage.BytesIn
			p.Left = append(p.Left, below[i].Left...)
			if !below[i].State.Terminal() && len(running) < shownChildren {
				running = append(running, below[i])
			}
		}
	}
	return running
}

// mentionRunning says which children of a process that has ended go on without it, and how to end them.
func (w *watch) mentionRunning(running []agentkernel.Process) {
	if len(running) > namedRunning {
		w.mentionMany(running)
		return
	}
	for i := range running {
		p, name := &running[i], ""
		if p.Name != "" {
			name = " (" + asktext.Name(p.Name) + ")"
		}
		does := fmt.Sprintf("still runs · see: agentkernel logs -f %d", p.PID)
		if w.k.inProcess { // its kernel ends with this command
			does = fmt.Sprintf("is unfinished · continue: %s", takenUp(p))
		}
		w.a.con.Note("a child, process %d%s, %s · end it: agentkernel kill %d", p.PID, name, does, p.PID)
	}
}

// namedRunning is how many children that go on are told of one by one: more would take what the program said off the screen.
const namedRunning = 5

// mentionMany says of more children how many there are, and how to see and end them.
func (w *watch) mentionMany(running []agentkernel.Process) {
	n, more := len(running), ""
	if n >= shownChildren { // of which there may be more
		n, more = 0, " and more"
		for page, err := range agentkernel.Pages(w.a.ctx, w.k, agentkernel.Filter{Parent: w.process(), Unfinished: true}) {
			n += len(page)
			if err == nil {
				more = ""
			}
		}
		n = max(n, len(running))
	}
	does := fmt.Sprintf("still run · see: agentkernel ps --parent %d", w.process())
	if w.k.inProcess {
		does = "are unfinished · continue: agentkernel recover"
	}
	w.a.con.Note("%d children%s %s · end them: agentkernel kill --tree %d", n, more, does, w.process())
}

// pidsOf are the PIDs of processes.
func pidsOf(processes []agentkernel.Process) (pids []agentkernel.PID) {
	for i := range processes {
		pids = append(pids, processes[i].PID)
	}
	return pids
}

// tellPaused tells of the children of a task that are paused while it waits for them: it would wait without a word.
func (w *watch) tellPaused(ctx context.Context) {
	told := map[string]bool{}
	each(ctx, time.Second, func() bool {
		if w.unasked { // else events tell of it
			w.mentionHalted(ctx)
		}
		w.mentionPaused(ctx, told)
		return true
	})
}

// each calls look again and again, first when a while has passed, until ctx ends or look says false.
func each(ctx context.Context, while time.Duration, look func() (again bool)) {
	tick := time.NewTicker(while)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !look() {
				return
			}
		}
	}
}

// whileAwaited says, while a command waits for the end of a process at which nobody answers questions, what that waits for that does not go on
// by itself. halted is what it was said to stand still with already.
func (a *app) whileAwaited(ctx context.Context, k *session, pid agentkernel.PID, halted string, wait func() error) error {
	w := &watch{a: a, k: k, pid: pid, unasked: true, halted: halted}
	watching, stop := context.WithCancel(ctx)
	var tells sync.WaitGroup
	if !a.cli.quiet() {
		w.mentionHalted(ctx)
		tells.Go(func() { w.tellPaused(watching) })
	}
	err := wait()
	stop()
	tells.Wait()
	return err
}

// mentionHalted says that the process has come to stand still, or goes on.
func (w *watch) mentionHalted(ctx context.Context) {
	if p, err := w.k.Process(ctx, w.process()); err == nil && !p.State.Terminal() {
		w.stands(&p)
	}
}

// mentionPaused says which children of the process are paused, why, and what to do about it, each once. A question that waits is shown anyway.
func (w *watch) mentionPaused(ctx context.Context, told map[string]bool) {
	proc, err := w.k.Process(ctx, w.process())
	if err != nil || !slices.ContainsFunc(proc.WaitsFor, func(call string) bool { return strings.HasPrefix(call, "proc.wait") }) {
		return
	}
	below, err := w.k.List(ctx, agentkernel.Filter{Parent: proc.PID, Unfinished: true, Limit: shownChildren})
	if err != nil {
		return
	}
	for i := range below {
		p := &below[i]
		line := fmt.Sprintf("waits for process %d (%s): %s", p.PID, asktext.Name(p.Name), pausedLine(*p))
		call := p.Asks()
		if call != "" && !p.Paused {
			line = fmt.Sprintf("waits for process %d (%s), which waits for your answer whether it may call %s: %s", p.PID, asktext.Name(p.Name), call, resumes(p.PID, call))
		}
		if (p.Paused && call == "" || w.unasked && call != "") && !told[line] {
			told[line] = true
			w.a.con.Say("%s", line)
		}
	}
}
