package main

import (
	"fmt"
	"strings"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/config"
)

type replayCmd struct {
	File   string `arg:"" help:"A recording; - reads standard input."`
	Time   string `placeholder:"SPAN" help:"Running time that the program may use at most (default 60s)."`
	Memory string `placeholder:"SIZE" help:"Heap that it may use at most (default 512m)."`
	packageFlags
}

func (replayCmd) Help() string {
	return `Runs the program of a recording in the sandbox, every call being answered from the file: no tool server is started,
no key is needed, nothing leaves this machine, and nothing is stored. Says whether it did the same again: calls,
arguments, output, end. What ended the process from outside (kill, a time limit) is not repeated; then all is compared
up to there. A recording holds no packages: name them with --with or --python.

Exit code: 0 equal, 1 it differs, 2 the recording cannot be used, 69 no engine.

` + examples("agentkernel replay bug.akr", "agentkernel replay bug.akr --json | jq -r .difference", "for f in regressions/*.akr; do agentkernel replay $f || exit 1; done")
}

func (c *replayCmd) Run(a *app) error {
	o, err := c.options(a)
	if err != nil {
		return err
	}
	if o.Environment, err = c.environment(a); err != nil {
		return err
	}
	file, err := a.recording(c.File)
	if err != nil {
		return a.refuseRecording(err)
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	v, err := k.Replay(a.ctx, file, o)
	if err != nil {
		return a.refuseRecording(err)
	}
	if a.cli.JSON {
		v.Result = plain(v.Result)
		err = a.printJSON(v)
	} else {
		a.con.Out(verdictText(v))
		err = a.outputError()
	}
	if err == nil && !v.Equal {
		err = exitCode(agentkernel.ExitFailed)
	}
	return err
}

// environment is the one that the flags name; "": none. What the recorded program asks for itself is not installed: a
// stranger may have written it.
func (c *replayCmd) environment(a *app) (string, error) {
	var p agentkernel.Program
	err := a.addPackages(&c.packageFlags, &p)
	return p.Host, err
}

// options reads the two limits as run does.
func (c *replayCmd) options(a *app) (agentkernel.ReplayOptions, error) {
	set, err := a.settings()
	if err != nil {
		return agentkernel.ReplayOptions{}, err
	}
	cfg := *set
	cfg.Limits = agentkernel.Limits{}
	for _, f := range []struct{ key, flag, value string }{{"limits.time", "--time", c.Time}, {"limits.memory", "--memory", c.Memory}} {
		if f.value != "" {
			if err := cfg.SetFlag(f.key, f.flag, f.value); err != nil {
				return agentkernel.ReplayOptions{}, err
			}
		}
	}
	return replayLimits(&cfg), nil
}

func replayLimits(c *config.Config) agentkernel.ReplayOptions {
	return agentkernel.ReplayOptions{Time: c.Limits.Time, Memory: c.Limits.Memory}
}

// verdictText is a verdict for humans: one line if all is equal.
func verdictText(v agentkernel.Verdict) string {
	calls := fmt.Sprintf("%d calls", v.Calls)
	if v.Calls == 1 {
		calls = "1 call"
	}
	ended := string(v.State)
	switch {
	case v.Cut != "":
		ended = v.Cut
	case v.Error != nil:
		ended += " as recorded: " + firstLine(v.Error.Message())
	case v.ExitCode != 0:
		ended += fmt.Sprintf(" as recorded with code %d", v.ExitCode)
	default:
		ended += " as recorded"
	}
	var b strings.Builder
	if v.Equal {
		fmt.Fprintf(&b, "equal · %s · %s · %s printed · %s\n", v.Name, calls, console.Bytes(v.Output), ended)
	} else {
		fmt.Fprintf(&b, "differs · %s · at call %d: %s\n", v.Name, v.Calls, v.Difference)
	}
	if v.Engine != v.Recorded {
		fmt.Fprintf(&b, "the engine here is %s, the recording was made with %s\n", v.Engine, v.Recorded)
	}
	return console.Clean(b.String())
}
