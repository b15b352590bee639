package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"agentkernel/internal/config"
	"agentkernel/internal/tool"
)

// A .gitignore is read as git reads it, and gets lines that end as its own do.
func TestIgnoreWithOtherLineEnds(t *testing.T) {
	for old, want := range map[string]string{
		"*.pyc\r\n.agentkernel/\r\n*.akr\r\n": "*.pyc\r\n.agentkernel/\r\n*.akr\r\n",
		"*.pyc\r\n":                           "*.pyc\r\n.agentkernel/\r\n*.akr\r\n",
		"*.pyc\r\n*.akr":                      "*.pyc\r\n*.akr\r\n.agentkernel/\r\n",
		"*.pyc\r\n*.akr\r":                    "*.pyc\r\n*.akr\r\n.agentkernel/\r\n",
		"*.akr\r":                             "*.akr\r\n.agentkernel/\n",
		".agentkernel/\n*.akr\r\r\n":          ".agentkernel/\n*.akr\r\r\n*.akr\r\n",
		"\ufeff.agentkernel/\n*.akr  \n":      "\ufeff.agentkernel/\n*.akr  \n",
		"*.akr":                               "*.akr\n.agentkernel/\n",
		"":                                    ".agentkernel/\n*.akr\n",
	} {
		path := filepath.Join(t.TempDir(), ".gitignore")
		if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := ignore(path); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%q became %q, want %q (%v)", old, got, want, err)
		}
	}
}

// A link that takes the place of a .gitignore after it was looked at is not followed: what is opened is what is looked at.
func TestGitignoreIsOpenedWithoutLinks(t *testing.T) {
	dir := t.TempDir()
	outside, link := filepath.Join(dir, "outside"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(outside, []byte("mine\n"), 0o600), os.Symlink(outside, link)); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []int{os.O_RDONLY, os.O_WRONLY | os.O_APPEND} {
		if f, _, err := openIgnore(link, flag); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("opened %v: %v", f, err)
		}
	}
	if f, info, err := openIgnore(dir, os.O_RDONLY); f != nil || err != nil {
		t.Errorf("a folder was opened as %v: %v", info, err)
	}
}

// The tools file counts with the content that init has written, not with one that somebody else writes in that moment.
func TestInitAcceptsWhatItHasWritten(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	r := initResult{Dir: project}
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(project, toolsFile)
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	theirs := []byte(`{"mcpServers": {"theirs": {"command": "theirs"}}}`)
	if err := os.WriteFile(file, theirs, 0o600); err != nil {
		t.Fatal(err)
	}
	trust := tool.NewTrust(filepath.Join(home, "trust.json"))
	a := &app{cfg: &config.Config{}}
	a.cfg.Home = home
	a.trust = func(_, _ string, as tool.Kind, file string, content []byte) error {
		return trust.Accept(as, file, content)
	}
	if err := r.acceptTools(a); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		content []byte
		want    bool
	}{{written, true}, {theirs, false}} {
		if ok, err := trust.Accepted(tool.AsTools, file, c.content); ok != c.want || err != nil {
			t.Errorf("%s: accepted %v, %v", c.content, ok, err)
		}
	}
}

// TestExamplesArePriced: the tools files that the pages use, and that init writes, work under a budget of dollars.
func TestExamplesArePriced(t *testing.T) {
	for _, file := range []string{"project/mcp.json", "../../examples/mcp.json", "../../examples/tasks/mcp.json"} {
		content, err := tool.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if servers, err := tool.Unpriced(file, content); err != nil || len(servers) > 0 {
			t.Errorf("%s: without a price: %q, %v", file, servers, err)
		}
	}
}
