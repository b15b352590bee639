package main

import (
	"fmt"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
)

type llmLimitsCmd struct{}

func (llmLimitsCmd) Help() string {
	return `What the running kernel knows of the limits of each key and family of models, what is left of them now, and what waits. It
learns them from what servers answer, so that it knows nothing before the first call. Nothing is asked for it, and no kernel started.

` + examples("agentkernel llm limits", "agentkernel llm limits --json | jq '.keys[].limits'")
}

func (c *llmLimitsCmd) Run(a *app) error {
	k, err := a.reading()
	if isNothingYet(err) {
		return noLimits(nil)
	}
	if err != nil {
		return err
	}
	defer k.Close()
	l, err := k.ModelLimits(a.ctx)
	switch {
	case agentkernel.CodeOf(err) == agentkernel.CodeUnavailable && k.inProcess:
		return noLimits(err)
	case err != nil:
		return err
	case a.cli.JSON:
		return a.printJSON(l)
	case len(l.Deployments) == 0:
		a.con.Note("the kernel that runs has no models: it reads the setting models when it starts (agentkernel shutdown ends it)")
		return nil
	}
	now := time.Now()
	a.con.Out(limitsTable(&l, now))
	a.con.Out("\n" + deploymentsTable(&l, now))
	if l.Unplaced > 0 {
		verb := "wait"
		if l.Unplaced == 1 {
			verb = "waits"
		}
		a.con.Note("%s %s until a deployment is up", count(int64(l.Unplaced), "more call"), verb)
	}
	return a.outputError()
}

// noLimits is the error where no kernel runs.
func noLimits(error) error {
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "llm limits", "limits are known to a running kernel alone, which learns them from what servers answer, and none runs").
		WithHint("start one (agentkernel start), let a program ask a model (agentkernel llm test), and look again; agentkernel llm list shows those that are declared")
}

// limitsTable is a row for each limit of each key.
func limitsTable(l *agentkernel.ModelLimits, now time.Time) string {
	rows := [][]string{{"KEY", "MODELS", "LIMIT", "", "LEFT", "FROM"}}
	for i := range l.Keys {
		k := &l.Keys[i]
		key, family := k.Key+ofTree(k.Tree), k.Family
		add := func(what, amount, left, from string) {
			rows = append(rows, []string{key, family, what, amount, left, from})
			key, family = "", ""
		}
		for _, m := range k.Limits {
			add(limitName(&m), limitAmount(&m), thousands(m.Left), limitSource(&m))
		}
		from := "declared"
		if k.Learned {
			from = "found out"
		}
		if len(k.Limits) > 0 || !k.Learned {
			add("at a time", thousands(int64(k.Concurrent)), thousands(int64(max(0, k.Concurrent-k.Running))), from)
		}
		if len(k.Limits) == 0 && k.Learned {
			add("none is known yet", "", "", "")
		}
		if k.Running+k.Queued > 0 {
			add("under way", thousands(int64(k.Running)), "", "")
		}
		if k.Queued > 0 {
			add("queued", thousands(int64(k.Queued)), "", queueText(k))
		}
		if k.PausedUntil.After(now) {
			add("paused", "", "", "the server asked for it, "+console.Span(k.PausedUntil.Sub(now))+" more")
		}
		if k.Share < 1 {
			add("share", fmt.Sprintf("%.0f %%", k.Share*100), "", "of the limits is this kernel's")
		}
	}
	return console.Table(rows, 3, 4)
}

// ofTree says of which tree something is; "": of none.
func ofTree(tree agentkernel.PID) string {
	if tree == 0 {
		return ""
	}
	return fmt.Sprintf(" of tree %d", tree)
}

func limitName(m *agentkernel.ModelLimit) string {
	name := m.What
	if name == "input" || name == "output" {
		name += " tokens"
	}
	switch period := time.Duration(m.Period); period {
	case time.Second:
		return name + "/s"
	case time.Minute:
		return name + "/min"
	case time.Hour:
		return name + "/h"
	case 24 * time.Hour:
		return name + "/day"
	default:
		return fmt.Sprintf("%s in %s", name, console.Span(period))
	}
}

func limitAmount(m *agentkernel.ModelLimit) string {
	if m.Amount == 0 { // only a pace is known
		return thousands(paced(m))
	}
	return thousands(m.Amount)
}

// paced is what a pace lets pass in the period of its limit.
func paced(m *agentkernel.ModelLimit) int64 {
	const most = 1 << 62 // a kernel of an earlier version may have found out more than there are numbers for
	return int64(min(m.Pace*time.Duration(m.Period).Seconds(), most))
}

// limitSource says where a limit is known from, and what else holds.
func limitSource(m *agentkernel.ModelLimit) string {
	text := map[string]string{"headers": "the server's headers", "answers": "refusals", "config": "declared"}[m.Source]
	if text == "" {
		text = m.Source
	}
	if m.Amount > 0 && m.Pace > 0 && paced(m) < m.Amount {
		text += fmt.Sprintf("; it lets %s pass", thousands(paced(m)))
	}
	switch {
	case m.Second && m.Ten:
		text += ", also in 1 s and 10 s"
	case m.Second:
		text += ", also in 1 s"
	case m.Ten:
		text += ", also in 10 s"
	}
	return text
}

// queueText says which priorities wait, and for what the first does.
func queueText(k *agentkernel.KeyLimits) string {
	var parts []string
	for _, q := range k.Queue {
		parts = append(parts, fmt.Sprintf("%s at priority %d", thousands(int64(q.Calls)), q.Priority))
	}
	text := strings.Join(parts, ", ")
	if k.Waiting != "" {
		text += "; the first waits for " + k.Waiting
	}
	return text
}

// deploymentsTable is a row for each deployment.
func deploymentsTable(l *agentkernel.ModelLimits, now time.Time) string {
	rows := [][]string{{"DEPLOYMENT", "MODEL", "KEY", "QUEUED", "STATE", "SINCE", "WHY"}}
	for i := range l.Deployments {
		d := &l.Deployments[i]
		state, since := d.State, "-"
		if d.Until.After(now) {
			state += " for " + console.Span(d.Until.Sub(now))
		}
		if !d.Since.IsZero() {
			since = d.Since.Local().Format(time.DateTime)
		}
		why := d.Reason
		if d.Failures > 1 {
			why = fmt.Sprintf("%d failures in a row, the last: %s", d.Failures, d.Reason)
		}
		rows = append(rows, []string{d.Name + ofTree(d.Tree), d.Model, d.Key, thousands(int64(d.Queued)), state, since, why})
	}
	return console.Table(rows, 3)
}
