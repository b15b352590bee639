package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/usertest"
)

func TestWhatTheHostActsOn(t *testing.T) {
	for p, want := range map[string]bool{
		".git/hooks/pre-commit": true, ".git/config": true, "sub/.git/config": true, ".GIT/Config": true, ".git/info/attributes": true, ".git/modules/x/config": true,
		".git/rebase-merge/git-rebase-todo": true, ".git/objects/info/alternates": true, ".git": true, ".gitmodules": true,
		".git/objects/ab/cdef": false, ".git/refs/heads/main": false, ".git/HEAD": false, ".git/index": false, ".git/logs/HEAD": false, ".git/COMMIT_EDITMSG": false,
		".envrc.local": true, ".envrc.private": true, "flake.nix": true, "devenv.nix": true, "shell.nix": true, ".direnv/x": true, ".mcp.yml": true, ".nvim/init.lua": true, "default.nix": false,
		".envrc": true, "a/b/.envrc": true, ".env": true, ".env.local": true, ".env.example": false, "env": false, ".environment": false,
		".mcp.json": true, "mcp.json": true, "agentkernel.toml": true, "sub/agentkernel.toml": true, "my-mcp-servers.json": true,
		".github/workflows/ci.yml": true, ".github": true, ".gitlab-ci.yml": true, ".circleci/config.yml": true, "Jenkinsfile": true, "github/workflows/ci.yml": false,
		".vscode/tasks.json": true, ".vscode/settings.json": true, "x.code-workspace": true, ".idea/workspace.xml": true, ".devcontainer/devcontainer.json": true,
		".husky/pre-commit": true, ".pre-commit-config.yaml": true, "lefthook.yml": true, ".config": true, ".config/fish/config.fish": true,
		".claude/settings.json": true, "CLAUDE.md": true, "AGENTS.md": true, ".cursor/mcp.json": true, ".npmrc": true, ".yarnrc.yml": true, ".cargo/config.toml": true,
		"sitecustomize.py": true, ".hg/hgrc": true, ".ssh/authorized_keys": true, ".bashrc": true,
		"lefthook.toml": true, ".lefthook-local.json": true, "prek.toml": true, ".sl/config": true, ".sl/store/x": false, ".helix/languages.toml": true, ".lazy.lua": true, ".ycm_extra_conf.py": true,
		"AGENTS.override.md": true, "QWEN.md": true, "CRUSH.md": true, ".crush.json": true, "WARP.md": true, ".rules": true, ".trae/rules/x.md": true, ".clinerules/x.md": true, ".augment/x": true, ".augment-guidelines": true, ".kilocode/mcp.json": true,
		".venv/bin/python": true, ".venv/Scripts/python.exe": true, "venv/bin/pip": true, ".venv/pyvenv.cfg": true, ".venv/lib/python3.13/site-packages/x.pth": true, "site-packages/a/x.pth": false, "model.pth": false,
		".venv/lib/python3.13/site-packages/x.py": false, "bin/python": false, "rules": false, "prek.py": false,
		".agent/rules/x.md": true, ".aiassistant/rules/x.md": true, ".claude-plugin/plugin.json": true, "Replit.md": true, ".roomodes": true, ".continuerules": true, ".plandex-v2/x": true,
		".Git/hooks/pre-commit": true, ".gıt/config": false, ".g\u200cit/config": true, ".git\ufeff/config": true, ".git./config": true, ".git . /hooks/x": true, "GIT~1/config": true, "git~1": true, "git~x/config": false, "agit~1/config": false,
		".ſsh/config": true, ".ßh/config": true, ".vſcode/tasks.json": true, ".conﬁg/x": true, ".K\u200biro/x": true, ".\u212airo/x": true, ".env .": true, "a.\u00adenvrc": false, ".env\ufe0frc": true,
		"Makefile": false, "package.json": false, "src/main.py": false, "conftest.py": false, "README.md": false, "hooks/pre-commit": false, "config": false, "vscode/tasks.json": false,
	} {
		if got := actsPath(p, true); (got != "") != want {
			t.Errorf("%s: %q, want withheld: %t", p, got, want)
		}
	}
	for p, want := range map[string]bool{".git": false, ".config": true, ".vscode": true, ".git/hooks": true, ".git/objects": false, "src": false} {
		if got := actsPath(p, false); (got != "") != want {
			t.Errorf("the directory %s: %q, want withheld: %t", p, got, want)
		}
	}
}

func names(list []agentkernel.Change) string {
	var out []string
	for i := range list {
		out = append(out, list[i].Name())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestWithheldUntilItIsNamed(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		for _, copies := range []bool{false, true} {
			r := newRig(t, files{"edit": "old", "drop": "d", ".git/config": "mine", ".git/HEAD": "h", ".vscode/settings.json": "s"}, func(c *Config, _ *agentkernel.Spec) { c.Copy = copies })
			must(t, os.RemoveAll(r.upper("drop")))
			if !copies {
				r.whiteout("drop")
			}
			r.write(r.upper(""), files{"edit": "newer", "new/f": "n", ".git/hooks/pre-commit": "evil", ".git/config": "evil!", ".git/HEAD": "h2", "sub/.envrc": "evil", ".github/workflows/ci.yml": "evil"})
			got, err := r.apply(false)
			must(t, err)
			const all = ".git/config .git/hooks .git/hooks/pre-commit .github .github/workflows .github/workflows/ci.yml sub/.envrc"
			if names(got.Withheld) != all || got.Added != 3 || got.Changed != 2 || got.Deleted != 1 {
				t.Errorf("withheld: %s; %+v", names(got.Withheld), got)
			}
			want := files{"edit": "newer", "new/f": "n", ".git/config": "mine", ".git/HEAD": "h2", ".vscode/settings.json": "s", "sub/": ""}
			r.expect(want)
			for range 2 { // once more: nothing but what is withheld waits
				got, err = r.apply(false)
				must(t, err)
				if names(got.Withheld) != all || got.Added+got.Changed+got.Deleted != 0 {
					t.Errorf("again: %+v", got)
				}
			}
			c, err := r.s.Changes(pid)
			must(t, err)
			if c.State != agentkernel.LayerKept || len(c.Drift) != 0 || c.Count(agentkernel.FileAdded) != 6 || c.Count(agentkernel.FileChanged) != 1 || c.Count(agentkernel.FileDeleted) != 0 {
				t.Errorf("changes %+v", c)
			}
			if _, err := r.s.Open(pid, agentkernel.FileName{Path: "edit", Before: true}); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
				t.Errorf("edit as it was before: %v", err)
			}
			_, err = r.named("nothing")
			wantCode(t, err, agentkernel.CodeInvalid, "no change at nothing")
			_, err = r.named("../x")
			wantCode(t, err, agentkernel.CodeInvalid)
			got, err = r.named("sub", ".git/hooks") // a directory with other things takes nothing along that is withheld
			must(t, err)
			if got.Added != 2 || names(got.Withheld) != "sub/.envrc" || got.Waiting != 4 {
				t.Errorf("named: %+v", got)
			}
			want[".git/hooks/pre-commit"] = "evil"
			r.expect(want)
			_, err = r.named("sub/.envrc", ".git", ".github/workflows/ci.yml")
			must(t, err)
			delete(want, "sub/")
			want["sub/.envrc"], want[".git/config"], want[".github/workflows/ci.yml"] = "evil", "evil!", "evil"
			r.expect(want)
			if c, err = r.s.Changes(pid); err != nil || c.State != agentkernel.LayerApplied || len(c.Changes) != 13 {
				t.Errorf("changes %v %+v", err, c)
			}
			left, err := os.ReadDir(r.s.path(pid))
			must(t, err)
			if len(left) != 1 {
				t.Errorf("the layer is still there: %v", left)
			}
		}
	})
}

func (r *rig) named(paths ...string) (agentkernel.Applied, error) {
	return r.s.Apply(r.t.Context(), pid, agentkernel.ApplyOptions{Paths: paths})
}

// What a link, a file in place of a directory, or a removal does to what the host acts on is withheld, too, and takes
// nothing else along.
// TestLocalToolsAreWithheld: an assistant is told what they say of themselves.
func TestLocalToolsAreWithheld(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		r := newRig(t, files{"lib/old.py": "o", "tools/linked": "@../lib"})
		r.write(r.upper(""), files{"tools/srv/y.py": "evil", "tools/srv/notes.txt": "n", "tools/run.py": "r", "tools/README": "r", "lib/old.py": "evil", "scripts/z.py": "z"})
		must(t, os.Symlink("../scripts", r.upper("tools/more")))
		got, err := r.apply(false)
		must(t, err)
		if all := "lib/old.py tools/more tools/srv/y.py"; names(got.Withheld) != all {
			t.Errorf("withheld: %s, want %s", names(got.Withheld), all)
		}
	})
}

func TestWithheldInOtherWays(t *testing.T) {
	repo := files{".git/config": "c", ".git/objects/1": "1", ".git/hooks/h": "h", "bare/HEAD": "ref", "bare/objects/1": "1", "bare/refs/r": "r"}
	for name, c := range map[string]struct {
		do   func(r *rig)
		left string
		want files // of what differs from repo
	}{
		"a link for the repository": {func(r *rig) {
			r.write(r.upper(""), files{".git": "@other", "other/config": "evil"})
		}, ".git .git/config .git/hooks .git/hooks/h .git/objects .git/objects/1", files{"other/config": "evil"}},
		"the repository is removed": {func(r *rig) { r.whiteout(".git") }, ".git .git/config .git/hooks .git/hooks/h", files{".git/objects/1": "-"}},
		"a hook is removed":         {func(r *rig) { r.whiteout(".git/hooks/h") }, ".git/hooks/h", nil},
		"a link for a directory": {func(r *rig) {
			r.write(r.upper(""), files{".github": "@elsewhere", "elsewhere/workflows/x.yml": "evil"})
		}, ".github", files{"elsewhere/workflows/x.yml": "evil"}},
		"a repository without a name": {func(r *rig) {
			r.write(r.upper(""), files{"bare/config": "evil", "bare/hooks/h": "evil", "bare/x": "x"})
		},
			"bare/config bare/hooks bare/hooks/h", files{"bare/x": "x"}},
		"one that becomes one": {func(r *rig) {
			r.write(r.upper(""), files{"d/HEAD": "h", "d/objects/o": "o", "d/refs/r": "r", "d/config": "evil"})
		}, "d/HEAD d/config", files{"d/objects/o": "o", "d/refs/r": "r"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, repo)
			c.do(r)
			got, err := r.apply(false)
			must(t, err)
			if names(got.Withheld) != c.left {
				t.Errorf("withheld: %s, want %s", names(got.Withheld), c.left)
			}
			want := files{}
			for _, m := range []files{repo, c.want} {
				for p, text := range m {
					if want[p] = text; text == "-" {
						delete(want, p)
					}
				}
			}
			r.expect(want)
		})
	}
}

// What is never applied does not wait where other files are named, and is counted apart.
func TestNeverAppliedDoesNotWait(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		r := newRig(t, files{})
		r.write(r.upper(""), files{"a": "a", "b": "b", "in": "@a", "away": "@/etc", "d/up": "@../../x"})
		if c, err := r.s.Changes(pid); err != nil || c.Count(agentkernel.FileAdded) != 4 || c.Never() != 2 {
			t.Errorf("%v: %d added, %d never applied", err, c.Count(agentkernel.FileAdded), c.Never())
		}
		got, err := r.named("a")
		must(t, err)
		if names(got.LeftOut) != "away d/up" || got.Waiting != 3 {
			t.Errorf("a alone: left out %s, %d wait", names(got.LeftOut), got.Waiting)
		}
		got, err = r.named("b", "in", "d")
		must(t, err)
		c, err := r.s.Changes(pid)
		must(t, err)
		if got.Waiting != 0 || c.State != agentkernel.LayerApplied || c.Never() != 2 {
			t.Errorf("all that can be: %d wait, %s, %d never applied", got.Waiting, c.State, c.Never())
		}
	})
}

func TestSomeOfTheChanges(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		r := newRig(t, start)
		r.work()
		got, err := r.named("made/deep/f", "swap", "tree/b", "plain2")
		must(t, err)
		if got.Added != 4 || got.Changed != 1 || got.Deleted != 3 || got.Waiting != 10 {
			t.Errorf("%+v", got)
		}
		r.expect(files{"keep": "k", "edit": "old", "drop": "d", "tree/a": "a", "swap": "a file now", "plain": "p", "hide/1": "1", "hide/2": "2", "ln": "@keep",
			"made/deep/f": "f", "plain2": "@keep"})
		must(t, os.WriteFile(filepath.Join(r.folder, "edit"), []byte("his"), 0o644))
		_, err = r.apply(false)
		wantCode(t, err, agentkernel.CodeConflict, "edit was changed meanwhile")
		_, err = r.named("tree", "plain")
		must(t, err)
		must(t, r.s.Discard(t.Context(), pid))
		c, err := r.s.Changes(pid)
		must(t, err)
		in := 0
		for i := range c.Changes {
			if c.Changes[i].Applied {
				in++
			}
		}
		if c.State != agentkernel.LayerDiscarded || in != 12 || len(c.Changes) != in {
			t.Errorf("%d of %d are in the folder: %+v", in, len(c.Changes), c)
		}
		r.expect(files{"keep": "k", "edit": "his", "drop": "d", "swap": "a file now", "plain/in": "i", "hide/1": "1", "hide/2": "2", "ln": "@keep", "made/deep/f": "f", "plain2": "@keep"})
	})
}

// What a program removes is removed, whatever it was.
func TestLinksAndPipesAreRemoved(t *testing.T) {
	r := newRig(t, files{"out": "@/etc", "in": "@out", "f": "f"})
	must(t, os.Remove(filepath.Join(r.folder, "f")))
	r = newRigOn(t, r.folder)
	r.whiteout("out")
	r.whiteout("in")
	got, err := r.apply(false)
	must(t, err)
	if got.Deleted != 2 || len(got.LeftOut) != 0 {
		t.Errorf("%+v", got)
	}
	r.expect(files{})
}

// The page names what is withheld, and what is hidden.
func TestThePageNamesTheTables(t *testing.T) {
	page, err := os.ReadFile("../../../docs/workspace.md")
	must(t, err)
	for _, groups := range [][]group{actingGroups, secretGroups} {
		for _, g := range groups {
			row := "| " + g.why + " | `" + strings.Join(g.names, "`, `") + "` |"
			if !strings.Contains(string(page), row) {
				t.Errorf("docs/workspace.md has no line\n%s", row)
			}
		}
	}
}

func TestToolsFiles(t *testing.T) {
	for text, want := range map[string]bool{
		`{"mcpServers": {"a": {"command": "sh"}}}`:                                                    true,
		"\xef\xbb\xbf// a comment\n{\"servers\": {\"a\": {\"url\": \"http://x\",},},}":                true,
		`{"mcp\u0053ervers": {"a": {"c\u006fmmand": "sh"}}}`:                                          true,
		`{"a": 1, "mcpServers": {"b": {"disabled": true}, "a": {"Command": "sh"}}, "mcpServers": {}}`: true,
		`{"mcpServers": {}}`:                                        false,
		`{"mcpServers": {"a": {"command": "sh"}}`:                   false,
		`{"x": {"mcpServers": {"a": {"command": "sh"}}}}`:           false,
		`{"servers": [{"url": "https://api.example.com"}]}`:         false, // OpenAPI
		`{"servers": {"a": {"host": "x"}}}`:                         false,
		`[{"mcpServers": {"a": {"command": "sh"}}}]`:                false,
		`import json; print({"mcpServers": {"a": {"command": 1}}})`: false,
		``: false,
	} {
		if got := isToolsFile([]byte(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

// TestToolsFilesAreWithheld: the settings of the user may name a file of any name, and what a program writes to it would be started.
func TestToolsFilesAreWithheld(t *testing.T) {
	const before, after = `{"mcpServers": {"a": {"command": "ls"}}}`, `{"mcpServers": {"a": {"command": "evil"}}}`
	for _, copies := range []bool{false, true} {
		r := newRig(t, files{"servers.json": before, "gone.json": before, "link.json": before, "old.json": "{}", "data.json": "{}"}, func(c *Config, _ *agentkernel.Spec) { c.Copy = copies })
		for _, name := range []string{"gone.json", "link.json"} {
			must(t, os.RemoveAll(r.upper(name)))
		}
		if !copies {
			r.whiteout("gone.json")
		}
		r.write(r.upper(""), files{"servers.json": after, "old.json": after, "data.json": `{"a": 1}`, "link.json": "@data.json", "sub/any name": after, "large.json": after + strings.Repeat(" ", maxToolsFile)})
		got, err := r.apply(false)
		must(t, err)
		if want := "gone.json link.json old.json servers.json sub/any name"; names(got.Withheld) != want {
			t.Errorf("copies %t: withheld: %s, want %s", copies, names(got.Withheld), want)
		}
		for i := range got.Withheld {
			if why := got.Withheld[i].Withheld; why != startsServers {
				t.Errorf("%s: %q", got.Withheld[i].Name(), why)
			}
		}
		r.expect(files{"servers.json": before, "gone.json": before, "link.json": before, "old.json": "{}", "data.json": `{"a": 1}`, "sub/": "", "large.json": after + strings.Repeat(" ", maxToolsFile)})
		if got, err = r.named("sub"); err != nil || names(got.Withheld) != "sub/any name" {
			t.Errorf("a directory that is named takes it along: %v %s", err, names(got.Withheld))
		}
		if got, err = r.named("sub/any name", "servers.json"); err != nil || len(got.Withheld) != 0 {
			t.Errorf("named, it is still withheld: %v %s", err, names(got.Withheld))
		}
	}
}
