package fetch

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"agentkernel"
)

func TestClassify(t *testing.T) {
	for want, list := range map[kind]string{
		public: "8.8.8.8 93.184.216.34 1.1.1.1 2606:4700::1111 2a00:1450:4001::1 ::ffff:8.8.8.8 64:ff9b::808:808",
		private: "127.0.0.1 127.255.255.254 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 198.18.0.1 203.0.113.9 192.0.2.1 198.51.100.1 " +
			"240.0.0.1 ::1 fc00::1 fd12:3456::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::a00:1 64:ff9b::7f00:1 64:ff9b:1::1 2002:7f00:1:: 2002:a00:1::1 " +
			"2001:0:53aa:64c::1 2001:db8::1 3fff::1 ::7f00:1 ::ffff:0:7f00:1 fec0::1 5f00::1 2a00::5efe:7f00:1 2a00::200:5efe:a00:1 192.88.99.1 100::1",
		barred: "0.0.0.0 0.1.2.3 169.254.169.254 169.254.0.1 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe fe80::1 fe80::1%eth0 fd00:ec2::254 168.63.129.16 " +
			"100.100.100.200 192.0.0.192 :: 224.0.0.1 239.1.1.1 ff02::1 255.255.255.255",
	} {
		for text := range strings.FieldsSeq(list) {
			if got := classify(netip.MustParseAddr(text)); got != want {
				t.Errorf("%s is %d, want %d", text, got, want)
			}
		}
	}
	if classify(netip.Addr{}) == public {
		t.Error("no address at all is public")
	}
}

// TestHosts: which URLs which patterns let through. Whatever a pattern stands for, a private address is named itself.
func TestHosts(t *testing.T) {
	for _, c := range []struct{ patterns, url, want string }{
		{"api.example.com", "https://api.example.com/x", ""},
		{"api.example.com", "https://API.Example.COM./x", ""},
		{"API.example.com.", "https://api.example.com:443/x", ""},
		{"api.example.com", "http://api.example.com/x", "denied"},
		{"api.example.com", "https://api.example.com:8443/x", "denied"},
		{"api.example.com:8443", "https://api.example.com:8443/x", ""},
		{"api.example.com:8443", "https://api.example.com/x", "denied"},
		{"api.example.com:80", "http://api.example.com/x", ""},
		{"api.example.com", "https://api.example.com.evil.test/", "denied"},
		{"api.example.com", "https://evil.test/api.example.com", "denied"},
		{"api.example.com", "https://evil.test#api.example.com", "denied"},
		{"api.example.com", "https://evil.test?api.example.com", "denied"},
		{"*.example.com", "https://a.b.example.com/", ""},
		{"*.example.com", "https://example.com/", "denied"},
		{"*.example.com", "https://aexample.com/", "denied"},
		{"other.test api.example.com", "https://api.example.com/", ""},
		{"", "https://api.example.com/", "denied"},
		{"*", "https://anything.test/", ""},
		{"*", "http://anything.test/", "denied"},
		{"*", "https://8.8.8.8/", ""},
		{"*", "https://127.0.0.1/", "denied"},
		{"* *:8080", "http://127.0.0.1:8080/", "denied"},
		{"* *:8080", "http://10.0.0.1:8080/", "denied"},
		{"* *:8080", "http://[::1]:8080/", "denied"},
		{"127.0.0.1:8080", "http://127.0.0.1:8080/", ""},
		{"127.0.0.1:8080", "http://127.0.0.1:8081/", "denied"},
		{"127.0.0.1:8080", "http://127.0.0.2:8080/", "denied"},
		{"127.0.0.1:8080", "http://localhost:8080/", "denied"},
		{"127.0.0.1:8080", "http://[::ffff:127.0.0.1]:8080/", ""}, // the same address
		{"[::1]:8080", "http://[::1]:8080/", ""},
		{"[::1]:8080", "http://[0:0:0:0:0:0:0:1]:8080/", ""},
		{"*", "http://169.254.169.254/latest", "denied"},
		{"*", "https://[fe80::1%25eth0]/", "denied"},
		{"*", "https://2130706433/", "invalid"},
		{"*", "https://0x7f000001/", "invalid"},
		{"*", "https://0x7f.1/", "invalid"},
		{"*", "https://127.1/", "invalid"},
		{"*", "https://0177.0.0.1/", "invalid"},
		{"*", "https://127.0.0.1.5/", "invalid"},
		{"*", "https://example.123/", "invalid"},
		{"*", "https://ⓔxample.com/", "invalid"},
		{"*", "https://１２７.0.0.1/", "invalid"},
		{"*", "https://exämple.com/", "invalid"},
		{"*", "https://%65xample.com/", "invalid"},
		{"*", "https://xn--exmple-cua.com/", ""},
		{"*", "https://user:pw@example.com/", "invalid"},
		{"*", "https://@example.com/", "invalid"},
		{"*", "https://api.example.com@evil.test/", "invalid"},
		{"*", `https://evil.test\@api.example.com/`, "invalid"},
		{"*", "https://example.com:0/", "invalid"},
		{"*", "https://example.com:99999/", "invalid"},
		{"*", "https://example.com:/", "invalid"},
		{"*", "https://example..com/", "invalid"},
		{"*", "https://-example.com/", "invalid"},
		{"*", "https://exam ple.com/", "invalid"},
		{"*", "https:///x", "invalid"},
		{"*", "https:example.com", "invalid"},
		{"*", "//example.com/", "invalid"},
		{"*", "file:///etc/passwd", "invalid"},
		{"*", "gopher://example.com/", "invalid"},
		{"*", "unix:///var/run/docker.sock", "invalid"},
		{"*", "https://example.com\x00.evil.test/", "invalid"},
		{"*", "https://" + strings.Repeat("a.", 200) + "com/", "invalid"},
		{"*", "", "invalid"},
	} {
		f := newFetcher(t, Config{})
		err := f.Admit(agentkernel.FetchRequest{URL: c.url, Method: "GET", Hosts: strings.Fields(c.patterns)})
		want := map[string]agentkernel.Code{"": "", "denied": agentkernel.CodeDenied, "invalid": agentkernel.CodeInvalid}[c.want]
		if got := agentkernel.CodeOf(err); got != want {
			t.Errorf("%s with %q: %v, want %q", c.url, c.patterns, err, want)
		}
	}
}

// TestHintNamesTheFlag: what an error says to do is what makes the request possible.
func TestHintNamesTheFlag(t *testing.T) {
	f := newFetcher(t, Config{})
	for _, url := range []string{"https://example.com/", "http://example.com/", "https://example.com:8443/", "http://127.0.0.1:9/", "https://[::1]/", "https://8.8.8.8/"} {
		err := f.Admit(agentkernel.FetchRequest{URL: url, Method: "GET"})
		_, flag, ok := strings.Cut(agentkernel.AsError(err, "", "").Hint, "--allow-host '")
		flag, _, closed := strings.Cut(flag, "'")
		if !ok || !closed {
			t.Fatalf("%s: the hint of %v names no flag", url, err)
		}
		if err := f.Admit(agentkernel.FetchRequest{URL: url, Method: "GET", Hosts: []string{flag}}); err != nil {
			t.Errorf("%s: with --allow-host %s: %v", url, flag, err)
		}
	}
}

func TestPatternsThatAreNone(t *testing.T) {
	f := newFetcher(t, Config{})
	for _, p := range []string{"", " ", "https://example.com", "example.com/x", "u@example.com", "example.com:0", "example.com:x", "example.com:", "*.10.0.0.1",
		"127.0.0.1", "10.0.0.1", "::1", "[::1]", "169.254.169.254:80", "0.0.0.0:80", "a*b.com", "**", "*.", "127.1:80", "exämple.com"} {
		if err := f.CheckHosts([]string{"example.com", p}); err == nil {
			t.Errorf("%q is taken as a pattern", p)
		} else if agentkernel.AsError(err, "", "").Code == agentkernel.CodeInternal {
			t.Errorf("%q: %v", p, err)
		}
	}
}

func FuzzTarget(f *testing.F) {
	for _, s := range []string{"https://example.com/", "http://127.0.0.1:8080", "https://[::1]:1/", "https://a@b", "https://%31/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		to, err := targetOf(u)
		if err != nil {
			return
		}
		// What is asked for, read again, leads to the same place.
		again, err := url.Parse(to.scheme + "://" + to.hostPort() + "/")
		if err != nil {
			t.Fatalf("%q gives %q, which is no url: %v", text, to.hostPort(), err)
		}
		if back, err := targetOf(again); err != nil || back != to {
			t.Fatalf("%q leads to %+v, and %q to %+v, %v", text, to, again, back, err)
		}
	})
}
