package assistant_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/assistant"
)

const oneServer = `{"mcpServers": {"a": {"command": "a"}}}`

// must ends the test if one of several steps failed.
func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The last look before a write is at what the files are then: a link that was planted after the plan is followed as little as one that
// was there before, and nothing was written until then.
func TestLinkPlantedAfterThePlan(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(t *testing.T, p *assistant.Place, outside string){
		"for the folder of the client's file": func(t *testing.T, p *assistant.Place, outside string) {
			must(t, os.Symlink(outside, filepath.Dir(p.File)))
		},
		"for the client's file, with the same content": func(t *testing.T, p *assistant.Place, outside string) {
			must(t, os.WriteFile(filepath.Join(outside, "same.json"), []byte(oneServer), 0o600), os.Remove(p.File),
				os.Symlink(filepath.Join(outside, "same.json"), p.File))
		},
		"for the tools file": func(t *testing.T, p *assistant.Place, outside string) {
			must(t, os.WriteFile(filepath.Join(outside, "tools.json"), []byte("{}"), 0o600), os.Symlink(filepath.Join(outside, "tools.json"), p.Tools))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			p := d.place("cursor", assistant.Project)
			if !strings.HasPrefix(name, "for the folder") {
				d.write(p.File, oneServer, 0o644)
			}
			in, err := p.Plan(assistant.Options{})
			must(t, err)
			outside := t.TempDir()
			plant(t, p, outside)
			if _, err := in.Apply(noon); agentkernel.CodeOf(err) != agentkernel.CodeDenied || !strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("%v", err)
			}
			for _, f := range []string{"same.json", "tools.json", "mcp.json"} {
				if b, err := os.ReadFile(filepath.Join(outside, f)); err == nil && strings.Contains(string(b), "agentkernel") {
					t.Errorf("%s outside of the project holds %s", f, b)
				}
			}
			if _, err := os.Stat(d.host.Config); !os.IsNotExist(err) {
				t.Error("a backup or a record was written")
			}
		})
	}
}

// What was edited between plan and write is neither replaced nor removed, whichever of the two files it is.
func TestEditedAfterThePlan(t *testing.T) {
	t.Parallel()
	const edited = `{"mcpServers": {"mine": {"command": "m"}}}`
	for name, c := range map[string]struct {
		undo bool
		file func(p *assistant.Place) string
	}{
		"install, the client's file":   {false, func(p *assistant.Place) string { return p.File }},
		"install, the tools file":      {false, func(p *assistant.Place) string { return p.Tools }},
		"uninstall, the client's file": {true, func(p *assistant.Place) string { return p.File }}, // which would be removed
		"uninstall, the tools file":    {true, func(p *assistant.Place) string { return p.Tools }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			p := d.place("claude", assistant.Project)
			if c.undo {
				d.install(p, assistant.Options{})
			}
			in, err := p.Plan(assistant.Options{})
			must(t, err)
			u, err := p.PlanUninstall()
			must(t, err)
			other := p.File
			if c.file(p) == other {
				other = p.Tools
			}
			before, _ := os.ReadFile(other)
			d.write(c.file(p), edited, 0o644)
			if c.undo {
				_, err = u.Apply(noon)
			} else {
				_, err = in.Apply(noon)
			}
			if agentkernel.CodeOf(err) != agentkernel.CodeConflict || !strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("%v", err)
			}
			if after, _ := os.ReadFile(other); d.read(c.file(p)) != edited || string(after) != string(before) {
				t.Errorf("%s holds %s, %s holds %s", c.file(p), d.read(c.file(p)), other, after)
			}
		})
	}
}

// A file of a project that has another name elsewhere is replaced, not written through.
func TestHardLinkIsNotWrittenThrough(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := d.place("claude", assistant.Project)
	const tools = `{"mcpServers": {}}`
	outside := t.TempDir()
	for file, text := range map[string]string{p.File: oneServer, p.Tools: tools} {
		other := filepath.Join(outside, filepath.Base(file))
		d.write(other, text, 0o644)
		must(t, os.Link(other, file))
	}
	is := func(what string) {
		t.Helper()
		if a, b := d.read(filepath.Join(outside, filepath.Base(p.File))), d.read(filepath.Join(outside, filepath.Base(p.Tools))); a != oneServer || b != tools {
			t.Errorf("after %s the other names hold %s and %s", what, a, b)
		}
	}
	d.install(p, assistant.Options{})
	if is("install"); !strings.Contains(d.read(p.File), "agentkernel") {
		t.Error(d.read(p.File))
	}
	d.uninstall(p)
	is("uninstall")
}

// A project that was entered through a link when install wrote its entry, or has been moved since, is put back as it was.
func TestProjectUnderAnotherName(t *testing.T) {
	t.Parallel()
	for name, rename := range map[string]func(d *desk){
		"a link":      func(d *desk) { d.host.Dir = filepath.Join(d.host.Home, "project") },
		"a link gone": func(d *desk) { must(d.t, os.Remove(d.host.Dir)); d.host.Dir = filepath.Join(d.host.Home, "project") },
		"another place": func(d *desk) {
			to := filepath.Join(d.host.Home, "moved")
			must(d.t, os.Rename(filepath.Join(d.host.Home, "project"), to))
			d.host.Dir = to
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			link := filepath.Join(d.host.Home, "link")
			must(t, os.Symlink(d.host.Dir, link))
			d.host.Dir = link
			for _, client := range []string{"claude", "cursor"} {
				d.host.Dir = link
				p := d.place(client, assistant.Project)
				d.write(p.File, oneServer, 0o644)
				d.install(p, assistant.Options{})
			}
			rename(d)
			p := d.place("cursor", assistant.Project)
			if again := d.install(p, assistant.Options{}); again.Changed {
				t.Error("the second installation changed something")
			}
			if u := d.uninstall(p); !u.Exact || d.read(p.File) != oneServer {
				t.Errorf("%+v\n%s", u, d.read(p.File))
			}
			if u := d.uninstall(p); !u.Nothing {
				t.Errorf("the second time: %+v", u)
			}
		})
	}
}

// An entry that stays is said to stay, and why.
func TestAnEntryThatStaysIsExplained(t *testing.T) {
	t.Parallel()
	for _, args := range []string{`["mcp", "--tools", "/srv/mcp.json"]`, `["mcp", "--project-tools", "myagentkernel.mcp.json"]`} {
		d := newDesk(t)
		p := d.place("claude", assistant.Project)
		d.write(p.File, `{"mcpServers": {"agentkernel": {"command": "agentkernel", "args": `+args+`}}}`, 0o644)
		u := d.uninstall(p)
		if !u.Nothing || len(u.Notes) != 1 || !strings.Contains(u.Notes[0], "agentkernel.mcp.json, and this one does not") {
			t.Errorf("%s: %+v", args, u)
		}
	}
}
