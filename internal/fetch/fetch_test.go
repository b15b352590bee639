package fetch

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentkernel"
)

func newFetcher(t testing.TB, cfg Config) *Fetcher {
	t.Helper()
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// serve starts a server on loopback and gives its address, as a user would allow it.
func serve(t testing.TB, h http.HandlerFunc) (url, host string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL, s.Listener.Addr().String()
}

// raw starts a server that says to each connection what talk says.
func raw(t testing.TB, talk func(net.Conn)) (url, host string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); open.Wait() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer c.Close()
				talk(c)
			})
		}
	}()
	return "http://" + l.Addr().String(), l.Addr().String()
}

// request reads one request from a connection, with its body: what is left unread when it closes would make it a reset, and
// what was answered be lost.
func request(c net.Conn) {
	if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

func get(url string, hosts ...string) agentkernel.FetchRequest {
	return agentkernel.FetchRequest{Method: "GET", URL: url, Hosts: hosts, Redirects: 10}
}

func post(url string, hosts ...string) agentkernel.FetchRequest {
	return agentkernel.FetchRequest{Method: "POST", URL: url, Hosts: hosts, Redirects: 10, Body: []byte("data"), Key: "store/1/2"}
}

// want fetches and expects a code.
func want(t *testing.T, f *Fetcher, r agentkernel.FetchRequest, code agentkernel.Code, says string) agentkernel.FetchResponse {
	t.Helper()
	res, err := f.Fetch(t.Context(), r)
	if agentkernel.CodeOf(err) != code || code != "" && !strings.Contains(err.Error(), says) {
		t.Fatalf("%s %s: %v, want %q with %q", r.Method, r.URL, err, code, says)
	}
	return res
}

func TestFetch(t *testing.T) {
	url, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Method", r.Method)
		w.Header().Set("X-Key", r.Header.Get("Idempotency-Key"))
		w.Header().Set("X-Agent", r.UserAgent())
		w.WriteHeader(http.StatusTeapot)
		_, _ = fmt.Fprintf(w, "%s %s %s", r.RequestURI, r.Header.Get("X-Mine"), body)
	})
	f := newFetcher(t, Config{Version: "7"})
	for _, c := range []struct{ method, body, key string }{
		{"GET", "", ""}, {"HEAD", "", ""}, {"OPTIONS", "", ""}, {"PUT", "x", ""}, {"DELETE", "", ""}, {"POST", "x", "store/1/2"}, {"POST", "", "store/1/2"}, {"PATCH", "x", "store/1/2"},
	} {
		r := post(url+"/a%2Fb?c=d#e", host)
		r.Method, r.Body, r.Headers = c.method, []byte(c.body), map[string]string{"x-mine": "ü"}
		res := want(t, f, r, "", "")
		says := "/a%2Fb?c=d ü " + c.body
		if c.method == "HEAD" {
			says = ""
		}
		if res.Status != http.StatusTeapot || string(res.Body) != says || res.Headers.Get("X-Method") != c.method || res.Headers.Get("X-Key") != c.key ||
			res.Headers.Get("X-Agent") != "AgentKernel/7" {
			t.Errorf("%s: %d %q %v", c.method, res.Status, res.Body, res.Headers)
		}
	}
	own := post(url, host)
	own.Headers = map[string]string{"Idempotency-Key": "mine", "User-Agent": "me"}
	if res := want(t, f, own, "", ""); res.Headers.Get("X-Key") != "mine" || res.Headers.Get("X-Agent") != "me" {
		t.Errorf("the program's own headers: %v", res.Headers)
	}
}

func TestRequestsThatAreNone(t *testing.T) {
	f := newFetcher(t, Config{})
	for says, change := range map[string]func(*agentkernel.FetchRequest){
		"method":         func(r *agentkernel.FetchRequest) { r.Method = "CONNECT" },
		`method "get"`:   func(r *agentkernel.FetchRequest) { r.Method = "get" },
		"max_bytes":      func(r *agentkernel.FetchRequest) { r.MaxBytes = MaxBody + 1 },
		"redirects":      func(r *agentkernel.FetchRequest) { r.Redirects = 21 },
		"timeout":        func(r *agentkernel.FetchRequest) { r.Timeout = -1 },
		"url is":         func(r *agentkernel.FetchRequest) { r.URL += strings.Repeat("a", maxURL) },
		"header Host":    func(r *agentkernel.FetchRequest) { r.Headers = map[string]string{"hOST": "evil.test"} },
		"Content-Length": func(r *agentkernel.FetchRequest) { r.Headers = map[string]string{"content-length": "1"} },
		"Transfer-Enc":   func(r *agentkernel.FetchRequest) { r.Headers = map[string]string{"Transfer-Encoding": "chunked"} },
		"Proxy-Auth":     func(r *agentkernel.FetchRequest) { r.Headers = map[string]string{"proxy-authorization": "x"} },
		"line break":     func(r *agentkernel.FetchRequest) { r.Headers = map[string]string{"X-A": "b\r\nX-Evil: 1"} },
		"no name":        func(r *agentkernel.FetchRequest) { r.Headers = map[string]string{"X A": "b"} },
		"twice":          func(r *agentkernel.FetchRequest) { r.Headers = map[string]string{"X-A": "b", "x-a": "c"} },
		"bytes long": func(r *agentkernel.FetchRequest) {
			r.Headers = map[string]string{"X-A": strings.Repeat("b", maxHeaderBytes)}
		},
		"no secret": func(r *agentkernel.FetchRequest) { r.Headers = map[string]string{"X-A": "{{secret:unheard-of}}"} },
	} {
		r := get("https://example.com/", "*")
		change(&r)
		err := f.Admit(r)
		if agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want it to say %q", err, says)
		}
	}
}

// names is a resolver of a few names; what it was asked is kept.
type names struct {
	mu    sync.Mutex
	addrs map[string][][]string // answers in turn, the last one for ever
	asked []string
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, host)
	answers := n.addrs[strings.TrimSuffix(host, ".")]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(answers) > 1 {
		n.addrs[strings.TrimSuffix(host, ".")] = answers[1:]
	}
	var out []netip.Addr
	for _, a := range answers[0] {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

// TestNamesThatLeadInside: an allowed name at an address that is not public is refused, and nothing is connected to.
func TestNamesThatLeadInside(t *testing.T) {
	var reached atomic.Int64
	url, host := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	_, port, _ := net.SplitHostPort(host)
	dns := &names{addrs: map[string][][]string{
		"loop.test": {{"127.0.0.1"}}, "mapped.test": {{"::ffff:127.0.0.1"}}, "v6.test": {{"::1"}}, "nat64.test": {{"64:ff9b::7f00:1"}},
		"sixto4.test": {{"2002:7f00:1::1"}}, "meta.test": {{"169.254.169.254"}}, "ten.test": {{"10.1.2.3"}}, "any.test": {{"0.0.0.0"}},
		"mixed.test": {{"8.8.8.8", "127.0.0.1"}}, "mine.test": {{"9.9.9.9"}},
	}}
	f := newFetcher(t, Config{Resolver: dns, Own: func(a netip.Addr) bool { return a == netip.MustParseAddr("9.9.9.9") }})
	for name := range dns.addrs {
		// The port is the listening one, and loopback itself is allowed: neither makes the name a way to it.
		r := get("http://"+name+":"+port+"/", name+":"+port, "*:"+port, host)
		want(t, f, r, agentkernel.CodeDenied, "not public")
		r.Method = "POST"
		if res := want(t, f, r, agentkernel.CodeDenied, ""); !res.Settled {
			t.Errorf("%s: the outcome of a request that was not sent is open", name)
		}
	}
	if reached.Load() != 0 {
		t.Errorf("%d requests reached a server on loopback by a name", reached.Load())
	}
	want(t, f, get("https://nowhere.test/", "*"), agentkernel.CodeUnavailable, "no host nowhere.test")
	want(t, f, get(url, host), "", "")
	for _, asked := range dns.asked {
		if !strings.HasSuffix(asked, ".") {
			t.Errorf("%s was asked for: search domains may answer", asked)
		}
	}
}

// TestRebinding: the name is resolved once for a connection, and what was checked is what is dialled; an answer that
// would come later never counts.
func TestRebinding(t *testing.T) {
	_, host := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a server on loopback was reached") })
	_, port, _ := net.SplitHostPort(host)
	// A public address at which nobody answers at this port, then loopback.
	dns := &names{addrs: map[string][][]string{"rebind.test": {{"192.0.2.1"}, {"127.0.0.1"}}}}
	f := newFetcher(t, Config{Resolver: dns})
	want(t, f, get("http://rebind.test:"+port+"/", "rebind.test:"+port), agentkernel.CodeDenied, "not public")
	want(t, f, get("http://rebind.test:"+port+"/", "rebind.test:"+port), agentkernel.CodeDenied, "not public")
	if len(dns.asked) != 2 {
		t.Errorf("two requests asked %d times: %v", len(dns.asked), dns.asked)
	}
}

func TestNoProxy(t *testing.T) {
	proxy, _ := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a proxy of the environment was used") })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy)
	}
	f := newFetcher(t, Config{Resolver: &names{}})
	want(t, f, get("http://example.test/", "example.test:80"), agentkernel.CodeUnavailable, "no host")
	if f.public.Proxy != nil || f.named.Proxy != nil {
		t.Error("a transport looks for proxies")
	}
}

func TestRedirects(t *testing.T) {
	var other struct {
		sync.Mutex
		header http.Header
		method string
		body   string
	}
	otherURL, otherHost := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		other.Lock()
		defer other.Unlock()
		other.header, other.method, other.body = r.Header.Clone(), r.Method, string(body)
		_, _ = io.WriteString(w, "other")
	})
	var url, host string
	url, host = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			_, _ = io.WriteString(w, r.Method+" "+r.Header.Get("Authorization"))
			return
		}
		code, _ := strconv.Atoi(r.URL.Query().Get("code"))
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(code)
	})
	f := newFetcher(t, Config{Secrets: []string{"tok env:TOK " + host}, Env: func(string) (string, bool) { return "tops3cret/value", true },
		Resolver: &names{addrs: map[string][][]string{"inside.test": {{"127.0.0.1"}}}}})
	to := func(code int, location string) string {
		return fmt.Sprintf("%s/?code=%d&to=%s", url, code, strings.NewReplacer("&", "%26", "?", "%3f", "#", "%23").Replace(location))
	}
	headers := map[string]string{"Authorization": "Bearer {{secret:tok}}", "X-Api-Key": "mine", "Cookie": "a=b", "Accept": "text/x"}

	// Within the host everything goes along; the method changes as it always has.
	for code, method := range map[int]string{301: "GET", 302: "GET", 303: "GET", 307: "POST", 308: "POST"} {
		r := post(to(code, "/end"), host)
		r.Headers = headers
		if res := want(t, f, r, "", ""); string(res.Body) != method+" Bearer [secret:tok]" || res.URL != url+"/end" {
			t.Errorf("%d: %q from %s", code, res.Body, res.URL)
		}
	}
	// Another host gets what cannot be a credential, and only if it is allowed.
	r := post(to(307, otherURL+"/x"), host, otherHost)
	r.Headers = headers
	want(t, f, r, "", "")
	other.Lock()
	for _, name := range []string{"Authorization", "X-Api-Key", "Cookie"} {
		if other.header.Get(name) != "" {
			t.Errorf("%s: %s went to another host", name, other.header.Get(name))
		}
	}
	if other.header.Get("Accept") != "text/x" || other.method != "POST" || other.body != "data" {
		t.Errorf("the other host got %s %q %v", other.method, other.body, other.header)
	}
	other.header = nil
	other.Unlock()
	for location, says := range map[string]string{
		otherURL: "was not allowed", "//evil.test/": "evil.test", "https://evil.test/": "evil.test was not allowed", "http://169.254.169.254/": "never",
		"file:///etc/passwd": "only https and http", "http://u:p@" + host: "user name", "http://2130706433/": "neither", "ftp://x": "only https",
	} {
		// The POST was made, and is not made again by whoever reads the error; one that is to be made elsewhere was not.
		for status, code := range map[int]agentkernel.Code{302: agentkernel.CodeAnswerLost, 307: agentkernel.CodeDenied} {
			if res := want(t, f, post(to(status, location), host), code, says); !res.Settled {
				t.Errorf("%s: a POST that was answered with a redirect has an open outcome", location)
			}
		}
	}
	_, port, _ := net.SplitHostPort(host)
	want(t, f, get(to(302, "http://inside.test:"+port+"/end"), host, "inside.test:"+port), agentkernel.CodeDenied, "not public")
	// A server that is given a secret does not hand it on in the query.
	r = get(to(302, otherURL+"/?leak=tops3cret/value"), host, otherHost)
	r.Headers = headers
	want(t, f, r, agentkernel.CodeDenied, "with a secret in the url")
	if other.header != nil {
		t.Error("a redirect that was refused was followed")
	}
	// Not followed, or not for ever.
	r = get(to(302, "/end"), host)
	r.Redirects = 0
	if res := want(t, f, r, "", ""); res.Status != 302 || res.Headers.Get("Location") != "/end" {
		t.Errorf("%d %v", res.Status, res.Headers)
	}
}

func TestRedirectLoop(t *testing.T) {
	var n atomic.Int64
	url, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf("/%d", n.Add(1)), http.StatusFound)
	})
	r := get(url, host)
	r.Redirects = 5
	want(t, newFetcher(t, Config{}), r, agentkernel.CodeLimit, "more than 5 times")
	if n.Load() != 6 {
		t.Errorf("%d requests were made", n.Load())
	}
}

func TestSecrets(t *testing.T) {
	const value = `s3cret-"value"/+=`
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got atomic.Value
	url, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization"))
		quoted, _ := json.Marshal(map[string]string{"auth": r.Header.Get("Authorization")})
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		_, _ = fmt.Fprintf(w, "%s %s %s %s %s", quoted, r.Header.Get("Authorization"), base64.StdEncoding.EncodeToString([]byte(value)), strings.ReplaceAll(string(quoted), "/", `\/`),
			base64.StdEncoding.EncodeToString([]byte("user:"+value)))
	})
	otherURL, otherHost := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a secret's request went to another host") })
	env := map[string]string{"TOK": value, "SHORT": "abc", "LINES": "abcdefgh\nijk", "EMPTY": ""}
	f := newFetcher(t, Config{Env: func(k string) (string, bool) { v, ok := env[k]; return v, ok },
		Resolver: &names{addrs: map[string][][]string{"api.test": {{"127.0.0.1"}}}},
		Secrets: []string{"tok env:TOK " + host, "file file:" + file + " " + host, "short env:SHORT " + host, "lines env:LINES " + host,
			"empty env:EMPTY " + host, "gone file:" + dir + "/gone " + host, "public env:TOK api.test api.test:80"}})
	for _, name := range []string{"tok", "file"} {
		r := get(url, host)
		r.Headers = map[string]string{"Authorization": "Bearer {{secret:" + name + "}}"}
		res := want(t, f, r, "", "")
		if got.Load() != "Bearer "+value {
			t.Errorf("the server got %q", got.Load())
		}
		all := fmt.Sprintf("%s %v", res.Body, res.Headers)
		for _, form := range []string{value, `s3cret-\"value`, base64.StdEncoding.EncodeToString([]byte("user:" + value)), base64.StdEncoding.EncodeToString([]byte(value))} {
			if strings.Contains(all, form) {
				t.Errorf("the answer still holds %s: %s", form, all)
			}
		}
		if !strings.Contains(all, "Bearer [secret:"+name+"]") {
			t.Errorf("the place of the secret is not marked: %s", all)
		}
	}
	for _, c := range []struct {
		name, url, host string
		code            agentkernel.Code
		says            string
	}{
		{"tok", otherURL, otherHost, agentkernel.CodeDenied, "may not go"},
		{"public", "http://api.test/", "api.test:80", agentkernel.CodeDenied, "not encrypted"},
		{"short", url, host, agentkernel.CodeUnavailable, "shorter"},
		{"lines", url, host, agentkernel.CodeUnavailable, "no header can carry"},
		{"empty", url, host, agentkernel.CodeUnavailable, "no value"},
		{"gone", url, host, agentkernel.CodeUnavailable, "cannot be read"},
	} {
		if c.name == "tok" {
			c.code, c.says = agentkernel.CodeDenied, "not encrypted" // nor is the host one of the secret's
		}
		r := get(c.url, c.host)
		r.Headers = map[string]string{"X-Key": "{{secret:" + c.name + "}}"}
		_, err := f.Fetch(t.Context(), r)
		if agentkernel.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if text := fmt.Sprintf("%v %v", err, agentkernel.AsError(err, "", "").Hint); strings.Contains(text, "s3cret") || strings.Contains(text, "abc") {
			t.Errorf("%s: the error holds the value: %s", c.name, text)
		}
	}
	r := get("https://other.test/", "other.test")
	r.Headers = map[string]string{"X-Key": "{{secret:public}}"}
	want(t, f, r, agentkernel.CodeDenied, "may not go to other.test, only to api.test")
}

// TestSecretsThatCameBefore: a server that shows requests shows them to whomever asks, in whatever part of an answer, and at other hosts.
func TestSecretsThatCameBefore(t *testing.T) {
	const value = "S3cret-Value-4711"
	var last atomic.Value
	last.Store("")
	show := func(w http.ResponseWriter, r *http.Request) {
		shown := last.Load().(string)
		if r.Header.Get("X-Key") != "" {
			last.Store(r.Header.Get("X-Key"))
		}
		switch r.URL.Path {
		case "/name":
			w.Header().Set("X-"+strings.TrimPrefix(shown, "Key "), "there")
		case "/moved":
			w.Header().Set("Location", "https://"+strings.TrimPrefix(shown, "Key ")+".other.test/")
			w.WriteHeader(http.StatusFound)
			return
		case "/broken":
			w.Header().Set("Location", strings.Repeat("x", 80)+shown+":")
			w.WriteHeader(http.StatusFound)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("last: "+shown))
	}
	url, host := serve(t, show)
	statusURL, statusHost := serve(t, show)
	f := newFetcher(t, Config{Env: func(k string) (string, bool) { v, ok := map[string]string{"TOK": value}[k]; return v, ok }, Secrets: []string{"tok env:TOK " + host, "none env:NONE " + host}})
	both := []string{host, statusHost}
	r := get(url, both...)
	r.Headers = map[string]string{"X-Key": "Key {{secret:tok}}"}
	want(t, f, r, "", "")
	for _, at := range []string{url, statusURL} {
		if res := want(t, f, get(at+"/last", both...), "", ""); string(res.Body) != "last: Key [secret:tok]" {
			t.Errorf("%s shows %q", at, res.Body)
		}
		if res := want(t, f, get(at+"/name", both...), "", ""); fmt.Sprint(res.Headers) == "" || strings.Contains(strings.ToLower(fmt.Sprint(res.Headers)), strings.ToLower(value)) {
			t.Errorf("%s: %v", at, res.Headers)
		}
		for _, path := range []string{"/moved", "/broken"} {
			moved := get(at+path, both...)
			moved.Redirects = 3
			if _, err := f.Fetch(t.Context(), moved); agentkernel.CodeOf(err) != agentkernel.CodeDenied || strings.Contains(strings.ToLower(fmt.Sprint(err)), "s3cret") {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	for _, name := range []string{"Range", "range", "If-Range", "Request-Range"} {
		for _, key := range []string{"", "Key {{secret:tok}}"} {
			part := get(url, host)
			if part.Headers = map[string]string{name: "bytes=6-9"}; key != "" {
				part.Headers["X-Key"] = key
			}
			want(t, f, part, agentkernel.CodeDenied, "a secret may go there")
		}
	}
	part := get(statusURL, statusHost) // nothing can have gone from this process to where a secret may go
	part.Headers = map[string]string{"Range": "bytes=0-3"}
	if res := want(t, f, part, "", ""); string(res.Body) != "last" {
		t.Errorf("a part of an answer of another host: %q", res.Body)
	}
}

func TestOverlaps(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"api.test", "api.test", true}, {"api.test", "*.test", true}, {"*.api.test", "*.test", true}, {"*.api.test", "x.api.test", true}, {"api.test", "*", true},
		{"127.0.0.1:80", "127.0.0.1:80", true}, {"api.test", "api.test:80", false}, {"api.test", "other.test", false}, {"api.test", "*.api.test", false},
		{"xapi.test", "*.api.test", false}, {"api.test:8080", "*", false},
	} {
		p, err := parsePattern(c.a)
		q, errB := parsePattern(c.b)
		if err = errors.Join(err, errB); err != nil {
			t.Fatal(err)
		}
		if p.overlaps(q) != c.want || q.overlaps(p) != c.want {
			t.Errorf("%s and %s: %t", c.a, c.b, !c.want)
		}
	}
}

func TestSecretEntriesThatAreNone(t *testing.T) {
	for _, entry := range []string{"", "name", "name env:X", "name env: host.test", "name X host.test", "name file:rel host.test", "na me env:X host.test",
		"name env:X *", "name env:X https://host.test", "-x env:X host.test", "name env:X 10.0.0.1"} {
		_, err := New(Config{Secrets: []string{entry}})
		if agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%q: %v", entry, err)
		}
	}
	if _, err := New(Config{Secrets: []string{"a env:X h.test", "a env:Y h.test"}}); err == nil {
		t.Error("a name may be there twice")
	}
	for _, entry := range []string{"github ghp_averysecretvalue api.github.com", "ghp_averysecretvalue"} {
		_, err := New(Config{Secrets: []string{entry}})
		if err == nil || strings.Contains(err.Error()+agentkernel.AsError(err, "", "").Hint, "ghp_") {
			t.Errorf("a value that stands in the entry by mistake is shown: %v", err)
		}
	}
}

// Secrets may be replaced while a kernel runs; entries that are none replace nothing.
func TestSecretsMayChange(t *testing.T) {
	f, err := New(Config{Secrets: []string{"old env:OLD h.test"}})
	if err != nil {
		t.Fatal(err)
	}
	knows := func(name string) bool {
		r := get("https://h.test/", "h.test")
		r.Headers = map[string]string{"X-Key": "{{secret:" + name + "}}"}
		return f.Admit(r) == nil
	}
	if err := f.SetSecrets([]string{"new env:NEW h.test", "new env:NEW h.test"}); agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !knows("old") || knows("new") {
		t.Errorf("%v; the old one is known: %t, the new one: %t", err, knows("old"), knows("new"))
	}
	if err := f.SetSecrets([]string{"new env:NEW h.test"}); err != nil || knows("old") || !knows("new") {
		t.Errorf("%v; the old one is known: %t, the new one: %t", err, knows("old"), knows("new"))
	}
}
