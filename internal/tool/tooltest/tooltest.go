// Package tooltest gives tests a real MCP server (tooltest/server) and configuration files for it. It must
// never be imported outside tests.
package tooltest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Server is one entry of an MCP configuration file: command, args, env, trusted ...
type Server map[string]any

// Build builds the test server, once per test binary, and gives its path.
func Build(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatalf("building the test server: %v", err)
	}
	return path
}

// The executable is the same for every test of a binary and across binaries; it is named for its content,
// so that a running one is never overwritten.
var build = sync.OnceValues(func() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".cache", "tooltest")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	exe := filepath.Join(tmp, "server")
	cmd := exec.Command("go", "build", "-o", exe, "./internal/tool/tooltest/server")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0") // as the other binaries: they share what is compiled
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	content, err := os.ReadFile(exe)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	final := filepath.Join(dir, "server-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	return final, os.Rename(exe, final)
})

// Root is the root folder of the module.
func Root() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", errors.New("not inside the module")
	}
	return filepath.Dir(mod), nil
}

// Engine gives the Monty executable. Without it the test is skipped, which says that so (what) is not tested; CI must have it.
func Engine(t testing.TB, what string) string {
	t.Helper()
	if p := os.Getenv("AGENTKERNEL_MONTY"); p != "" {
		return p
	}
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if found, err := filepath.Glob(filepath.Join(root, ".cache", "monty", "node_modules", "@pydantic", "monty-*", "monty")); err == nil && len(found) > 0 {
		return found[0]
	}
	if p, err := exec.LookPath("monty"); err == nil {
		return p
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("the Monty engine is missing; run: make engine")
	}
	t.Skip(what + ": the Monty engine is missing; run: make engine")
	return ""
}

// Stdio is an entry that runs the test server with flags.
func Stdio(t testing.TB, flags ...string) Server {
	t.Helper()
	return Server{"command": Build(t), "args": append([]string{}, flags...)}
}

// With returns a copy of the entry with one more member.
func (s Server) With(key string, value any) Server {
	c := Server{key: value}
	for k, v := range s {
		if k != key {
			c[k] = v
		}
	}
	return c
}

// Config writes an MCP configuration file with these servers and gives its path.
func Config(t testing.TB, servers map[string]Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcp.json")
	WriteConfig(t, path, servers)
	return path
}

// WriteConfig writes a configuration file at path.
func WriteConfig(t testing.TB, path string, servers map[string]Server) {
	t.Helper()
	b, err := json.MarshalIndent(map[string]any{"mcpServers": servers}, "", "  ")
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// NPM gives the entry script of an npm MCP server, such as "@modelcontextprotocol/server-filesystem", that
// the Makefile installs into .cache/mcp. Without it the test is skipped, and fails if CI is set.
func NPM(t testing.TB, pkg string) string {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(root, ".cache", "mcp", "node_modules", filepath.FromSlash(pkg), "dist", "index.js")
	_, noScript := os.Stat(script)
	_, noNode := exec.LookPath("node")
	if err := errors.Join(noScript, noNode); err != nil {
		msg := fmt.Sprintf("THE REAL MCP SERVER %s IS NOT TESTED: %v; run: make mcp", pkg, err)
		if os.Getenv("CI") == "true" {
			t.Fatal(msg)
		}
		t.Skip(msg)
	}
	return script
}
