package fetch

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"agentkernel"
)

// What people write first says what they meant to write.
func TestWrongWordsNameTheRightOnes(t *testing.T) {
	target := func(text string) error {
		u, err := url.Parse(text)
		if err != nil {
			return err
		}
		_, err = targetOf(u)
		return err
	}
	pattern := func(text string) error { _, err := parsePattern(text); return err }
	nowhere := &Fetcher{cfg: Config{Resolver: resolves(func() ([]netip.Addr, error) { return nil, &net.DNSError{IsNotFound: true} })}}
	_, local := nowhere.resolve(t.Context(), "localhost")
	for want, err := range map[string]error{
		"write https://example.com":              target("example.com"),
		"write https://example.com/a?":           target("example.com/a"),
		"--allow-host 127.0.0.1:18765":           pattern("http://127.0.0.1:18765/"),
		"--allow-host api.github.com":            pattern("https://api.github.com/users"),
		"with its port, such as 127.0.0.1:8080":  pattern("127.0.0.1"),
		"write 127.0.0.1 with the port, such as": local,
	} {
		e := agentkernel.AsError(err, "", "")
		if e == nil || !strings.Contains(e.Message()+" "+e.Hint+"?", want) {
			t.Errorf("%+v lacks %q", e, want)
		}
	}
}

type resolves func() ([]netip.Addr, error)

func (r resolves) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return r() }
