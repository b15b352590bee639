package workspace

import (
	"strings"
	"testing"
)

// Names by which other programs of the host run what a folder says, unasked; in whatever folder, and whatever the case.
func TestNamesThatActUnasked(t *testing.T) {
	for _, name := range []string{
		".zuul.yaml", "zuul.yaml", ".zuul.d/x", "zuul.d/x", "codemagic.yaml", "bitrise.yml", ".bitrise.yml", "wercker.yml", "render.yaml",
		".drone.yaml", ".drone.star", ".drone.jsonnet", ".travis.yaml", "heroku.yml", ".bashrc.d/x", ".bash_enter", ".xsessionrc", ".xserverrc",
		".forward", ".procmailrc", ".rhosts", ".shosts", ".k5login", ".mkshrc", ".rvmrc", ".factory/x", ".codebuddy/x", "codebuddy.md", ".iflow/x",
		"iflow.md", ".lingma/x", ".vibe/x", ".zencoder/x", ".tabnine/x", ".tabnine_root", ".copilot/x", ".rovodev/x", ".cline/x", ".amp/x",
		".rprofile", "rprofile.site", ".renviron", ".rdata", ".ghci", ".haskeline", ".ocamlinit", ".octaverc", "octaverc", ".iex.exs", ".erlang",
		".perldb", ".byebugrc", ".rdebugrc", ".rdbgrc", ".rdbgrc.rb", "maxima-init.mac", "maxima-init.lisp", ".sbclrc", ".guile", ".julia/x",
		".ipython/x", ".jupyter/x", "ipython_config.py", "jupyter_notebook_config.py", "gradle.properties", ".sbtopts", ".jvmopts", ".scalaopts",
		".psqlrc", ".sqliterc", ".my.cnf", ".mylogin.cnf", ".huskyrc.js", ".lefthook/pre-commit/x.sh", ".zshrc.zwc", ".zlogin.zwc", "_vimrc", "_gvimrc", ".trunk/x", "hk.pkl", ".hk.pkl", "captainhook.json",
		"_darcs/prefs/defaults", ".pijul/config", ".bzr/branch/branch.conf", ".fossil-settings/editor", "tools/srv/y.py", "tools",
		".jj/repo", ".jj/repo/config-id", ".jj/workspace-config.toml", ".jj/repo/store/git_target", ".pijul/hooks/x", "devbox.json", ".shadowenv.d/x", ".xonshrc", ".zshrc.local", ".bashrc.local",
		".vimrc.local", ".local.vimrc", ".bsp/sbt.json", ".bloop/x.json", "hie.yaml", ".ropeproject/config.py", ".solargraph.yml", ".phan/config.php", ".ctags.d/x", ".buckconfig", ".buckconfig.local", ".proverc",
	} {
		for _, p := range []string{name, "sub/" + strings.ToUpper(name)} {
			if actsPath(p, true) == "" {
				t.Errorf("%s is not withheld", p)
			}
		}
	}
	for _, p := range []string{".git/refs/heads/main.lock", ".git/refs/remotes/origin/main.lock", ".git/logs/HEAD.lock", ".git/objects/maintenance.lock", "sub/.git/refs/heads/x.lock/y", ".git/index.lock", ".git/packed-refs.lock"} {
		if actsPath(p, true) == "" {
			t.Errorf("%s is not withheld", p)
		}
	}
	for _, p := range []string{".git/refs/heads/main", ".git/refs/heads/lock", "refs/heads/main.lock", "analysis.R", "build.gradle", "CODEBUDDY.txt", "render.yaml.md", "tools/README.md", "tools/run.py", "tools/srv/y.txt", "tools/srv", "tools/a/b/c.py", "tools/_darcs/x", ".jj/repo/op_store/x", ".jj/working_copy/x", "eslint.config.js", ".rubocop.yml", ".flake8", ".phan/stubs/x.php"} {
		if why := actsPath(p, true); why != "" {
			t.Errorf("%s is withheld: %s", p, why)
		}
	}
}
