package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// startMCP starts the command as a server of MCP over HTTP, and gives its address.
func startMCP(t *testing.T, args ...string) (url string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], append([]string{"mcp", "--embedded", "--http", "127.0.0.1:0"}, args...)...)
	cmd.Args[0] = "agentkernel" // see TestMain
	cmd.Env = append(os.Environ(), "HOME="+dir, "AGENTKERNEL_HOME="+filepath.Join(dir, "home"), "AGENTKERNEL_ENGINE="+engineForTests(t))
	cmd.Dir = dir
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(said)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, lines)
		_ = cmd.Wait()
	})
	for all := ""; ; {
		line, err := lines.ReadString('\n')
		if all += line; err != nil {
			t.Fatalf("it does not serve: %s", all)
		}
		if m := regexp.MustCompile(`serving MCP at (http://[0-9.:]+)`).FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
}

const doorHello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// Who comes in is decided by the server as it is started, not by a part of it: each row is a request to the command itself.
func TestWhoComesInOverHTTP(t *testing.T) {
	const token, named = "token-of-nobody-0123456789", "token-of-ann-0123456789"
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("# tokens\n"+token+"\nann "+named+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := startMCP(t, "--token-file", file, "--origin", "https://app.example.org", "--host", "Proxy.example.org")
	bare := startMCP(t, "--token-file", file)
	port := url[strings.LastIndexByte(url, ':'):]
	for _, c := range []struct {
		what, url, method, host, origin, token string
		want                                   int
	}{
		{what: "plain", url: url, token: token, want: 200},
		{what: "a named token", url: url, token: named, want: 200},
		{what: "no token", url: url, want: 401},
		{what: "another token", url: url, token: token + "0", want: 401},
		{what: "part of a token", url: url, token: token[:len(token)-1], want: 401},
		{what: "the user's name", url: url, token: "ann", want: 401},
		{what: "a token and its user", url: url, token: "ann " + named, want: 401},
		{what: "another path without a token", url: url + "/x", want: 401},
		{what: "another host", url: url, host: "evil.example.org", token: token, want: 403},
		{what: "another host, with the port", url: url, host: "evil.example.org" + port, token: token, want: 403},
		{what: "an address as a part of a name", url: url, host: "127.0.0.1.evil.example.org", token: token, want: 403},
		{what: "a name at the end of another", url: url, host: "xproxy.example.org", token: token, want: 403},
		{what: "another address", url: url, host: "192.0.2.7" + port, token: token, want: 403},
		{what: "another host without a token", url: url, host: "evil.example.org", want: 403},
		{what: "the host that --host names", url: url, host: "proxy.example.org", token: token, want: 200},
		{what: "the same in capitals, as a full name", url: url, host: "PROXY.example.org.:443", token: token, want: 200},
		{what: "the host of --origin", url: url, host: "app.example.org", token: token, want: 200},
		{what: "localhost", url: url, host: "localhost" + port, token: token, want: 200},
		{what: "the host, where nothing names it", url: bare, host: "proxy.example.org", token: token, want: 403},
		{what: "the origin that --origin names", url: url, origin: "https://app.example.org", token: token, want: 200},
		{what: "a page of this machine", url: url, origin: "http://localhost:3000", token: token, want: 200},
		{what: "another origin", url: url, origin: "https://evil.example.org", token: token, want: 403},
		{what: "another scheme", url: url, origin: "http://app.example.org", token: token, want: 403},
		{what: "a part of the origin", url: url, origin: "https://app.example.org.evil.example.org", token: token, want: 403},
		{what: "no origin of a sandboxed page", url: url, origin: "null", token: token, want: 403},
		{what: "the origin, where nothing names it", url: bare, origin: "https://app.example.org", token: token, want: 403},
		{what: "an origin without a token", url: url, origin: "https://app.example.org", want: 401},
		{what: "what a page asks first", url: url, method: http.MethodOptions, origin: "https://app.example.org", want: 204},
		{what: "what another page asks first", url: url, method: http.MethodOptions, origin: "https://evil.example.org", want: 403},
		{what: "what a page asks first, of another host", url: url, method: http.MethodOptions, host: "evil.example.org", origin: "https://app.example.org", want: 403},
		{what: "a stream without a token", url: url, method: http.MethodGet, want: 401},
		{what: "an end without a token", url: url, method: http.MethodDelete, want: 401},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url,
			strings.NewReader(doorHello))
		if err != nil {
			t.Fatal(err)
		}
		if c.method != "" {
			req.Method = c.method
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if c.host != "" {
			req.Host = c.host
		}
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		if c.method == http.MethodOptions {
			req.Header.Set("Access-Control-Request-Method", http.MethodPost)
		}
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s: HTTP %d, want %d", c.what, res.StatusCode, c.want)
		}
		if allowed := res.Header.Get("Access-Control-Allow-Origin"); res.StatusCode == http.StatusForbidden && allowed != "" {
			t.Errorf("%s: a page of %s is let in", c.what, allowed)
		}
	}
}

// Without a file of tokens the server makes a token, which its user alone can read, and lets nobody in without it.
func TestTheServersOwnToken(t *testing.T) {
	dir := t.TempDir()
	url := startMCP(t, "--home", dir)
	file := filepath.Join(dir, "mcp-token")
	token, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 || len(strings.TrimSpace(string(token))) < 32 {
		t.Errorf("%v, %d bytes, %v", st.Mode(), len(token), err)
	}
	for sent, want := range map[string]int{strings.TrimSpace(string(token)): http.StatusOK, "": http.StatusUnauthorized, "another-token-0123456789": http.StatusUnauthorized} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(doorHello))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if sent != "" {
			req.Header.Set("Authorization", "Bearer "+sent)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("HTTP %d, want %d", res.StatusCode, want)
		}
	}
}
