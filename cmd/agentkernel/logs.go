package main

import (
	"strings"

	"agentkernel"
)

type logsCmd struct {
	PID    string `arg:"" help:"The process."`
	Follow bool   `short:"f" help:"Go on until the process ends."`
	Stdout bool   `help:"Only standard output."`
	Stderr bool   `help:"Only standard error."`
	Log    bool   `help:"Only the lines of kernel.log()."`
	Tail   int    `short:"n" placeholder:"N" zero:"all" default:"0" help:"Only the last N lines (0: all), and with --follow what comes after them."`
}

func (logsCmd) Help() string {
	return `Standard output goes to standard output and standard error to standard error, as the program wrote them; of a
task the result alone is on standard output, and its progress is not, so a pipe that reads both has lost their order. If
streams are selected, all of them go to standard output in the order in which they were written: logs --stdout --stderr PID | tail. Works without a running kernel too.

` + examples("agentkernel logs 12", "agentkernel logs -f 12", "agentkernel logs -n 20 12", "agentkernel logs 12 --log --stderr", "agentkernel logs 12 --stdout --stderr | tail -4", "agentkernel logs 12 --json      events, one a line")
}

func (c *logsCmd) Run(a *app) error {
	pid, err := agentkernel.ParsePID(c.PID)
	if err != nil {
		return err
	}
	k, err := a.reading()
	if err != nil {
		return err
	}
	defer k.Close()
	p, err := a.find(k, pid)
	if err != nil {
		return err
	}
	follow := c.Follow && !k.inProcess && p.State != agentkernel.StateUnfinished
	from := int64(0)
	if c.Tail > 0 {
		from, err = c.tail(a, k, pid)
	}
	if err == nil && (follow || c.Tail == 0) {
		err = k.Events(a.ctx, pid, from, follow, func(e agentkernel.Event) error { return c.show(a, e) })
	}
	if a.con.Broken() != nil {
		return a.outputError()
	}
	if err != nil {
		return err
	}
	if c.Follow && !follow && !p.State.Terminal() && !a.cli.JSON {
		why, do := k.uncarried(&p)
		a.con.Note("%s: %s", why, do)
	}
	return a.outputError()
}

// tail shows the last lines that there are, or with --json the last events, and says from where more may come.
func (c *logsCmd) tail(a *app, k *session, pid agentkernel.PID) (from int64, err error) {
	var events []agentkernel.Event
	err = k.Events(a.ctx, pid, 0, false, func(e agentkernel.Event) error {
		from = max(from, e.Seq+1)
		if c.selected(e) && (e.Kind == agentkernel.EventOutput || e.Kind == agentkernel.EventLog || a.cli.JSON) {
			events = append(events, e)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if a.cli.JSON {
		events = events[max(0, len(events)-c.Tail):]
	} else {
		events = lastEvents(events, c.Tail)
	}
	for _, e := range events {
		if err := c.show(a, e); err != nil {
			return 0, err
		}
	}
	return from, nil
}

// lastEvents are the events with the last n lines. A line of kernel.log() is a whole one; output comes as it was written, in pieces of lines.
func lastEvents(events []agentkernel.Event, n int) []agentkernel.Event {
	for i := len(events) - 1; i >= 0; i-- {
		e := &events[i]
		if e.Kind == agentkernel.EventLog {
			if n--; n == 0 {
				return events[i:]
			}
			continue
		}
		end := len(e.Text)
		if i == len(events)-1 {
			end = len(strings.TrimSuffix(e.Text, "\n")) // which ends the last line, and begins none
		}
		for at := strings.LastIndexByte(e.Text[:end], '\n'); at >= 0; at = strings.LastIndexByte(e.Text[:at], '\n') {
			if n--; n == 0 {
				e.Text = e.Text[at+1:]
				return events[i:]
			}
		}
	}
	return events
}

func (c *logsCmd) show(a *app, e agentkernel.Event) error {
	if err := a.con.Broken(); err != nil {
		return err // nobody reads any more
	}
	if !c.selected(e) {
		return nil
	}
	if a.cli.JSON {
		return a.printEvent(e)
	}
	switch {
	case e.Kind == agentkernel.EventAsk:
		a.con.Note("process %d waits for your answer whether it may call %s: %s", e.PID, e.Ask.Call, resumes(e.PID, e.Ask.Call))
	case e.Kind == agentkernel.EventBudget:
		a.con.Note("process %d: %s", e.PID, e.Text)
	case e.Kind == agentkernel.EventLog:
		a.con.Out(e.Text + "\n")
	case e.Kind != agentkernel.EventOutput:
	case e.Stream == "stderr" && !c.Stderr:
		a.con.Err(e.Text)
	default:
		a.con.Out(e.Text)
	}
	return nil
}

// printEvent prints an event as one line of JSON.
func (a *app) printEvent(e agentkernel.Event) error {
	line := struct {
		agentkernel.Event
		Process *printed `json:"process,omitempty"`
	}{Event: e}
	if e.Process != nil {
		p := public(*e.Process)
		line.Process = &p
	}
	return a.printJSON(line)
}

// selected says whether the flags ask for an event; without flags it is what the program printed.
func (c *logsCmd) selected(e agentkernel.Event) bool {
	any := c.Stdout || c.Stderr || c.Log
	switch e.Kind {
	case agentkernel.EventLog:
		return c.Log
	case agentkernel.EventOutput:
		return !any || c.Stdout && e.Stream != "stderr" || c.Stderr && e.Stream == "stderr"
	}
	return !any
}
