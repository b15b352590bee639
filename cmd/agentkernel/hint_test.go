package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"agentkernel"
	"agentkernel/internal/api"
)

// TestHintsKnowEachCommand: a hint that names a command is told otherwise to who has no command line, whichever it is.
func TestHintsKnowEachCommand(t *testing.T) {
	parser, err := newParser(&app{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range parser.Model.Children {
		names = append(names, c.Name)
		if hint := "agentkernel " + c.Name + " 1"; !agentkernel.ForOperator(hint) {
			t.Errorf("%q is no hint for whoever runs agentkernel", hint)
		}
	}
	for _, name := range agentkernel.Commands {
		if !slices.Contains(names, name) {
			t.Errorf("there is no command %s", name)
		}
	}
}

// Each command that makes a process has a flag for each limit that has one.
func TestLimitsHaveFlags(t *testing.T) {
	parser, err := newParser(&app{})
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	var look func(*kong.Node)
	look = func(n *kong.Node) {
		flags := map[string]string{}
		for _, f := range n.Flags {
			flags["--"+f.Name] = f.Help
		}
		if _, makes := flags["--max-calls"]; makes || flags["--priority"] != "" {
			commands++
			for _, l := range agentkernel.AllLimits() {
				if l.Flag != "" && flags[l.Flag] != l.Help {
					t.Errorf("%s has no %s, or another", n.FullPath(), l.Flag)
				}
			}
		}
		for _, c := range n.Children {
			look(c)
		}
	}
	look(parser.Model.Node)
	if commands < 6 {
		t.Errorf("%d commands have limits", commands)
	}
}

// TestDefaultsOfLimitsAreDocumented: what help and docs/cli.md say that a limit is by default.
func TestDefaultsOfLimitsAreDocumented(t *testing.T) {
	parser, err := newParser(&app{host: host{args: []string{"run"}}})
	if err != nil {
		t.Fatal(err)
	}
	help := map[string]string{}
	for _, f := range parser.Model.Children[0].Flags {
		help["--"+f.Name] = f.Help
	}
	rows := map[string]string{}
	for _, cells := range cellsOf(readDoc(t, "cli.md")) {
		for _, m := range backticked.FindAllStringSubmatch(cells[0], -1) {
			flag, _, _ := strings.Cut(m[1], " ")
			rows[flag] = cells[len(cells)-1]
		}
	}
	d := reflect.ValueOf(agentkernel.DefaultLimits())
	checked := 0
	for i := range d.NumField() {
		name, _, _ := strings.Cut(d.Type().Field(i).Tag.Get("json"), ",")
		flag := agentkernel.LimitFlag(name)
		if flag == "" || d.Field(i).IsZero() {
			continue
		}
		checked++
		is := fmt.Sprint(d.Field(i).Interface())
		switch v := d.Field(i).Interface().(type) {
		case agentkernel.Duration:
			is = map[time.Duration]string{time.Minute: "60s", 2 * time.Minute: "2m"}[time.Duration(v)]
		case int64:
			if v%(1<<30) == 0 {
				is = fmt.Sprintf("%dg", v>>30)
			} else if v%(1<<20) == 0 {
				is = fmt.Sprintf("%dm", v>>20)
			}
		}
		if is == "" || !strings.Contains(help[flag], "(default "+is+")") {
			t.Errorf("%s is %q by default; help says %q", flag, is, help[flag])
		}
		if !strings.Contains(rows[flag], "(default "+is+")") && !strings.Contains(rows[flag], "("+is+")") {
			t.Errorf("%s is %q by default; docs/cli.md says %q", flag, is, rows[flag])
		}
	}
	if checked < 10 {
		t.Errorf("%d limits were looked at", checked)
	}
	if idle := map[time.Duration]string{time.Minute: "nobody has called for a minute (`idle_after`)"}[api.DefaultIdleAfter]; idle == "" || !strings.Contains(readDoc(t, "cli.md"), idle) {
		t.Errorf("a background kernel ends after %s; docs/cli.md does not say so", api.DefaultIdleAfter)
	}
	if p := fmt.Sprint(agentkernel.DefaultPriority); !strings.Contains(rows["--priority"], p+" is the default") || !strings.Contains(help["--priority"], "(default "+p+")") {
		t.Errorf("the priority is %s by default; docs/cli.md says %q, help %q", p, rows["--priority"], help["--priority"])
	}
}
