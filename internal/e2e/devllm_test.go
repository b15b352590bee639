package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel/internal/devllm"
	"agentkernel/internal/tool/tooltest"
)

// sdkFolder is where `make llmsdks` installs the official clients of model providers; without them the test is skipped, and
// fails if CI is set.
func sdkFolder(t *testing.T) string {
	t.Helper()
	root, err := tooltest.Root()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, ".cache", "llmsdks")
	_, noSDK := os.Stat(filepath.Join(folder, "node_modules", "openai"))
	_, noNode := exec.LookPath("node")
	if err := errors.Join(noSDK, noNode); err != nil {
		msg := fmt.Sprintf("DEVLLM IS NOT TESTED BY THE OFFICIAL CLIENTS: %v; run: make llmsdks", err)
		if os.Getenv("CI") == "true" {
			t.Fatal(msg)
		}
		t.Skip(msg)
	}
	return folder
}

const sdkScript = `
rules:
  - when: {user: three, turn: 1}
    answer:
      text: I ask.
      calls:
        - {name: weather, arguments: {city: Berlin, days: 1}}
        - {name: weather, arguments: {city: Paris}}
        - {name: clock, arguments: {zone: UTC}}
  - when: {user: three, turn: 2}
    expect: {tool_result: '/(\d+) degrees\n\d+ degrees\n\d+ degrees/'}
    answer: {text: 'It has {{1}} degrees.'}
    wrong: {text: I was not told.}
`

// provider is a server of a profile, over HTTP.
func provider(t *testing.T, profile string) (*devllm.Server, string) {
	t.Helper()
	p, ok := devllm.ProfileByName(profile)
	if !ok {
		t.Fatalf("no profile %s", profile)
	}
	p.Limits.Total, p.Limits.Input, p.Limits.Output = 0, 0, 0 // there are too many requests here for a small account
	script, err := devllm.ParseScript("answers.yaml", []byte(sdkScript))
	if err != nil {
		t.Fatal(err)
	}
	o := devllm.Options{Profile: p, Script: script}
	if profile == "openai" || profile == "anthropic" {
		o.Keys, o.Reasoning = []string{"sk-made-up"}, 8
	}
	s, err := devllm.New(o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	return s, web.URL
}

// The official clients take devllm for the providers that they were made for: streams, calls, errors as their own classes,
// and retries that obey what a 429 says.
func TestDevLLMByTheOfficialClients(t *testing.T) {
	given := map[string]string{"folder": sdkFolder(t)}
	servers := map[string]*devllm.Server{}
	for _, name := range []string{"openai", "azure", "anthropic", "ollama"} {
		servers[name], given[name] = provider(t, name)
	}
	in, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join("testdata", "llmsdks.mjs"))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const calls = `[["weather",{"city":"Berlin","days":1}],["weather",{"city":"Paris"}],["clock",{"zone":"UTC"}]]`
	for name, wants := range map[string][]string{
		"chat":             {`"text":"Hello Hello`, `"completion_tokens":40`, `"reasoning_tokens":8`, `"left":"49`},
		"chat stream":      {`"text":"Hello Hello`, `"completion_tokens":40`, `"choices":0`},
		"chat three calls": {calls},
		"chat tool loop":   {`"It has 7 degrees."`},
		"chat structured":  {`{"risks":["text"]}`},
		"responses":        {`"Hello Hello`},
		"responses stream": {calls, `"status":"completed"`, `"text":"I ask."`, `"total_tokens":`},
		"responses count":  {"[5,5]"},
		"embeddings":       {`{"dims":1536,"same":true,"other":false}`},
		"models":           {`"gpt-dev"`, `"text-embedding-dev"`},

		"wrong key":     {`"AuthenticationError"`, `"status":401`, `"invalid_api_key"`},
		"unknown model": {`"NotFoundError"`, `"status":404`, `"model_not_found"`},
		"too long":      {`"BadRequestError"`, `"status":400`, `"context_length_exceeded"`},
		"fault 500":     {`"InternalServerError"`, `"status":500`},
		"fault 503":     {`"InternalServerError"`, `"status":503`, `"server_is_overloaded"`},
		"fault 529":     {`"InternalServerError"`, `"status":529`},
		"fault 429":     {`"RateLimitError"`, `"status":429`, `"rate_limit_exceeded"`},
		"fault quota":   {`"RateLimitError"`, `"status":429`, `"type":"insufficient_quota"`},
		"fault html":    {`"InternalServerError"`, `"status":502`},

		"stream cut":                  {`"class":`, `terminated`},
		"stream malformed":            {`"SyntaxError"`},
		"stream error-event":          {`"APIError"`, `Overloaded`},
		"responses cut":               {`"class":`, `terminated`},
		"responses malformed":         {`"SyntaxError"`},
		"retries":                     {`"stop"`},
		"azure stream":                {`"Hello Hello`},
		"azure retries":               {`"stop"`},
		"messages":                    {`"text":"Hello Hello`, `"stop":"end_turn"`, `"output_tokens":40`, `"left":"49"`},
		"messages stream":             {`"kinds":["thinking","text"]`, `"output":40`, `"again":"end_turn"`},
		"messages three calls":        {calls},
		"messages tool loop":          {`"It has 7 degrees."`},
		"messages structured":         {`{"risks":["text"]}`},
		"messages cache":              {"[true,true]"},
		"messages models":             {`"claude-dev"`},
		"messages wrong key":          {`"AuthenticationError"`, `"status":401`, `"authentication_error"`},
		"messages too long":           {`"BadRequestError"`, `prompt is too long`},
		"messages fault 500":          {`"InternalServerError"`, `"api_error"`},
		"messages fault 529":          {`"OverloadedError"`, `"status":529`, `"overloaded_error"`},
		"messages fault 429":          {`"RateLimitError"`, `"rate_limit_error"`},
		"messages fault quota":        {`"RateLimitError"`, `enforced_spend_limit_reached`},
		"messages retries":            {`"end_turn"`},
		"messages stream cut":         {`"class":`, `terminated`},
		"ollama stream":               {`"text":"Hello Hello`, `"done":"stop"`, `"counts":[4,32]`},
		"ollama three calls":          {calls},
		"ollama structured":           {`{"risks":["text"]}`},
		"ollama embed":                {`[768,768]`},
		"ollama models":               {`"llama-dev:3b"`},
		"ollama unknown model":        {`"ResponseError"`},
		"messages stream error-event": {`"APIError"`, `"overloaded_error"`},
		"messages stream malformed":   {`"SyntaxError"`},
		"messages unknown model":      {`"NotFoundError"`, `"status":404`},
		"messages count":              {"[7,7]"},
		"responses error-event":       {`Overloaded`},
	} {
		for _, want := range wants {
			if !strings.Contains(string(got[name]), want) {
				t.Errorf("%s: %s, without %s", name, got[name], want)
			}
		}
	}
	for name, least := range map[string]time.Duration{"openai": time.Second, "anthropic": time.Second, "azure": 300 * time.Millisecond} {
		obeyed(t, name, servers[name], least)
	}
}

// obeyed checks that whoever was told to come again did so, and not before. A client's timer may be a little early.
func obeyed(t *testing.T, name string, s *devllm.Server, least time.Duration) {
	t.Helper()
	list := s.Log(devllm.Filter{})
	told := 0
	for i, e := range list[:len(list)-1] {
		if e.Fault != "429" || e.RetryAfter == 0 {
			continue
		}
		told++
		if next := list[i+1]; next.Request != e.Request || next.Time.Sub(e.Time) < least-20*time.Millisecond {
			t.Errorf("%s: told to wait %s it came again after %s, with the same request: %t", name, least, next.Time.Sub(e.Time), next.Request == e.Request)
		}
	}
	if want := map[string]int{"openai": 2, "azure": 1, "anthropic": 2}[name]; told != want {
		t.Errorf("%s: %d were told to wait, not %d", name, told, want)
	}
}
