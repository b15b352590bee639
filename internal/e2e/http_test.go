package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/embedded"
)

// fetchProgram uses every part of an answer, in both forms of the function.
const fetchProgram = `
import asyncio
from kernel import http, state, ToolError, LimitError
from kernel.aio import http as later

BASE = "URL"
r = http.fetch(BASE + "/json?a=1", headers={"Authorization": "Bearer {{secret:tok}}"})
print(r, r.status, r.url == BASE + "/json?a=1", r.headers["content-type"], r.json()["path"], r.json()["auth"])
r = http.fetch(BASE + "/echo", "POST", body={"a": [1, None, "ü"]})
print(r.text, r.bytes() == r.text.encode())
r = http.fetch(BASE + "/binary", method="PUT", body=b"\x00\xff")
print(r.text, r.bytes())
try:
    r.json()
except ValueError as e:
    print("ValueError", e)
state.set("answer", r)
print(http.fetch(BASE + "/missing").status)


async def main():
    answers = await asyncio.gather(*[later.fetch(BASE + "/json?n=" + str(i)) for i in range(20)])
    print([a.json()["query"] for a in answers])
    try:
        await later.fetch(BASE + "/large", max_bytes=10)
    except LimitError as e:
        print(type(e).__name__ != "", str(e)[:15])

asyncio.run(main())
for url in ["https://elsewhere.test/", "http://localhost:1/", BASE + "/away", "http://169.254.169.254/"]:
    try:
        http.fetch(url)
    except PermissionError as e:
        print(str(e)[:17])
for bad in [lambda: http.fetch(), lambda: http.fetch("ftp://x/"), lambda: http.fetch(BASE, headers={"Host": "x"})]:
    try:
        bad()
    except TypeError as e:
        print(str(e)[:16])
http.fetch(BASE + "/cut")
`

// TestFetchFromBothGuests: one program on both backends says the same and is answered the same.
func TestFetchFromBothGuests(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"path":%q,"query":%q,"auth":%q}`, r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization"))
		case "/echo", "/binary":
			_, _ = io.Copy(w, r.Body)
		case "/away":
			http.Redirect(w, r, "http://10.0.0.1/", http.StatusFound)
		case "/large":
			_, _ = w.Write(make([]byte, 1<<16))
		case "/cut":
			w.Header().Set("Content-Length", "100")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	const value = "a-value-that-nobody-may-see"
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	host := s.Listener.Addr().String()
	dir := home(t)
	k := openEmbedded(t, dir, func(c *embedded.Config) { c.Sandboxes, c.Secrets = true, []string{"tok file:" + token + " " + host} })
	var said [2]string
	for i, backend := range []string{"monty", "process"} {
		spec := program(strings.ReplaceAll(fetchProgram, "URL", s.URL))
		spec.Backend, spec.AllowHosts = backend, []string{host}
		o := run(t, k, spec)
		said[i] = o.stdout
		if o.Error == nil || o.Error.Code != agentkernel.CodeProgram || !strings.Contains(o.Error.Message(), "ToolError: unavailable: "+host+" closed the connection") &&
			!strings.Contains(o.Error.Message(), "RuntimeError: unavailable: "+host+" closed the connection") {
			t.Errorf("%s: ended with %v %s", backend, o.Error, o.stderr)
		}
		state, err := k.State(t.Context(), o.PID)
		if err != nil || !strings.Contains(string(state["answer"]), `"type":"Response"`) {
			t.Errorf("%s: an answer in the state is %s, %v", backend, state["answer"], err)
		}
	}
	for _, line := range []string{"<Response 200> 200 True application/json /json Bearer [secret:tok]", `{"a":[1,null,"ü"]} True`, `None b'\x00\xff'`,
		"ValueError the body is not text", "404", "'n=0', 'n=1', 'n=2'", "True limit_exceeded:"} {
		if !strings.Contains(said[0], line) {
			t.Errorf("nothing says %q:\n%s", line, said[0])
		}
	}
	if said[0] != said[1] || strings.Count(said[0], "permission_denied") != 4 || strings.Count(said[0], "invalid_argument") != 3 {
		t.Errorf("monty:\n%s\nprocess:\n%s", said[0], said[1])
	}
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), value) {
			t.Errorf("%s holds the secret (or %v)", filepath.Base(path), err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
