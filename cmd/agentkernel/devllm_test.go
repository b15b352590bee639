package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
)

// The provider says where it listens, answers, writes its log without keys, and ends when it is told to; its address is no
// other's meanwhile.
func TestDevLLMServes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "answers.yaml"), []byte("rules:\n  - {when: {user: hello}, answer: {text: Hello to you.}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	command := func(out io.Writer, errs io.Writer, args ...string) int {
		h := host{args: append([]string{"devllm"}, args...), env: []string{"HOME=" + dir}, userHome: dir, in: strings.NewReader(""), out: out, err: errs,
			width: func() int { return 80 }, workingDir: func() (string, error) { return dir, nil },
			signals: func() (<-chan os.Signal, func()) { return nil, func() {} }}
		return run(ctx, h, systemParts())
	}
	ended := make(chan int, 1)
	go func() {
		ended <- command(write, io.Discard, "--listen", "127.0.0.1:0", "--json", "--script", "answers.yaml", "--log", "log.jsonl", "--key", "sk-made-up")
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var says struct{ URL, Profile string }
	if err := json.Unmarshal([]byte(line), &says); err != nil || says.Profile != "openai" {
		t.Fatalf("%v: %s", err, line)
	}
	for key, want := range map[string]string{"sk-made-up": "Hello to you.", "sk-other": "invalid_api_key"} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", says.URL+"/v1/chat/completions", strings.NewReader(`{"model":"gpt-dev","messages":[{"role":"user","content":"hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%v: %s", err, body)
		}
	}
	var errs strings.Builder
	if code := command(io.Discard, &errs, "--listen", strings.TrimPrefix(says.URL, "http://")); code != agentkernel.ExitUnavailable || !strings.Contains(errs.String(), "cannot be listened on") || !strings.Contains(errs.String(), "--listen 127.0.0.1:0") {
		t.Errorf("a port in use: exit %d, %s", code, errs.String())
	}
	cancel()
	if code := <-ended; code != agentkernel.ExitOK {
		t.Errorf("exit %d", code)
	}
	log, err := os.ReadFile(filepath.Join(dir, "log.jsonl"))
	if err != nil || strings.Count(string(log), "\n") != 2 || strings.Contains(string(log), "sk-") {
		t.Errorf("%v: %s", err, log)
	}
}
