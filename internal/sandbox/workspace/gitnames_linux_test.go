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

// What a command runs that is none of its words.
func TestWithheldByCommandsOfGit(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	const module = "scripts/__init__.py scripts/conv scripts/conv.py scripts/conv/a.py"
	all := files{}
	for p := range strings.FieldsSeq("conv.py conv/a.py scripts/conv.py scripts/conv/a.py scripts/__init__.py scripts/pre scripts/pre.sh deep/scripts/pre.sh scripts/pre.js scripts/tool/__main__.py json.py main.py " +
		"Makefile scripts/Makefile package.json node_modules/.bin/fmt node_modules/.bin/other app/node_modules/.bin/fmt app/package.json test/x src/x Rakefile") {
		all[p] = "evil"
	}
	for command, left := range map[string]string{
		"python -m conv":                                                "conv conv.py conv/a.py json.py",
		"python3.11 -mscripts.conv %f":                                  "json.py " + module,
		`\"/opt/my python/bin/python3\" -m conv`:                        "conv conv.py conv/a.py json.py",
		"PYTHONPATH=scripts python -Im conv":                            "conv conv.py conv/a.py json.py scripts/conv scripts/conv.py scripts/conv/a.py",
		"!cd scripts && python -m conv":                                 "conv conv.py conv/a.py json.py scripts/conv scripts/conv.py scripts/conv/a.py",
		"python scripts/tool":                                           "scripts/tool scripts/tool/__main__.py",
		"!cd scripts && ./pre.sh":                                       "scripts/pre.sh",
		"!cd scripts && sh pre":                                         "scripts/pre",
		"!cd \"scripts\" && sh pre":                                     "scripts/pre",
		"!D=scripts; $D/pre.sh":                                         "deep/scripts/pre.sh scripts/pre.sh",
		"!D=scripts; sh ${D}/pre":                                       "scripts/pre",
		"!cd \"$(git rev-parse --show-toplevel)/scripts\" && sh pre.sh": "deep/scripts/pre.sh scripts scripts/Makefile scripts/__init__.py scripts/conv scripts/conv.py scripts/conv/a.py scripts/pre scripts/pre.js scripts/pre.sh scripts/tool scripts/tool/__main__.py",
		"!for f in scripts/tool/*; do $f; done":                         "scripts/tool scripts/tool/__main__.py",
		"!make test":                                                    "Makefile",
		"!make -C scripts":                                              "Makefile scripts/Makefile",
		"!cd $X && make":                                                "Makefile scripts/Makefile",
		"npx fmt --stdin":                                               "node_modules/.bin/fmt package.json",
		"!npm --prefix app run fmt":                                     "app/node_modules/.bin/fmt app/package.json node_modules/.bin/fmt package.json",
		"node scripts/pre":                                              "scripts/pre scripts/pre.js",
		"ruby -r./scripts/pre.sh x":                                     "scripts/pre.sh",
		"!rake":                                                         "Rakefile",
		"!f() { git commit -m \"$1\" -- src test; }; f":                 "",
		"!git log --format=%h src test":                                 "",
	} {
		t.Run(command, func(t *testing.T) {
			r := newRig(t, files{".git/config": "[alias]\n x = \"" + strings.ReplaceAll(command, `"`, `\"`) + "\"\n"})
			r.write(r.upper(""), all)
			got, err := r.apply(false)
			must(t, err)
			if names(got.Withheld) != left {
				t.Errorf("withheld: %s, want %s", names(got.Withheld), left)
			}
		})
	}
}

// Settings in the environment count as git takes them.
func TestWithheldByTheEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		left string
	}{
		"global":     {map[string]string{"GIT_CONFIG_GLOBAL": "HOME/any"}, "hooks/pre-commit"},
		"system":     {map[string]string{"GIT_CONFIG_SYSTEM": "HOME/any"}, "hooks/pre-commit"},
		"XDG":        {map[string]string{"XDG_CONFIG_HOME": "HOME/xdg"}, "hooks/pre-commit"},
		"inside":     {map[string]string{"GIT_CONFIG_GLOBAL": "FOLDER/mine"}, "mine"},
		"relative":   {map[string]string{"GIT_CONFIG_GLOBAL": "mine"}, "mine"},
		"counted":    {map[string]string{"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_KEY_1": "Core.HooksPath", "GIT_CONFIG_VALUE_1": "hooks"}, "hooks/pre-commit"},
		"parameters": {map[string]string{"GIT_CONFIG_PARAMETERS": `'a.b=it'\''s' 'filter.x.y.clean'='sh mine'`}, "mine"},
		"old ones":   {map[string]string{"GIT_CONFIG_PARAMETERS": `'core.hookspath=hooks'`}, "hooks/pre-commit"},
		"a command":  {map[string]string{"GIT_EXTERNAL_DIFF": "./mine"}, "mine"},
		"none":       {map[string]string{"GIT_CONFIG_COUNT": "x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			r := newRig(t, files{".git/config": "", "hooks/": ""})
			r.write(home, files{"any": "[core] hooksPath = hooks\n", "xdg/git/config": "[core] hooksPath = hooks\n"})
			for key, value := range c.env {
				t.Setenv(key, strings.NewReplacer("HOME", home, "FOLDER", r.folder).Replace(value))
			}
			r.write(r.upper(""), files{"hooks/pre-commit": "evil", "mine": "evil"})
			got, err := r.apply(false)
			must(t, err)
			if names(got.Withheld) != c.left {
				t.Errorf("withheld: %s, want %s", names(got.Withheld), c.left)
			}
		})
	}
}

// Configs that the caller names count with those of the kernel's environment.
func TestWithheldByGitConfigsOfTheCaller(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	r := newRig(t, files{".git/config": "", "hooks/": ""})
	r.write(home, files{"any": "[core] hooksPath = hooks\n"})
	r.write(r.upper(""), files{"hooks/pre-commit": "evil", "mine": "evil", "plain": "p"})
	got, err := r.s.Apply(t.Context(), pid, agentkernel.ApplyOptions{GitConfigs: []string{filepath.Join(home, "any"), filepath.Join(r.folder, "mine"), "plain"}})
	must(t, err)
	if want := "hooks/pre-commit mine"; names(got.Withheld) != want {
		t.Errorf("withheld: %s, want %s", names(got.Withheld), want)
	}
}

// What the user's own config names by its whole path counts in a folder that is in no repository.
func TestWithheldByGitConfigWithoutARepository(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	r := newRig(t, files{"f": "f"})
	r.write(home, files{".gitconfig": "[core]\n hooksPath = " + r.folder + "/hooks\n editor = f\n"})
	r.write(r.upper(""), files{"hooks/pre-commit": "evil", "f": "g"})
	got, err := r.apply(false)
	must(t, err)
	if want := "hooks hooks/pre-commit"; names(got.Withheld) != want {
		t.Errorf("withheld: %s, want %s", names(got.Withheld), want)
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
