package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A program makes no repository in which git would do what the program says: not in one apply nor in two, not in
// parts that git joins, and not beside what others have put there meanwhile.
func TestNoRepositoryIsMade(t *testing.T) {
	const config = "[core]\n repositoryformatversion = 0\n bare = false\n worktree = ..\n"
	for name, c := range map[string]struct {
		folder files
		rounds []files
		left   string // of the last round
		at     string
	}{
		"commondir": {nil, []files{{"pkg/HEAD": "ref: refs/heads/main\n", "pkg/commondir": "../store\n", "pkg/config.worktree": config, "store/objects/k": "", "store/refs/k": "",
			"store/config": config}}, "pkg/HEAD pkg/commondir pkg/config.worktree store/config", "pkg"},
		"commondir last":  {nil, []files{{"p/HEAD": "ref: refs/heads/main\n", "s/objects/k": "", "s/refs/k": ""}, {"p/commondir": "../s"}}, "p/commondir", "p"},
		"objects last":    {nil, []files{{"lib/HEAD": "ref: refs/heads/main\n", "lib/config": config}, {"lib/objects/k": "", "lib/refs/k": ""}}, "lib/objects lib/objects/k lib/refs lib/refs/k", "lib"},
		"HEAD last":       {nil, []files{{"lib/objects/k": "", "lib/refs/k": ""}, {"lib/HEAD": "ref: refs/heads/main\n"}}, "lib/HEAD", "lib"},
		"one by one":      {nil, []files{{"lib/HEAD": "x"}, {"lib/objects/k": ""}, {"lib/refs/k": "", "lib/HEAD": "ref: refs/heads/main\n"}}, "lib/HEAD lib/refs lib/refs/k", "lib"},
		"in the folder":   {files{"HEAD": "ref: refs/heads/main\n"}, []files{{"objects/k": "", "refs/k": "", "config": config}}, "config objects objects/k refs refs/k", "."},
		"a link as HEAD":  {nil, []files{{"l/HEAD": "@refs/heads/main", "l/objects/k": "", "l/refs/heads/main": "", "l/config": config}}, "l/HEAD l/config", "l"},
		"in refs of .git": {nil, []files{{".git/refs/HEAD": "ref: refs/heads/main\n", ".git/refs/objects/k": "", ".git/refs/refs/k": "", ".git/refs/config": config}}, ".git/refs/HEAD .git/refs/config", ".git/refs"},
		"another case":    {nil, []files{{"l/head": "ref: refs/heads/main\n", "l/OBJECTS/k": "", "l/Refs/k": "", "l/Config": config}}, "l/Config l/head", "l"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.folder)
			left := ""
			for i, round := range c.rounds {
				if i > 0 {
					r = newRigOn(t, r.folder)
				}
				r.write(r.upper(""), round)
				got, err := r.apply(false)
				must(t, err)
				left = names(got.Withheld)
			}
			if left != c.left {
				t.Errorf("withheld: %s, want %s", left, c.left)
			}
			git := exec.Command("git", "rev-parse", "--git-dir")
			git.Dir = filepath.Join(r.folder, c.at)
			git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(r.folder))
			if out, err := git.CombinedOutput(); err == nil && strings.TrimSpace(string(out)) == "." {
				t.Errorf("git takes %s for a repository", c.at)
			}
		})
	}
}

// What another process has applied since this one began counts.
func TestRepositoryOfTwoAtOnce(t *testing.T) {
	r := newRig(t, files{"f": "f"})
	must(t, os.MkdirAll(filepath.Join(r.folder, "lib"), 0o755))
	(&rig{t: t}).write(r.folder, files{"lib2": "x"})
	r = newRigOn(t, r.folder)
	r.write(r.upper(""), files{"lib/objects/k": "", "lib/refs/k": ""})
	(&rig{t: t}).write(r.folder, files{"lib/HEAD": "ref: refs/heads/main\n"})
	got, err := r.apply(true)
	must(t, err)
	if want := "lib/objects lib/objects/k lib/refs lib/refs/k"; names(got.Withheld) != want {
		t.Errorf("withheld: %s, want %s", names(got.Withheld), want)
	}
}

// In a repository all that git takes orders from is withheld, and its data is not.
func TestOrdersOfARepository(t *testing.T) {
	r := newRig(t, files{"b/HEAD": "ref: refs/heads/main\n", "b/objects/k": "", "b/refs/k": ""})
	r.write(r.upper(""), files{"b/rebase-merge/git-rebase-todo": "exec evil", "b/objects/info/alternates": "/", "b/objects/o": "o", "b/refs/heads/x": "x", "b/worktrees/w/HEAD": "x", "b/worktrees/w/commondir": "../.."})
	got, err := r.apply(false)
	must(t, err)
	if want := "b/objects/info/alternates b/rebase-merge b/rebase-merge/git-rebase-todo b/worktrees/w/HEAD b/worktrees/w/commondir"; names(got.Withheld) != want {
		t.Errorf("withheld: %s, want %s", names(got.Withheld), want)
	}
}

// What a link stands for is withheld if what its name says is.
func TestWithheldBehindLinks(t *testing.T) {
	for name, c := range map[string]struct {
		folder, change files
		left           string
	}{
		"a file":                  {files{".envrc": "@scripts/env.sh", "scripts/env.sh": "ok"}, files{"scripts/env.sh": "evil", "scripts/b": "b"}, "scripts/env.sh"},
		"a directory":             {files{".vscode": "@ci", "ci/tasks.json": "{}"}, files{"ci/tasks.json": "evil", "ci/new/x": "x", "cix": "x"}, "ci/new ci/new/x ci/tasks.json"},
		"the folder itself":       {files{".vscode": "@."}, files{"tasks.json": "evil"}, "tasks.json"},
		"a chain":                 {files{"CLAUDE.md": "@a", "a": "@b", "b": "@c", "c": "c"}, files{"a": "evil", "b": "evil", "c": "evil"}, "a b c"},
		"a link replaced":         {files{"CLAUDE.md": "@a", "a": "@b", "b": "b"}, files{"a": "@d", "d": "evil"}, "a d"},
		"through a directory":     {files{".envrc": "@d/env.sh", "d": "@real", "real/env.sh": "ok"}, files{"real/env.sh": "evil", "real/x": "x"}, "real/env.sh"},
		"one that leads nowhere":  {files{".envrc": "@d/e/env.sh"}, files{"d/e/env.sh": "evil", "d/x": "x"}, "d/e/env.sh"},
		"a link in the directory": {files{".github": "@gh", "gh/workflows": "@../wf", "wf/ci.yml": "ok"}, files{"wf/ci.yml": "evil"}, "wf/ci.yml"},
		"hooks":                   {files{".git/hooks": "@../myhooks", "myhooks/h": "ok"}, files{"myhooks/h": "evil"}, "myhooks/h"},
		"a repository":            {files{".git": "@real", "real/config": "c", "real/objects/1": ""}, files{"real/config": "evil", "real/objects/2": "", "real/hooks/h": "evil"}, "real/config real/hooks real/hooks/h"},
		"an ordinary name":        {files{"notes": "@a", "a": "a"}, files{"a": "b"}, ""},
		"a loop":                  {files{".vscode": "@ci", "ci/self": "@../ci", "ci/a": "a"}, files{"ci/a": "evil"}, "ci/a"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.folder)
			r.write(r.upper(""), c.change)
			got, err := r.apply(false)
			must(t, err)
			if names(got.Withheld) != c.left {
				t.Errorf("withheld: %s, want %s", names(got.Withheld), c.left)
			}
			if c.left != "" {
				got, err = r.named(strings.Fields(c.left)...)
				must(t, err)
				if len(got.Withheld) != 0 {
					t.Errorf("named, it is still withheld: %s", names(got.Withheld))
				}
			}
		})
	}
}

// A new link by which somebody who writes to it would write what the host acts on is withheld, and so is any link where git writes.
func TestNewLinksToWhatTheHostActsOn(t *testing.T) {
	repository := files{".git/HEAD": "ref: refs/heads/main\n", ".git/config": "c", ".git/hooks/pre-commit": "h", ".git/COMMIT_EDITMSG": "m", ".git/objects/1": "", ".git/refs/heads/main": "", ".git/logs/HEAD": "l"}
	bare := files{"b/HEAD": "ref: refs/heads/main\n", "b/config": "c", "b/objects/1": "", "b/refs/heads/main": ""}
	for name, c := range map[string]struct {
		folder, change files
		left           string
	}{
		"a message of git":          {repository, files{".git/COMMIT_EDITMSG": "@config", ".git/MERGE_MSG": "m"}, ".git/COMMIT_EDITMSG"},
		"a log of git":              {repository, files{".git/logs/HEAD": "@../hooks/pre-commit"}, ".git/logs/HEAD"},
		"to an ordinary file":       {repository, files{".git/FETCH_HEAD": "@../notes", "notes": "n"}, ".git/FETCH_HEAD"},
		"a directory of git":        {repository, files{".git/logs/refs": "@../hooks"}, ".git/logs/refs"},
		"of a repository by itself": {bare, files{"b/logs/HEAD": "@../config", "b/FETCH_HEAD": "@config"}, "b/FETCH_HEAD b/logs/HEAD"},
		"there":                     {files{".envrc": "e"}, files{"log.txt": "@.envrc", "x": "x"}, "log.txt"},
		"not there yet":             {nil, files{"out/log.txt": "@../.envrc", "x": "@out"}, "out/log.txt"},
		"a chain":                   {repository, files{"a": "@b", "b": "@.git/hooks/post-commit"}, "a b"},
		"over a link that is there": {files{"b": "@.git/config", ".git/config": "c"}, files{"a": "@b"}, "a"},
		"a directory":               {files{".vscode/tasks.json": "{}"}, files{"build": "@.vscode"}, "build"},
		"to what is ordinary":       {repository, files{"a": "@b", "b": "b", "c": "@none", "d": "@src", "src/x": "x"}, ""},
		"none any more":             {files{"a": "@.envrc", ".envrc": "e"}, files{"a": "plain"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.folder)
			r.write(r.upper(""), c.change)
			got, err := r.apply(false)
			must(t, err)
			if names(got.Withheld) != c.left {
				t.Errorf("withheld: %s, want %s", names(got.Withheld), c.left)
			}
			if c.left != "" {
				got, err = r.named(strings.Fields(c.left)...)
				must(t, err)
				if len(got.Withheld) != 0 {
					t.Errorf("named, it is still withheld: %s", names(got.Withheld))
				}
			}
		})
	}
}

// A link by the folder's own path leads into the folder as one that does not leave it.
func TestWithheldBehindAbsoluteLinks(t *testing.T) {
	r := newRig(t, files{"scripts/env.sh": "ok", "up": "u"})
	must(t, os.Symlink(filepath.Join(r.folder, "scripts/env.sh"), filepath.Join(r.folder, ".envrc")))
	must(t, os.Symlink("../"+filepath.Base(r.folder)+"/up", filepath.Join(r.folder, "AGENTS.md")))
	r = newRigOn(t, r.folder)
	r.write(r.upper(""), files{"scripts/env.sh": "evil", "up": "evil"})
	got, err := r.apply(false)
	must(t, err)
	if want := "scripts/env.sh up"; names(got.Withheld) != want {
		t.Errorf("withheld: %s, want %s", names(got.Withheld), want)
	}
}
