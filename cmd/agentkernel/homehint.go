package main

import (
	"regexp"
	"strings"
	"sync"

	"agentkernel"
	"agentkernel/internal/shellword"
)

// ourCommands are commands as hints name them, with what stands before them: a path that ends in the name is no command.
var ourCommands = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|[^\w./-])agentkernel (` + strings.Join(agentkernel.Commands, "|") + `)\b`)
})

// withHome names the data directory of --home in the commands that a text advises: pasted without it they would act on the processes of
// another one. What the environment says, the shell has that they are pasted into.
func (a *app) withHome(text string) string {
	if a.cli.Home == "" || a.background {
		return text
	}
	home := strings.ReplaceAll(shellword.File(a.cli.Home), "$", "$$")
	return ourCommands().ReplaceAllString(text, "${1}agentkernel --home "+home+" $2")
}

// withHomeFormat is withHome for a format.
func (a *app) withHomeFormat(format string) string {
	if a.cli.Home == "" {
		return format
	}
	b := *a
	b.cli.Home = strings.ReplaceAll(a.cli.Home, "%", "%%")
	return b.withHome(format)
}

// hinted is an error whose hint names the data directory; nil for nil.
func (a *app) hinted(e *agentkernel.Error) *agentkernel.Error {
	if e == nil {
		return nil
	}
	if hint := a.withHome(e.Hint); hint != e.Hint {
		return e.WithHint("%s", hint)
	}
	return e
}
