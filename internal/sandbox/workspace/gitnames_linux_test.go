package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
)

// What a config of git names in the folder is withheld, and nothing beside it.
func TestWithheldByGitConfig(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	change := files{"scripts/pre-commit": "evil", "scripts/deep/f": "evil", "tools/x": "x", "x y/z": "z", "git.inc": "evil"}
	const all = "scripts scripts/deep scripts/deep/f scripts/pre-commit"
	for name, c := range map[string]struct {
		folder files
		left   string
	}{
		"hooks":                       {files{".git/config": "[core]\n\thooksPath = scripts\n"}, all},
		"hooks in another case":       {files{".git/config": "[CORE]\nHOOKSPATH=Scripts/\n"}, all},
		"hooks of a push":             {files{".git/config": "[core] hooksPath = ../scripts\n"}, all},
		"hooks of all":                {files{".git/config": "[core] hooksPath = .\n", "scripts/": "", "tools/": "", "x y/": ""}, "git.inc scripts/deep scripts/deep/f scripts/pre-commit tools/x x y/z"},
		"hooks for a work tree":       {files{".git/config": "", ".git/config.worktree": "[core] hooksPath = scripts"}, all},
		"hooks elsewhere":             {files{".git/config": "[core]\n hooksPath = /dev/null\n hooksPath = ../scripts/../../x\n"}, ""},
		"a comment":                   {files{".git/config": "# [core] hooksPath = scripts\n[core]\n;hooksPath = scripts\n"}, ""},
		"another section":             {files{".git/config": "[user]\n name = scripts\n hooksPath = scripts\n"}, ""},
		"include":                     {files{".git/config": "[include]\n path = ../git.inc\n"}, "git.inc"},
		"include on a condition":      {files{".git/config": "[includeIf \"gitdir:/x]\"]path=../git.inc\n"}, "git.inc"},
		"what is included":            {files{".git/config": "[include]\n path = ../a.inc\n", "a.inc": "[include]\n path = b.inc\n", "b.inc": "[core] hooksPath = scripts\n[include] path = a.inc\n"}, all},
		"fsmonitor":                   {files{".git/config": "[core]\n fsmonitor = scripts/pre-commit\n"}, "scripts/pre-commit"},
		"a filter":                    {files{".git/config": "[filter \"f\"]\n clean = \"sh -c 'tools/x %f'\" ; why\n"}, "tools/x"},
		"a filter with variables":     {files{".git/config": "[filter \"f\"]\n smudge = X=1 \\\n \"\\\"$(git rev-parse --show-toplevel)/tools/x\\\"\"\n"}, "tools/x"},
		"a name with a space":         {files{".git/config": "[diff \"f\"]\n textconv = \\\"x y/z\\\"\n"}, "x y/z"},
		"below a directory":           {files{".git/config": "[merge \"m\"]\n driver = cd ./scripts && ./pre-commit\n", "scripts/": ""}, "scripts/deep scripts/deep/f scripts/pre-commit"},
		"a word that is no file":      {files{".git/config": "[alias]\n t = !make tools scripts\n", "scripts/": "", "tools/": ""}, ""},
		"an alias":                    {files{".git/config": "[alias]\n t = !sh git.inc\n"}, "git.inc"},
		"a program for keys":          {files{".git/config": "[gpg \"ssh\"]\n program = ./tools/x\n"}, "tools/x"},
		"a repository below":          {files{"scripts/.git/config": "[core] hooksPath = deep\n"}, "scripts/deep scripts/deep/f"},
		"a submodule":                 {files{"scripts/.git": "gitdir: ../.git/modules/s\n", ".git/modules/s/config": "[core]\n worktree = ../../../scripts\n hooksPath = deep\n", ".git/config": ""}, "scripts/deep scripts/deep/f"},
		"a linked work tree":          {files{"scripts/.git": "gitdir: ../.git/worktrees/s\n", ".git/worktrees/s/commondir": "../..\n", ".git/config": "[core] hooksPath = deep\n"}, "scripts/deep scripts/deep/f"},
		"a link on the way":           {files{".git/config": "[core] hooksPath = hooks\n", "hooks": "@scripts", "scripts/": ""}, "scripts/deep scripts/deep/f scripts/pre-commit"},
		"a config that is too large":  {files{".git/config": strings.Repeat("#\n", maxGitConfig), "scripts/": "", "tools/": "", "x y/": ""}, "git.inc scripts/deep scripts/deep/f scripts/pre-commit tools/x x y/z"},
		"a directory in place of one": {files{".git/config/": ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.folder)
			r.write(r.upper(""), change)
			got, err := r.apply(false)
			must(t, err)
			if names(got.Withheld) != c.left {
				t.Errorf("withheld: %s, want %s: %+v", names(got.Withheld), c.left, got.Withheld)
			}
			var paths []string
			for i := range got.Withheld {
				paths = append(paths, got.Withheld[i].Name())
			}
			if paths == nil {
				return
			}
			if got, err = r.named(paths...); err != nil || len(got.Withheld) != 0 {
				t.Errorf("named, it is still withheld: %v %s", err, names(got.Withheld))
			}
		})
	}
}

// A folder that is a part of a work tree, and the user's own config.
func TestWithheldByGitConfigElsewhere(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	r := newRig(t, files{"f": "f"})
	r.write(filepath.Dir(r.folder), files{".git/config": "[core] hooksPath = folder/hooks\n"})
	r.write(home, files{".gitconfig": "[diff] external = folder/f\n"})
	r.write(r.upper(""), files{"hooks/pre-commit": "evil", "f": "evil", "g": "g"})
	got, err := r.apply(false)
	must(t, err)
	if want := "f hooks hooks/pre-commit"; names(got.Withheld) != want {
		t.Errorf("withheld: %s, want %s", names(got.Withheld), want)
	}
	if got, err = r.named("hooks"); err != nil || len(got.Withheld) != 0 || got.Added != 2 { // all of the directory is hooks
		t.Errorf("named: %v %+v", err, got)
	}
}

// What a program writes is not run by git itself.
func TestGitRunsNothingThatWasApplied(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	for name, setting := range map[string][]string{"hooks": {"core.hooksPath", "scripts"}, "include": {"include.path", "../scripts/git.inc"}, "fsmonitor": {"core.fsmonitor", "scripts/fsm"},
		"filter": {"filter.f.clean", "sh scripts/clean"}, "textconv": {"diff.f.textconv", "./scripts/clean"}, "alias": {"alias.x", "!sh scripts/clean"}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			mark := filepath.Join(t.TempDir(), "ran")
			r := newRig(t, files{"a.txt": "a\n", ".gitattributes": "*.txt filter=f diff=f\n"})
			run := func(args ...string) {
				git := exec.Command("git", append([]string{"-C", r.folder, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"}, args...)...)
				_ = git.Run() // what matters is what it ran
			}
			run("init", "-q")
			run("add", ".")
			run("commit", "-q", "-m", "x")
			run(append([]string{"config"}, setting...)...)
			r = newRigOn(t, r.folder)
			evil := "#!/bin/sh\ntouch " + mark + "\ncat\n"
			r.write(r.upper(""), files{"scripts/pre-commit": evil, "scripts/fsm": evil, "scripts/clean": evil, "scripts/git.inc": "[core]\n\tfsmonitor = \"touch " + mark + "; false\"\n", "a.txt": "b\n"})
			for _, p := range []string{"pre-commit", "fsm", "clean"} {
				must(t, os.Chmod(r.upper("scripts/"+p), 0o755))
			}
			apply := func(paths ...string) (held []string) {
				got, err := r.s.Apply(t.Context(), pid, agentkernel.ApplyOptions{Paths: paths, Force: true})
				must(t, err)
				for _, args := range [][]string{{"status"}, {"diff"}, {"x"}, {"add", "-A"}, {"commit", "-q", "-m", "y"}} {
					run(args...)
				}
				for i := range got.Withheld {
					held = append(held, got.Withheld[i].Name())
				}
				return held
			}
			held := apply()
			if _, err := os.Stat(mark); err == nil {
				t.Error("git ran what a program wrote")
			}
			apply(held...)
			if name == "textconv" || name == "filter" {
				must(t, os.WriteFile(filepath.Join(r.folder, "a.txt"), []byte("c\n"), 0o644))
				run("diff")
				run("add", "-A")
			}
			if _, err := os.Stat(mark); err != nil {
				t.Error("named, git does not run it: the test shows nothing")
			}
		})
	}
}

// A config means what git says that it means.
func TestGitSettings(t *testing.T) {
	const text = "\ufeff[core]\r\n\thooksPath = a b # no\n\tX=\"c # d\"e;f\n[a.B] k = \"q\\\"r\\\\\" s\\\n  t\n[include \"x]\\\"y\"] path=z ; c\n\tbare\n; [no]\n[ alias ]\n"
	var got []string
	for _, s := range gitSettings(text) {
		got = append(got, s.key+"="+s.value)
	}
	if got, want := strings.Join(got, "|"), `core.hookspath=a b|core.x=c # de|a.k=q"r\ s  t|include.path=z|include.bare=`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git")
	}
	file := filepath.Join(t.TempDir(), "config")
	must(t, os.WriteFile(file, []byte(strings.TrimSuffix(text, "[ alias ]\n")), 0o644))
	out, err := exec.Command(git, "config", "-z", "-f", file, "--list").Output()
	must(t, err)
	var theirs []string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		key, value, _ := strings.Cut(line, "\n")
		section, _, _ := strings.Cut(key, ".")
		theirs = append(theirs, section+key[strings.LastIndexByte(key, '.'):]+"="+value)
	}
	if strings.Join(got, "|") != strings.Join(theirs, "|") {
		t.Errorf("%q, git has %q", got, theirs)
	}
}
