package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/usertest"
)

func TestNamesOfSecrets(t *testing.T) {
	for p, want := range map[string]bool{
		".env": true, ".env.local": true, "a/.env.production": true, "prod.env": true, ".envrc": true, ".env.example": false, ".env_example": false, ".envrc.sample": false, "environment.yml": false,
		"key.pem": true, "certs/server.KEY": true, "id_rsa": true, "id_ed25519": true, "id_ed25519.pub": false, "x.p12": true, "keys.go": false,
		".npmrc": true, ".pypirc": true, ".netrc": true, ".git-credentials": true, ".git/config": false, "package.json": false,
		"credentials.json": true, "credentials": true, "my-credentials-2.json": true, "credentials.go": false, "secrets.yaml": true, "secrets.py": false, "service-account-x.json": true,
		"terraform.tfstate": true, "prod.tfvars": true, ".mcp.json": true, "mcp.json": true, ".docker/config.json": true, "config.json": false, ".bash_history": true,
		".env~": true, ".env.d/a": true, ".m2/settings.xml": true, "settings.xml": false, ".gradle/gradle.properties": true, ".config/rclone/rclone.conf": true, "x.keyring": true, ".sentryclirc": true,
		".mylogin.cnf": true, "keystore.properties": true, "serviceAccountKey.json": true, "gradle.properties": false,
		".npmrc~": true, ".pypirc.bak": true, ".netrc.old": true, "server.key.old": true, "prod.env.bak": true, ".env_local": true, ".envrc.local": true, ".git-credentials.lock": true, "#.env#": true,
		"a/.server.key.swp": true, "id.pem.bak~": true, ".DOCKER/config.json.orig": true, "yarn.lock": false, "a.bak": false, "~": false, ".bak": false, "##": false, "readme.md~": false,
		".credentials.swp": true, "a/.id_rsa.swo": true, ".env.swn": true, ".npmrc.swp": true, ".env.swm": true, "a/.id_rsa.swa": true, ".credentials.swz": false, ".main.c.swm": false, ".npmrc.swpx": false, ".npmrc.sw1": false, ".secrets.yaml.swp": true, ".secrets.py.swp": false, ".main.c.swp": false, ".swp": false, "..swp": false,
		"Deploy.KEY.SWM": true, "token": true, "token.go": false, "tokens.txt": false,
		"ssh_host_ed25519_key": true, "ssh_host_rsa_key.pub": false, "secring.gpg": true, "x.kdb": true, ".password-store/a.gpg": true, "deploy_key": true, "deploy_key.pub": false, "github_rsa": true, "work_ed25519": true, "work_ed25519.pub": false,
		".config/solana/id.json": true, "id.json": false, ".ethereum/keystore/UTC--x": true, "app-firebase-adminsdk-x1.json": true, "gcp-key.json": true, "gcloud-service-key.json": true, "oauth_creds.json": true, "token.pickle": true,
		".rclone.conf": true, ".msmtprc": true, ".credentials": true, ".credentials/x": true, ".api_key": true, "api_key.txt": true, "api_keys.py": false, ".kaggle/kaggle.json": true, "kaggle.json": true,
		".mbsyncrc": true, ".cdsapirc": true, ".env copy": true, ".env (copy)": true, ".env copy 2": true, ".env (1)": true, "credentials - Copy.json": true, "credentials (2nd copy).json": true, "server copy.pem": true, "token (1)": true,
		"notes copy.txt": false, "report (1).pdf": false, "copy": false, " copy": false, "(1)": false,
		".authinfo": true, ".netrc.gpg": true, ".pg_service.conf": true, ".smbcredentials": true, ".databrickscfg": true, ".dbt/profiles.yml": true, "profiles.yml": false, ".snowsql/config": true, ".vscode/sftp.json": true, ".vscode/settings.json": false,
		"storageState.json": true, ".env-prod": true, ".env-example": false, ".envs/.production/.django": true, "env.production": true, "env.py": false, "env.d.ts": false, "key.properties": true, ".fish_history": true, ".irb_history": true, ".histfile": true, "tokens.json": true, "readme.md": false, "main.py": false,
	} {
		if got := hides(p, false); got != want {
			t.Errorf("%s is hidden: %t", p, got)
		}
	}
	for p, want := range map[string]bool{".aws": true, ".ssh": true, "deep/.kube": true, "token": false, "credentials": false, "keys.pem": false, ".docker": false, ".git": false} {
		if got := hides(p, true); got != want {
			t.Errorf("the directory %s is hidden: %t", p, got)
		}
	}
}

// newApart gives a store with its own directory, and a folder beside it that does not exist yet.
func newApart(t *testing.T) (s *Store, folder string) {
	t.Helper()
	dir := publicDir(t)
	data := filepath.Join(dir, "data")
	must(t, os.MkdirAll(data, 0o700))
	return New(Config{Dir: filepath.Join(data, "workspaces"), Apart: data}), filepath.Join(dir, "folder")
}

// shownUnasked is how a program is shown the folder in which its command was typed.
func shownUnasked(folder string) *agentkernel.Spec {
	return &agentkernel.Spec{Workspace: &agentkernel.Workspace{Path: folder, ReadOnly: true, Optional: true}}
}

// hiddenIn are the names that are hidden from a process.
func hiddenIn(t *testing.T, s *Store, spec *agentkernel.Spec) string {
	t.Helper()
	must(t, s.Create(pid, spec))
	mounts, err := s.Begin(pid)
	must(t, err)
	return strings.Join(mounts[0].Hidden, " ")
}

// What is hidden is what the program could read, so also what other file systems hold that are mounted in the folder.
func TestHiddenOnMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	s, folder := newApart(t)
	at := filepath.Join(folder, "disk")
	must(t, os.MkdirAll(at, 0o755))
	must(t, unix.Mount("none", at, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { must(t, unix.Unmount(at, 0)) })
	(&rig{t: t}).write(folder, files{"disk/id_rsa": "s", "disk/plain": "p", "disk/deep/x.pem": "s", "disk/other": "o", ".env": "@disk/plain"})
	if got, want := hiddenIn(t, s, shownUnasked(folder)), "disk/deep/x.pem disk/id_rsa disk/plain"; got != want {
		t.Errorf("hidden %q, want %q", got, want)
	}
}

func TestHidden(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		content := files{"readme": "r", ".env.local": "s", "sub/key.pem": "s", ".aws/credentials": "s", ".aws/x/y.pem": "s", "token/token.go": "t", "link.key": "@sub/plain", "sub/plain": "s",
			".env": "@sub/dir", "sub/dir/f": "s", "out.pem": "@../outside", "none.pem": "@nowhere", ".git/objects/id_rsa": "s", ".git/objects/ab/key.pem": "s", "loop.pem": "@loop.pem",
			".git/objects/0f/5a3c7e9d1b2f4a6c8e0d1f3b5a7c9e1d3f5b7a": "o", ".git/objects/pack/pack-5a3c7e9d1b2f4a6c8e0d1f3b5a7c9e1d3f5b7a9c.pack": "o",
			".ssh/work": "@../keyring/work", "keyring/work": "s", "keyring/public": "k", ".ssh/up": "@..", ".ssh/kept": "@../store", "store/x": "@../more", "more": "s", "deep/.ssh/up": "@..",
			"shown": "@.env.local", "middle.key": "@hop", "hop": "@plain2", "plain2": "s"}
		s, folder := newApart(t)
		(&rig{t: t}).write(folder, content)
		for p, of := range map[string]string{"same.txt": ".env.local", "sub2/same": ".aws/credentials"} { // hard links
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, p)), 0o755))
			must(t, os.Link(filepath.Join(folder, of), filepath.Join(folder, p)))
		}
		must(t, unix.Mkfifo(filepath.Join(folder, "sub2", "pipe"), 0o666))
		for name, c := range map[string]struct {
			change func(*agentkernel.Workspace)
			want   string
		}{
			"shown unasked":  {func(w *agentkernel.Workspace) { w.ReadOnly, w.Optional = true, true }, ".aws/ .env.local .git/objects/ab/key.pem .git/objects/id_rsa .ssh/ deep/.ssh/ keyring/work more plain2 same.txt store/ sub/dir/ sub/key.pem sub/plain sub2/pipe sub2/same"},
			"named, to read": {func(w *agentkernel.Workspace) { w.ReadOnly = true }, ""},
			"named":          {func(*agentkernel.Workspace) {}, ""},
		} {
			w := &agentkernel.Workspace{Path: folder}
			c.change(w)
			must(t, s.Create(pid, &agentkernel.Spec{Workspace: w}))
			mounts, err := s.Begin(pid)
			must(t, err)
			if got := strings.Join(mounts[0].Hidden, " "); got != c.want {
				t.Errorf("%s: hidden %q, want %q", name, got, c.want)
			}
			ch, err := s.Changes(pid)
			must(t, err)
			if got := strings.Join(ch.Hidden, " "); got != c.want {
				t.Errorf("%s: the changes name %q, want %q", name, got, c.want)
			}
			must(t, s.Remove(pid))
		}
	})
}

// A folder of which not all can be hidden is not shown.
func TestWhatCannotBeHidden(t *testing.T) {
	many := files{}
	for i := range maxHidden + 1 {
		many[strings.Repeat("k", i/200+1)+string(rune('a'+i%200))+".pem"] = "k"
	}
	for want, content := range map[string]files{"too many files": many, "no text": {"\xff.pem": "k"}} {
		s, folder := newApart(t)
		(&rig{t: t}).write(folder, content)
		must(t, s.Create(pid, shownUnasked(folder)))
		_, err := s.Begin(pid)
		wantCode(t, err, agentkernel.CodeInvalid, want)
	}
}

// A config of git is hidden if it holds a credential, and only then.
func TestHiddenConfigsOfGit(t *testing.T) {
	for text, want := range map[string]bool{
		"[remote \"origin\"]\n\turl = https://u:p@host/x\n": true, "[remote \"origin\"]\n\turl = https://ghp_0123456789abcdefghij@host/x\n": true, "[http]\n\textraHeader = Authorization: x\n": true,
		"[sendemail]\n\tsmtpPass = x\n": true, "[remote \"origin\"]\n\turl = git@github.com:a/b\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n": false,
		"[remote \"o\"]\n\turl = https://u:\\\npw@h/x\n": true, "[remote \"o\"]\n\turl = https://u:\\\r\npw@h/x\n": true, "[remote \"o\"]\n\turl = https://u\":p\"w@h/x\n": true,
		"[alias]\n\tp = \"!curl -H \\\"PRIVATE-TOKEN: glpat-abcdefghij0123456789\\\" x\"\n": true, "[alias]\n\tp = !x -H 'Authorization: Bearer abcdefghij0123456789'\n": true,
		"[alias]\n\tp = !x ghp_abcdefghij0123456789abcdefghij012345\n": true, "[alias]\n\tco = checkout\n\tlast = log -1 HEAD\n[branch \"npm-and-yarn-some-longer-name\"]\n\tremote = origin\n# basic settings\n": false,
		"[alias]\n\tup = !curl -H \"X-Api-Key: abcd1234efgh5678\" https://h/x\n": true, "[alias]\n\tup = \"!curl -H \\\"X-Auth-Key: abcd1234\\\" h\"\n": true, "[alias]\n\tup = !curl -H 'Cookie: sid=12345678' h\n": true,
		"[core]\n\tsshCommand = \"sshpass -phunter2secret ssh\"\n": true, "[core]\n\tsshCommand = sshpass -v -p 'hunter2' ssh -p 22\n": true, "[core]\n\tsshCommand = plink -batch -pw hunter2\n": true,
		"[alias]\n\tup = !curl -s -u ann:hunter2 https://h/x\n": true, "[alias]\n\tup = !curl --user=ann:hunter2 h\n": true, "[alias]\n\tup = !x --password hunter2\n": true,
		"[core]\n\tsshCommand = sshpass -f ~/.pw ssh -p 22\n": false, "[core]\n\tsshCommand = ssh -p 22 -i ~/.ssh/id\n": false, "[alias]\n\td = !docker run -u 1000:1000 x\n\tpu = push -u origin HEAD:main\n": false,
		"[alias]\n\tup = !curl -u \"$USER:$PW\" --password $PW h\n": false, "[user]\n\tsigningKey = 0123456789ABCDEF\n[http]\n\tcookieFile = ~/c\n": false,
		"[remote \"origin\"]\n\turl = https://alice@host/x\n": false, "[core]\n\tbare = false\n": false,
	} {
		s, folder := newApart(t)
		(&rig{t: t}).write(folder, files{".git/config": text, ".git/modules/m/config": text, "config": text, "bare.git/config": text, ".gitconfig": text, ".config/git/config": text, ".gitmodules": text, "git/config": text,
			"Bare.GIT/CONFIG": text, "sub/.Git/config": text, "sub/.Git/.config.worktree.swp": text})
		if got := hiddenIn(t, s, shownUnasked(folder)); got != map[bool]string{true: ".config/git/config .git/config .git/modules/m/config .gitconfig .gitmodules Bare.GIT/CONFIG bare.git/config sub/.Git/.config.worktree.swp sub/.Git/config"}[want] {
			t.Errorf("%q: hidden %q", text, got)
		}
	}
}

// Files of settings that programs need are hidden only where they hold a key, and core files only where they are some.
func TestHiddenByContents(t *testing.T) {
	elf := func(kind byte) string {
		return "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + string([]byte{kind, 0}) + "memory"
	}
	s, folder := newApart(t)
	(&rig{t: t}).write(folder, files{"pip.conf": "[global]\nindex-url = https://a:b@host/simple\n", "sub/pip.conf": "[global]\nindex-url = https://host/simple\n", ".pip/pip.conf.bak": "extra-index-url=https://a:b@host/\n",
		".condarc": "channels:\n - https://conda.anaconda.org/t/ab-0123abcd-0123-4567-89ab/x\n", "sub/.condarc": "channels: [conda-forge]\n", ".hg/hgrc": "[auth]\nx.password = s\n", "sub/.hg/hgrc": "[paths]\ndefault = https://host/x\n",
		".bundle/config": "---\nBUNDLE_GEMS__EXAMPLE__COM: \"user:s3cret\"\n", "sub/.bundle/config": "---\nBUNDLE_PATH: \"vendor\"\nBUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: \"https://mirror\"\n",
		"core": elf(4), "core.123": elf(4), "sub/core": elf(2), "sub/core.1": "notes", "core.py": elf(4)})
	if got, want := hiddenIn(t, s, shownUnasked(folder)), ".bundle/config .condarc .hg/hgrc .pip/pip.conf.bak core core.123 pip.conf"; got != want {
		t.Errorf("hidden %q, want %q", got, want)
	}
}

// A log of git is hidden where it has an address with a credential, however long it is.
func TestHiddenLogsOfGit(t *testing.T) {
	const pulled, plain = "12 34 a <a@b> 1 +0000\tpull https://bot:s3cret@host/x: Fast-forward\n", "12 34 a <a@b> 1 +0000\tpull ssh://git@host:22/x: token: none\n"
	long := strings.Repeat(plain, maxGitConfig/len(plain)+1)
	s, folder := newApart(t)
	(&rig{t: t}).write(folder, files{".git/logs/HEAD": pulled, ".git/logs/refs/heads/a/b": long + pulled, ".git/logs/refs/heads/main": long, ".git/FETCH_HEAD": "12\t\tbranch 'x' of https://ghp_0123456789abcdefghij@host/x\n",
		".bare/logs/HEAD": pulled, "sub/.git/FETCH_HEAD": plain, ".git/ORIG_HEAD": "12\n", "logs/today": pulled, ".git/logs/refs/heads/one": strings.Repeat("x", 64<<10) + pulled})
	if got, want := hiddenIn(t, s, shownUnasked(folder)), ".bare/logs/HEAD .git/FETCH_HEAD .git/logs/HEAD .git/logs/refs/heads/a/b .git/logs/refs/heads/one"; got != want {
		t.Errorf("hidden %q, want %q", got, want)
	}
}

// What a config of git includes is one, whatever it is called; so is what a link of such a name leads to.
func TestHiddenConfigsThatOthersInclude(t *testing.T) {
	const key, none = "[http]\n\textraheader = AUTHORIZATION: basic dTpwdwo=\n", "[core]\n\tbare = false\n"
	for name, c := range map[string]struct {
		content files
		want    string
	}{
		"below":             {files{".git/config": "[include]\n path = ../creds.inc\n", "creds.inc": key, "other.inc": key}, "creds.inc"},
		"in .git":           {files{".git/config": "[include]\n path = mine\n", ".git/mine": key}, ".git/mine"},
		"on a condition":    {files{".git/config": "[includeIf \"gitdir:x/\"]\n path = \"../a/b\"\n", "a/b": key}, "a/b"},
		"without":           {files{".git/config": "[include]\n path = ../creds.inc\n path = ../a\n path = ../none\n", "creds.inc": none, "a/b": none}, ""},
		"in turn":           {files{".gitconfig": "[include]\n path = a/one\n", "a/one": "[include]\n path = ../b/two\n path = one\n", "b/two": key + "[include]\n path = ../a/one\n"}, "b/two"},
		"absolute":          {files{".gitconfig": "[include]\n path = FOLDER/a/one\n path = /etc/passwd\n", "a/one": key}, "a/one"},
		"of the home":       {files{".gitconfig": "[include]\n path = ~/a/one\n", "a/one": key}, "a/one"},
		"by a link":         {files{".gitconfig": "[include]\n path = one\n", "one": "@a/one", "a/one": key}, "a/one"},
		"outside":           {files{".gitconfig": "[include]\n path = ../elsewhere\n"}, ""},
		"a link":            {files{".gitconfig": "@dot/gitconfig", "dot/gitconfig": key}, "dot/gitconfig"},
		"a link, and below": {files{".git/config": "@../cfg", "cfg": "[include]\n path = ../two\n", "two": key}, "two"},
		"a link, without":   {files{".gitconfig": "@dot/gitconfig", "dot/gitconfig": none}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, folder := newApart(t)
			t.Setenv("HOME", folder)
			for p, text := range c.content {
				c.content[p] = strings.ReplaceAll(text, "FOLDER", folder)
			}
			(&rig{t: t}).write(folder, c.content)
			(&rig{t: t}).write(filepath.Dir(folder), files{"elsewhere": key})
			if got := hiddenIn(t, s, shownUnasked(folder)); got != c.want {
				t.Errorf("hidden %q, want %q", got, c.want)
			}
		})
	}
}

// A repository may lie elsewhere in the folder than its work tree, in a directory of any name: its config is one, too.
func TestHiddenConfigsOfRepositoriesElsewhere(t *testing.T) {
	const key, none = "[http]\n\textraheader = AUTHORIZATION: basic dTpwdwo=\n", "[core]\n\tbare = false\n"
	for name, c := range map[string]struct {
		content files
		want    string
	}{
		"bare":                   {files{".git": "gitdir: ./.bare\n", ".bare/config": key, "other/config": key}, ".bare/config"},
		"absolute":               {files{"work/.git": "gitdir: FOLDER/store\n", "store/config": key}, "store/config"},
		"a linked work tree":     {files{"work/.git": "gitdir: FOLDER/repo/worktrees/work\n", "repo/worktrees/work/commondir": "../..\n", "repo/worktrees/work/config.worktree": key, "repo/config": key}, "repo/config repo/worktrees/work/config.worktree"},
		"an absolute common one": {files{"work/.GIT": "gitdir: ../tree\n", "tree/commondir": "FOLDER/repo\n", "repo/config": key}, "repo/config"},
		"a submodule":            {files{".git": "gitdir: .bare\n", ".bare/config": none, "sub/.git": "gitdir: ../.bare/modules/sub\n", ".bare/modules/sub/config": key}, ".bare/modules/sub/config"},
		"included":               {files{".git": "gitdir: .bare\n", ".bare/config": "[include]\n path = ../mine\n", "mine": key}, "mine"},
		"a link":                 {files{".git": "@store", "store/config": key}, "store/config"},
		"a link to a file":       {files{".git": "@dot", "dot": "gitdir: store\n", "store/config": key}, "store/config"},
		"outside":                {files{".git": "gitdir: ../elsewhere\n", "sub/.git": "gitdir: /elsewhere\n", "a/.git": "gitdir: none\n", "b/.git": "store\n", "c/.git": "@c", "store/config": key}, ""},
		"without":                {files{".git": "gitdir: .bare\n", ".bare/config": none}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, folder := newApart(t)
			for p, text := range c.content {
				c.content[p] = strings.ReplaceAll(text, "FOLDER", folder)
			}
			(&rig{t: t}).write(folder, c.content)
			(&rig{t: t}).write(filepath.Dir(folder), files{"elsewhere/config": key})
			if got := hiddenIn(t, s, shownUnasked(folder)); got != c.want {
				t.Errorf("hidden %q, want %q", got, c.want)
			}
		})
	}
}

// Tools files of any name, which the process has or settings of the folder name, are hidden as those are whose name says it; so are settings
// that hold a key.
func TestHiddenToolsFiles(t *testing.T) {
	const tools, text = `{"mcpServers": {"a": {"command": "x", "env": {"KEY": "s"}}}}`, `{"data": 1}`
	for name, c := range map[string]struct {
		content files
		tools   []string
		want    string
	}{
		"of the process":            {files{"servers.json": tools, "sub/mine": tools, "other.json": tools}, []string{"servers.json", "sub/mine", "../elsewhere.json"}, "servers.json sub/mine"},
		"of the process, by link":   {files{"servers.json": "@sub/mine", "sub/mine": tools}, []string{"servers.json"}, "sub/mine"},
		"of settings":               {files{"agentkernel.toml": "tools = [\"a.json\", 'sub/b', \"data.json\", \"none.json\", \"../x\"] # \"c.json\"", "a.json": tools, "sub/b": tools, "c.json": tools, "data.json": text, "d.json": tools}, nil, "a.json c.json sub/b"},
		"of settings below":         {files{"sub/AgentKernel.toml": "tools = [\"../a.json\", \"b\"]", "sub/b": "@../c", "a.json": tools, "c": tools}, nil, "a.json c"},
		"settings with a key":       {files{"agentkernel.toml": "tools = [\"a.json\"]\n# api_key = sk-proj-0123456789abcdefghij\n", "a.json": tools}, nil, "a.json agentkernel.toml"},
		"settings with a long text": {files{"sub/agentkernel.toml": "tools = [\"a.json\"] # '" + strings.Repeat("x", 300) + "' '" + strings.Repeat("x", 300) + "/y'\n", "sub/a.json": tools}, nil, "sub/a.json"},
		"settings without":          {files{"agentkernel.toml": "tools = []\n[limits]\ntime = \"60s\"\nmemory = \"256m\" # tokens: many\n", "other.json": tools}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, folder := newApart(t)
			(&rig{t: t}).write(folder, c.content)
			(&rig{t: t}).write(filepath.Dir(folder), files{"elsewhere.json": tools})
			spec := shownUnasked(folder)
			for _, f := range c.tools {
				spec.Tools = append(spec.Tools, filepath.Join(folder, f))
			}
			if got := hiddenIn(t, s, spec); got != c.want {
				t.Errorf("hidden %q, want %q", got, c.want)
			}
		})
	}
}
