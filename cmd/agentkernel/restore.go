package main

import (
	"context"
	"io"
	"os"
	"strings"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/embedded"
	"agentkernel/internal/shellword"
)

type restoreCmd struct {
	File  string `arg:"" help:"A backup; - reads standard input."`
	Force bool   `help:"Move what is in the data directory aside first; nothing is deleted."`
	Moved bool   `help:"The original did nothing after the backup and never will: keep its identity, pause nothing."`
}

func (restoreCmd) Help() string {
	return `Puts a backup into the data directory, which must be empty, and on which no kernel may run. Everything is checked before
anything is in its place. What a process did after the backup is in no journal, so unfinished ones are paused until
you say that they may do it again: recover, then resume. Restore only what you made: a backup brings permissions along.

` + examples("agentkernel restore nightly.akb", "agentkernel restore nightly.akb --home /var/lib/agentkernel --moved",
		"ssh elsewhere cat kernel.akb | agentkernel restore - --force")
}

func (c *restoreCmd) Run(a *app) error {
	home, err := a.home()
	if err != nil {
		return err
	}
	in := a.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return fileError(c.File, err)
		}
		defer func() { _ = f.Close() }() // it was only read from
		in = f
	}
	done, err := a.restore(in, embedded.RestoreOptions{Home: home, Version: version, Force: c.Force, Moved: c.Moved})
	if err != nil {
		if done.Replaced != "" {
			a.con.Say("what was there before is in %s", done.Replaced)
		}
		if e := asError(err); c.File != "-" {
			return e.WithHint("%s", strings.ReplaceAll(e.Hint, "agentkernel restore FILE", "agentkernel restore "+shellword.File(c.File)))
		}
		return err
	}
	if a.cli.JSON {
		return a.printJSON(done)
	}
	a.con.Out("restored " + contentsText(done.BackupInfo) + ", as of " + done.Created.Local().Format("2006-01-02 15:04:05") + ", into " + done.Home + "\n")
	if done.Replaced != "" {
		a.con.Say("what was there before is in %s", done.Replaced)
	}
	switch {
	case done.Paused > 0:
		a.con.Say("%d unfinished, paused since what they did after the backup is not known here: agentkernel recover, then agentkernel resume PID", done.Paused)
	case done.Unfinished > 0:
		a.con.Say("%d unfinished: agentkernel recover", done.Unfinished)
	}
	return a.outputError()
}

// restore runs under a progress line.
func (a *app) restore(in io.Reader, o embedded.RestoreOptions) (done embedded.Restored, err error) {
	read := &countedReader{r: in}
	err = a.withStatus(a.ctx, func() string { return "restoring · " + console.Bytes(read.n.Load()) + " read" }, func(ctx context.Context) error {
		done, err = embedded.Restore(ctx, read, o)
		err = alone(err)
		return err
	})
	if agentkernel.CodeOf(err) == agentkernel.CodeNotFound {
		err = agentkernel.AsError(err, agentkernel.CodeStorage, "restore")
	}
	return done, err
}
