package main

import (
	"context"
	"fmt"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/config"
)

type pruneCmd struct {
	Older      string `required:"" placeholder:"SPAN" zero:"all" help:"Those that ended so long ago: 30d, 2w, 12h; 0s is all that have ended."`
	KeepFailed bool   `help:"Keep what did not end with exit code 0."`
	Namespace  string `placeholder:"NAME" help:"Only of this namespace."`
	DryRun     bool   `short:"n" help:"Only say what would go."`
}

func (pruneCmd) Help() string {
	return `Removes processes with their journals, and large payloads that nobody else names. A process that is not finished
stays, and so does one that another which stays may need: its children, and the past of a rerun. Running
processes are not held up. What a run changed in a folder and nobody has applied goes with it, and is told. The setting storage.keep does the same by itself. docs/housekeeping.md says more.

` + examples("agentkernel prune --older 30d --dry-run", "agentkernel prune --older 30d --keep-failed", "agentkernel prune --older 12h --namespace team-a --json")
}

func (c *pruneCmd) Run(a *app) error {
	span, err := config.ParseSpan(c.Older)
	if err != nil || span < 0 {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "prune", "--older %s: write 30d, 2w, 12h or 90m", c.Older).
			WithHint("agentkernel prune --older 30d --dry-run")
	}
	found, err := a.anythingToPrune()
	if err != nil || !found {
		return err
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	var out agentkernel.Pruned
	err = a.withProgress(a.ctx, "pruning", func(ctx context.Context) error {
		out, err = k.Prune(ctx, agentkernel.PruneOptions{Before: time.Now().Add(-span), Namespace: c.Namespace, KeepFailed: c.KeepFailed, DryRun: c.DryRun})
		return err
	})
	switch {
	case agentkernel.CodeOf(err) == agentkernel.CodeCanceled:
		return asError(err).WithHint("what was removed stays removed; prune again removes the rest")
	case err != nil:
		return err
	case a.cli.JSON:
		return a.printJSON(out)
	}
	a.con.Out(prunedText(out))
	return a.outputError()
}

// anythingToPrune spares a directory in which nothing ever ran a kernel of its own.
func (a *app) anythingToPrune() (bool, error) {
	k, err := a.reading()
	switch {
	case isNothingYet(err):
		if a.cli.JSON {
			return false, a.printJSON(agentkernel.Pruned{})
		}
		a.con.Out("nothing to prune\n")
		return false, a.outputError()
	case agentkernel.CodeOf(err) == agentkernel.CodeVersion:
		return true, nil // a kernel brings an old database up to date, or says what is wrong
	case err != nil:
		return false, err
	}
	return true, k.Close()
}

func prunedText(p agentkernel.Pruned) string {
	if p.Removed == (agentkernel.Removed{}) {
		return "nothing to prune" + keptText(p.Kept) + "\n"
	}
	verb, freed := "pruned ", "freed "+console.Bytes(p.Freed)
	if p.DryRun {
		verb, freed = "would prune ", "about "+console.Bytes(p.Freed)
	}
	return fmt.Sprintf("%s%s · %s · %s · %s%s\n%s", verb, counted(p.Processes, "process", "processes"), counted(p.Entries, "journal entry", "journal entries"),
		counted(p.Blobs, "blob", "blobs"), freed, keptText(p.Kept), unappliedText(p))
}

// unappliedText says what else goes with the processes; "": nothing does.
func unappliedText(p agentkernel.Pruned) string {
	switch {
	case p.Unapplied == 0:
		return ""
	case p.DryRun:
		return "with them would go the unapplied changes of " + counted(p.Unapplied, "run", "runs") + ": agentkernel apply lists the runs that wait\n"
	}
	return "with them went the unapplied changes of " + counted(p.Unapplied, "run", "runs") + "\n"
}

func keptText(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" · %s kept, because others need them", counted(n, "old process", "old processes"))
}

func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
