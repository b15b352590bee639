package e2e_test

import (
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/usertest"
)

// Whatever the language of a program without a folder and however it ends, the files that go with its sandbox are named.
func TestFilesLeftBehind(t *testing.T) {
	usertest.BothWith(t, func(t *testing.T) {
		k := openEmbedded(t, home(t), withSandboxes(t))
		for name, c := range map[string]struct {
			language agentkernel.Language
			source   string
			args     []string
			exit     int
			want     string
		}{
			"python":    {agentkernel.Python, "open('a.txt', 'w').close()", nil, 0, "a.txt"},
			"sys.exit":  {agentkernel.Python, "import sys\nopen('a.txt', 'w').close()\nsys.exit(3)", nil, 3, "a.txt"},
			"exception": {agentkernel.Python, "open('a.txt', 'w').close()\n1/0", nil, 1, "a.txt"},
			// One that leaves Python at once may have gone before anybody could look: it makes a call first.
			"os._exit":      {agentkernel.Python, "import os\nfrom kernel import now\nopen('a.txt', 'w').close()\nnow()\nos._exit(3)", nil, 3, "a.txt"},
			"limit":         {agentkernel.Python, "open('a.txt', 'w').close()\nwhile True: pass", nil, 124, "a.txt"},
			"node":          {agentkernel.Node, `import { writeFileSync } from "fs"; writeFileSync("b.txt", "")`, nil, 0, "b.txt"},
			"node fails":    {agentkernel.Node, `import { writeFileSync } from "fs"; writeFileSync("b.txt", ""); throw new Error("no")`, nil, 1, "b.txt"},
			"shell":         {agentkernel.Script, "#!/bin/sh\ntouch c.txt", nil, 0, "c.txt"},
			"shell fails":   {agentkernel.Script, "#!/bin/sh\ntouch c.txt; exit 4", nil, 4, "c.txt"},
			"shell killed":  {agentkernel.Script, "#!/bin/sh\ntouch c.txt; kill -9 $$", nil, 137, "c.txt"},
			"command":       {agentkernel.Command, "touch", []string{"d.txt"}, 0, "d.txt"},
			"a folder":      {agentkernel.Command, "mkdir", []string{"e"}, 0, "e"},
			"most are told": {agentkernel.Command, "touch", strings.Split("9 8 7 6 5 4 3 2 1", " "), 0, "1 2 3 4 5 6"}, // one more than is said
			"not meant":     {agentkernel.Script, "#!/bin/sh\ntouch .hidden; mktemp; mktemp -d", nil, 0, ""},
			"taken away":    {agentkernel.Script, "#!/bin/sh\ntouch f; rm f", nil, 0, ""},
			"no words":      {agentkernel.Script, "#!/bin/sh\ntouch $(printf 'g\\377')", nil, 0, "g\uFFFD"},
			"none":          {agentkernel.Node, "1", nil, 0, ""},
		} {
			t.Run(name, func(t *testing.T) {
				s := agentkernel.Spec{Program: agentkernel.Program{Name: "p", Language: c.language, Source: c.source, Args: c.args}, Backend: "process"}
				if name == "limit" {
					s.Limits.Time = agentkernel.Duration(time.Second)
				}
				p := run(t, k, s)
				if got := strings.Join(p.Left, " "); got != c.want || p.ExitCode != c.exit {
					t.Errorf("left %q, want %q; exit %d %v %s", got, c.want, p.ExitCode, p.Error, p.stderr)
				}
				stored, err := k.Process(t.Context(), p.PID)
				if err != nil || strings.Join(stored.Left, " ") != c.want {
					t.Errorf("stored: %q %v", stored.Left, err)
				}
			})
		}
		for name, s := range map[string]agentkernel.Spec{
			"workspace": inFolder(folder(t, nil), "open('a.txt', 'w').close()"),
			"volume":    {Program: agentkernel.Program{Name: "p", Language: agentkernel.Command, Source: "touch", Args: []string{"/volumes/v/x", "y"}}, Volumes: []agentkernel.Volume{{Name: "v", Path: folder(t, nil)}}},
		} {
			s.Backend = "process"
			if p, want := run(t, k, s), map[string]string{"volume": "y"}[name]; strings.Join(p.Left, " ") != want || p.ExitCode != 0 {
				t.Errorf("%s: left %q, want %q; %d %v", name, p.Left, want, p.ExitCode, p.Error)
			}
		}
	}, func(string) []string {
		return []string{"AGENTKERNEL_MONTY=" + engine(t), envPython + "=" + systemPython(t)}
	})
}
