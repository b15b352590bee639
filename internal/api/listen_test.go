package api

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

func TestListenUnixIsPrivateAndReplacesTheDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false) // as kill -9 leaves it
	_ = dead.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal("nothing was left behind", err)
	}

	ln, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != fs.ModeSocket {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := ListenUnix(path); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Errorf("beside a living kernel: %v", err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an orderly end leaves the socket: %v", err)
	}
}

func TestListenUnixRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenUnix(file); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Errorf("in place of a file: %v", err)
	}
	if b, _ := os.ReadFile(file); string(b) != "precious" {
		t.Error("the file is gone")
	}
	for _, path := range []string{filepath.Join(dir, "none", "k.sock"), filepath.Join(dir, strings.Repeat("x", 200))} {
		if _, err := ListenUnix(path); agentkernel.CodeOf(err) != agentkernel.CodeStorage {
			t.Errorf("ListenUnix(%s): %v", path, err)
		}
	}
}

func TestPeerUID(t *testing.T) {
	ln, err := listenPrivate(filepath.Join(t.TempDir(), "k.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	friend, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = friend.Close() }()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	uid, err := wire.PeerUID(conn.(*net.UnixConn))
	if err != nil || uid != os.Geteuid() {
		t.Errorf("PeerUID = %d, %v", uid, err)
	}
}

// expectRefusal reads the answer that a stranger gets: complete HTTP, so that no client hangs.
func expectRefusal(t *testing.T, conn net.Conn) {
	t.Helper()
	defer func() { _ = conn.Close() }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	e := &agentkernel.Error{}
	if jerr := json.Unmarshal(b, e); err != nil || jerr != nil || resp.StatusCode != http.StatusForbidden || e.Code != agentkernel.CodeDenied {
		t.Errorf("a stranger was told %s %q, %v", resp.Status, b, err)
	}
}

func TestClosingLeavesTheSocketOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kernel.sock")
	first, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of the second is gone with the first: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("its own socket is left behind")
	}
}

// A listener that is closed twice leaves the socket of its successor alone, which may have its number.
func TestClosedTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k.sock")
	first, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	second, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the successor's socket: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
