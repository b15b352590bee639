package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/usertest"
)

func TestNamesOfSecrets(t *testing.T) {
	for p, want := range map[string]bool{
		".env": true, ".env.local": true, "a/.env.production": true, "prod.env": true, ".envrc": true, ".env.example": false, "environment.yml": false,
		"key.pem": true, "certs/server.KEY": true, "id_rsa": true, "id_ed25519": true, "id_ed25519.pub": false, "x.p12": true, "keys.go": false,
		".npmrc": true, ".pypirc": true, ".netrc": true, ".git-credentials": true, ".git/config": false, "package.json": false,
		"credentials.json": true, "credentials": true, "my-credentials-2.json": true, "credentials.go": false, "secrets.yaml": true, "secrets.py": false, "service-account-x.json": true,
		"terraform.tfstate": true, "prod.tfvars": true, ".mcp.json": true, "mcp.json": true, ".docker/config.json": true, "config.json": false, ".bash_history": true,
		"token": true, "token.go": false, "tokens.txt": false, "readme.md": false, "main.py": false,
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

func TestHidden(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		content := files{"readme": "r", ".env.local": "s", "sub/key.pem": "s", ".aws/credentials": "s", ".aws/x/y.pem": "s", "token/token.go": "t", "link.key": "@sub/plain", "sub/plain": "s",
			".env": "@sub/dir", "sub/dir/f": "s", "out.pem": "@../outside", "none.pem": "@nowhere", ".git/objects/ab/key.pem": "o", "loop.pem": "@loop.pem"}
		dir := publicDir(t)
		folder := filepath.Join(dir, "folder")
		s := New(Config{Dir: filepath.Join(dir, "data", "workspaces"), Apart: filepath.Join(dir, "data")})
		must(t, os.MkdirAll(filepath.Join(dir, "data"), 0o700))
		(&rig{t: t}).write(folder, content)
		for name, c := range map[string]struct {
			change func(*agentkernel.Workspace)
			want   string
		}{
			"shown unasked":  {func(w *agentkernel.Workspace) { w.ReadOnly, w.Optional = true, true }, ".aws/ .env.local sub/dir/ sub/key.pem sub/plain"},
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
		dir := publicDir(t)
		s := New(Config{Dir: filepath.Join(dir, "data", "workspaces"), Apart: filepath.Join(dir, "data")})
		must(t, os.MkdirAll(filepath.Join(dir, "data"), 0o700))
		folder := filepath.Join(dir, "folder")
		(&rig{t: t}).write(folder, content)
		must(t, s.Create(pid, &agentkernel.Spec{Workspace: &agentkernel.Workspace{Path: folder, ReadOnly: true, Optional: true}}))
		_, err := s.Begin(pid)
		wantCode(t, err, agentkernel.CodeInvalid, want)
	}
}
