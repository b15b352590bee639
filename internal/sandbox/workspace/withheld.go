package workspace

import "strings"

// acting are the files by which a folder has the host do something: programs that the user runs for another reason find
// them there and do what they say, or hand them to a program. A change to one is withheld until it is named. What is run
// because the user runs it (a Makefile, package.json, a test) is not in the table: that is what the program was for.
// What `agentkernel mcp` offers unasked, local tools, is: their documentation goes to an assistant word for word.
// docs/workspace.md has the same list; a test compares them.
var acting = newTable(actingGroups)

var actingGroups = []group{
	{"git acts on it", []string{".gitconfig", ".gitmodules", ".git-credentials", ".lfsconfig"}},
	{"hooks of git run it", []string{".husky/", ".lefthook/", ".lefthook-local/", ".githooks/", ".pre-commit-config.yaml", ".pre-commit-config.yml", "lefthook*.yml", ".lefthook*.yml",
		"lefthook*.yaml", ".lefthook*.yaml",
		"lefthook*.toml", ".lefthook*.toml", "lefthook*.json", ".lefthook*.json", "prek.toml", ".overcommit.yml", ".lintstagedrc*", "lint-staged.config.*", ".simple-git-hooks.*", "simple-git-hooks.*",
		".huskyrc*", ".trunk/", "hk.pkl", ".hk.pkl", "captainhook.json"}},
	{"other version control acts on it", []string{".hg/hgrc*", ".hg/sharedpath", ".sl/config*", ".sl/sharedpath", ".jj/repo", ".jj/repo/config*", ".jj/repo/store/git_target", ".jj/*config*", ".svn/", "_darcs/prefs/", ".pijul/config", ".pijul/hooks/", ".bzr/branch/branch.conf",
		".fossil-settings/"}},
	{"CI runs it", []string{".github/", ".gitlab-ci*.yml", ".gitlab-ci*.yaml", ".gitlab/", ".circleci/", ".travis.yml", ".drone.yml", ".woodpecker.yml",
		".woodpecker.yaml", ".woodpecker/", "azure-pipelines*.yml", ".azure-pipelines/", ".azuredevops/", "bitbucket-pipelines.yml", "jenkinsfile*", ".buildkite/", "appveyor.yml",
		".appveyor.yml", ".cirrus.yml", ".cirrus.star", ".forgejo/", ".gitea/", ".teamcity/", ".semaphore/", ".tekton/", ".builds/", ".build.yml", "buildspec*.yml",
		"cloudbuild*.yaml", "netlify.toml", "vercel.json", ".readthedocs.yaml", ".readthedocs.yml",
		".zuul.yaml", "zuul.yaml", ".zuul.d/", "zuul.d/", "codemagic.yaml", "bitrise.yml", ".bitrise.yml", "wercker.yml", "render.yaml", ".drone.yaml", ".drone.star", ".drone.jsonnet", ".travis.yaml", "heroku.yml"}},
	{"the shell runs it when you enter the folder", []string{".envrc", ".env", ".env.*", "mise*.toml", ".mise*.toml", ".mise/", "mise/config*.toml", ".rtx.toml", ".tool-versions", ".prototools", "bin/activate-hermit", "bin/hermit", ".autoenv*",
		".rvmrc", ".envrc.*", ".direnv/", "flake.nix", "devenv.nix", "devbox.json", ".shadowenv.d/", "shell.nix"}},
	{"the shell or the session runs it", []string{".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".zshrc", ".zshenv", ".zprofile",
		".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".login", ".kshrc", ".inputrc", ".xprofile", ".xinitrc", ".xsession", ".pam_environment", ".tmux.conf", ".screenrc",
		".ssh/", ".gnupg/", ".config/", ".local/", "*.desktop", "autorun.inf", "desktop.ini",
		".bashrc.d/", ".bash_enter", ".xsessionrc", ".xserverrc", ".forward", ".procmailrc", ".rhosts", ".shosts", ".k5login", ".mkshrc", ".xonshrc", ".zshrc.local", ".bashrc.local", ".zshrc.zwc", ".zshenv.zwc", ".zprofile.zwc", ".zlogin.zwc", ".zlogout.zwc"}},
	{"editors act on it", []string{".vscode/", "*.code-workspace", ".idea/", ".zed/", ".fleet/", ".vs/", ".devcontainer/", ".devcontainer.json", ".vimrc", ".gvimrc", "_vimrc", "_gvimrc", ".exrc", "_exrc",
		".nvimrc", ".nvim.lua", ".nvim/", ".lvimrc", ".vim/", ".emacs", ".emacs.d/", ".dir-locals*.el", "*.sublime-project", ".gitpod.yml", ".gitpod.dockerfile", ".replit", ".idx/",
		".codesandbox/", ".project", ".classpath", ".settings/", ".helix/", ".lazy.lua", ".ycm_extra_conf.py", ".vimrc.local", ".local.vimrc", ".bsp/", ".bloop/", "hie.yaml", ".ropeproject/", ".solargraph.yml", ".phan/config.php", ".ctags", ".ctags.d/", ".pylintrc", "pylintrc"}},
	{"assistants act on it", []string{"*mcp*.json", ".mcp.yml", ".mcp.yaml", "claude.md", "claude.local.md", "agents.md", "agent.md", "agents.override.md", "gemini.md", "qwen.md", "crush.md", "warp.md",
		"claude_desktop_config.json", ".claude.json", ".claude/",
		".cursor/", ".cursorrules", ".codex/", ".gemini/", ".continue/", ".windsurf/", ".windsurfrules", ".codeium/", ".clinerules*", ".roo/", ".roorules*", ".roomodes", ".kiro/",
		".amazonq/", ".aider*", ".junie/", ".goose*", ".opencode/", "opencode.json*", ".qwen/", ".agents/",
		".crush/", ".crush.json", "crush.json", ".rules", ".trae/", ".augment/", ".augment-guidelines", ".clinerules/", ".kilocode/", ".kilocodemodes", ".openhands/",
		".factory/", ".codebuddy/", "codebuddy.md", ".iflow/", "iflow.md", ".lingma/", ".vibe/", ".zencoder/", ".tabnine/", ".tabnine_root", ".copilot/", ".rovodev/", ".cline/", ".amp/",
		".agent/", ".aiassistant/", ".ai/", ".claude-plugin/", ".cursor-plugin/", ".codex-plugin/", "gemini-extension.json", "replit.md", "codex.md", "opencode.md", "grok.md", "soul.md", "heartbeat.md",
		".continuerules", ".continuerc*", ".voidrules", ".openhands_instructions", ".openclaw/", ".kilo/", ".kimi/", ".grok/", ".qoder/", ".qodo/", ".pr_agent.toml", ".coderabbit.yaml", ".coderabbit.yml",
		".bolt/", ".warp/", ".devin/", ".ona/", ".pi/", ".mux/", ".ruler/", ".rulesync/", ".specify/", ".plandex*/", ".deepagents/", ".forge/", "gptme.toml", "firebender.json", ".firebender/",
		".adal/", ".commandcode/", ".cortex/", ".kode/", ".mcpjam/", ".neovate/", ".pochi/"}},
	{"AgentKernel acts on it", []string{"agentkernel.toml", ".agentkernel/", "tools/*/*.py"}},
	{"package managers and build tools take settings or code from it", []string{".npmrc", ".yarnrc*", ".yarn/", ".pnpmfile.*", "pnpmfile.*", "bunfig.toml", ".pypirc",
		"pip.conf", "pip.ini", "uv.toml", ".pydistutils.cfg", "sitecustomize.py", "usercustomize.py",
		"site-packages/*.pth", "dist-packages/*.pth", "pyvenv.cfg", "*venv/bin/", "*venv/scripts/", ".cargo/", "rust-toolchain*", ".bundle/", ".gemrc", ".irbrc", ".pryrc", ".mvn/",
		"init.gradle*", "gradle-wrapper.*", "nuget.config", ".condarc", ".curlrc", ".wgetrc", ".netrc", ".gdbinit", ".lldbinit", ".pdbrc", ".pythonrc*", ".bazelrc", ".bazelversion", ".buckconfig*", ".proverc", "tools/bazel",
		".clangd", ".terraformrc", "terraform.rc", "docker-compose.override.yml", "docker-compose.override.yaml", "compose.override.yml", "compose.override.yaml",
		".rprofile", "rprofile.site", ".renviron", ".rdata", ".ghci", ".haskeline", ".ocamlinit", ".octaverc", "octaverc", ".iex.exs", ".erlang", ".perldb", ".byebugrc", ".rdebugrc", ".rdbgrc", ".rdbgrc.rb", "maxima-init.mac", "maxima-init.lisp", ".sbclrc", ".guile", ".julia/", ".ipython/", ".jupyter/", "ipython_config.py", "jupyter_*config.py", "gradle.properties", ".sbtopts", ".jvmopts", ".scalaopts", ".psqlrc", ".sqliterc", ".my.cnf", ".mylogin.cnf"}},
}

// templates look like files that the shell reads, and are read by people.
var templates = newTable([]group{{"template", []string{".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults", ".env_example", ".env_sample", ".env_template", ".env-example", ".env-sample", ".env-template", ".env-dist", ".envrc.example", ".envrc.sample", ".envrc.template", ".envrc.dist"}}})

const (
	gitActs     = "git acts on it"
	gitReplaces = "git takes another object for one"
	replaceRefs = "refs/replace"
)

// What git keeps in .git and takes no orders from: objects, names, what is staged. All else there is withheld.
var gitData = map[string]bool{"objects": true, "refs": true, "logs": true, "index": true, "head": true, "orig_head": true, "fetch_head": true, "packed-refs": true,
	"commit_editmsg": true, "merge_head": true, "merge_msg": true, "merge_mode": true, "auto_merge": true, "cherry_pick_head": true, "revert_head": true, "shallow": true, "description": true}

// locks says whether git waits for a file in .git to go, or refuses to work: no name of its own ends so.
func locks(p string) bool { return strings.HasSuffix(p, ".lock") || strings.Contains(p, ".lock/") }

// actsPath says why a change at p is withheld; "": it is not. solid: it is no directory, or was none.
func actsPath(p string, solid bool) string {
	low := fold(p)
	for rest := low; rest != ""; {
		name, after, more := strings.Cut(rest, "/")
		if rest = after; name != ".git" {
			continue
		}
		first, _, _ := strings.Cut(after, "/")
		if !more && solid || more && (!gitData[first] || strings.HasPrefix(after, "objects/info/alternates") || strings.HasPrefix(after, "objects/info/http-") || locks(after)) {
			return gitActs
		}
		if strings.HasPrefix(after+"/", replaceRefs+"/") {
			return gitReplaces
		}
	}
	if templates().find(low, solid) != "" {
		return ""
	}
	return acting().find(low, solid)
}
