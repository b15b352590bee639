package main

import (
	"fmt"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
)

type artifactsCmd struct {
	PID string `arg:"" help:"A process that works or worked in a folder."`
}

func (artifactsCmd) Help() string {
	return `Lists the files that the process made or changed, with size and type. The process may still run.

` + examples("agentkernel artifacts 12", "agentkernel get 12 out/report.csv > report.csv", "agentkernel artifacts 12 --json | jq -r .[].path")
}

func (c *artifactsCmd) Run(a *app) error {
	k, changes, err := a.changes(c.PID)
	if err != nil {
		return err
	}
	defer k.Close()
	list := []agentkernel.Change{}
	var bytes int64
	for _, ch := range changes.Changes {
		if ch.Type == agentkernel.TypeFile && ch.Kind != agentkernel.FileDeleted {
			list = append(list, ch)
			bytes += ch.Size
		}
	}
	if a.cli.JSON {
		return a.printJSON(list)
	}
	rows := make([][]string, 0, len(list))
	for i := range list {
		row := []string{fileText(list[i].Name()), console.Bytes(list[i].Size), list[i].Media, string(list[i].Kind)}
		if list[i].LeftOut != "" {
			row[3] += ", " + leftOut(&changes, &list[i])
		}
		rows = append(rows, row)
	}
	a.con.Out(console.Table(rows, 1))
	a.con.Note("%s", artifactsNote(changes, len(list), bytes))
	return a.outputError()
}

func artifactsNote(c agentkernel.Changes, n int, bytes int64) string {
	switch {
	case c.State == agentkernel.LayerDiscarded:
		return fmt.Sprintf("the changes of process %d were discarded", c.PID)
	case n == 0:
		return "no files"
	}
	word := "files"
	if n == 1 {
		word = "file"
	}
	return fmt.Sprintf("%d %s, %s · one of them: agentkernel get %d FILE", n, word, console.Bytes(bytes), c.PID)
}

// changes reads a PID and what its process did to files. The caller closes the session.
func (a *app) changes(text string) (*session, agentkernel.Changes, error) {
	none := agentkernel.Changes{}
	asked, p, err := a.question(text) // of what is not there no kernel is started to hear it
	if err != nil {
		return nil, none, err
	}
	if err := asked.Close(); err != nil {
		return nil, none, err
	}
	pid := p.PID
	k, err := a.kernel()
	if err != nil {
		return nil, none, err
	}
	c, err := k.Changes(a.ctx, pid)
	if err != nil {
		_ = k.Close() // it was only asked
		return nil, none, err
	}
	return k, c, nil
}
