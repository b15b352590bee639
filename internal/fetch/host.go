package fetch

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/shellword"
)

const op = "http.fetch"

func invalid(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, op, format, args...)
}

func denied(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeDenied, op, format, args...)
}

// target is where a request goes: the one reading of a URL that the rules, the dialler and the server share.
type target struct {
	scheme string
	host   string     // a name in lower case without trailing dot, or an address as netip writes it
	addr   netip.Addr // set if the host is an address
	port   uint16
}

// httpsPort is the port that a pattern without one means: it stands for HTTPS.
const httpsPort = 443

// targetOf reads where a URL leads. What browsers and resolvers would read in different ways is refused.
func targetOf(u *url.URL) (target, error) {
	var t target
	switch {
	case u.Scheme == "" && u.Host == "" && u.Path != "" && u.Path[0] != '/':
		return t, invalid("the url %q has no scheme", clip.Short(u.Path)).WithHint("write https://%s", clip.Short(u.Path))
	case u.Scheme != "https" && u.Scheme != "http":
		return t, invalid("the url begins with %q; only https and http are fetched", clip.Short(u.Scheme+":"))
	case u.Opaque != "" || u.Host == "":
		return t, invalid("the url has no host: write https://host/path")
	case u.User != nil:
		return t, invalid("the url holds a user name").
			WithHint(`credentials go into a header: {"Authorization": "Basic {{secret:NAME}}"}`)
	}
	t.scheme, t.port = u.Scheme, httpsPort
	if u.Scheme == "http" {
		t.port = 80
	}
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return t, invalid("the url has the port %q; ports are numbers from 1 to 65535", clip.Short(text))
		}
		t.port = uint16(n)
	} else if strings.HasSuffix(u.Host, ":") {
		return t, invalid("the url has a colon behind its host and no port")
	}
	var err error
	t.host, t.addr, err = hostOf(u.Hostname())
	return t, err
}

// hostOf gives the one form of a host.
func hostOf(text string) (string, netip.Addr, error) {
	var none netip.Addr
	if a, err := netip.ParseAddr(text); err == nil {
		if a.Zone() != "" {
			return "", none, denied("%s is an address with a zone, which is on this machine's own network", clip.Short(text))
		}
		return a.Unmap().String(), a.Unmap(), nil
	}
	name := strings.ToLower(strings.TrimSuffix(text, "."))
	switch bad := badName(name); {
	case bad != "":
		return "", none, invalid("%q is no host name: %s", clip.Short(text), bad)
	case endsInNumber(name):
		// Resolvers of C libraries read 2130706433, 0x7f.1 and 0177.0.0.1 as addresses.
		return "", none, invalid("%q is neither a name nor an address", clip.Short(text)).WithHint("write an IPv4 address as four decimal numbers")
	}
	return name, none, nil
}

const (
	maxHost  = 253 // RFC 1035
	maxLabel = 63
)

// badName says what makes a name none; "" if nothing does. Names beyond ASCII are not converted: which name a
// conversion gives is a matter of tables that the user, the resolver and the server may have in different versions.
func badName(name string) string {
	if name == "" || len(name) > maxHost {
		return "it is empty or too long"
	}
	for i := range len(name) {
		if name[i] >= 0x80 {
			return "write an international name in its ASCII form (xn--...)"
		}
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel {
			return "a part between dots is empty or too long"
		}
		for i := range len(label) {
			c := label[i]
			inner := c == '-' && i > 0 && i < len(label)-1
			if !inner && c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
				return "it holds a character that names do not have"
			}
		}
	}
	return ""
}

// endsInNumber says whether the last part of a name is a number, decimal or hexadecimal: no top-level domain is.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil || strings.Trim(last, "0123456789") == ""
}

// String is the target as a user would allow it.
func (t target) String() string {
	if t.port == httpsPort && t.scheme == "https" && !t.addr.IsValid() {
		return t.host
	}
	return net.JoinHostPort(t.host, strconv.Itoa(int(t.port)))
}

// pattern is one entry of Spec.AllowHosts.
type pattern struct {
	any  bool   // every public host
	sub  bool   // names below host, not host itself
	host string // as in target
	port uint16
	bare bool // no port was written: HTTPS only
}

// CheckHost says what is wrong with a pattern of hosts.
func CheckHost(text string) error {
	_, err := parsePattern(text)
	return err
}

// parsePattern reads a pattern; its error says what patterns look like.
func parsePattern(text string) (pattern, error) {
	const forms = "write api.github.com, *.example.com, example.com:8080, * (every public host) or 127.0.0.1:8080"
	p := pattern{port: httpsPort, bare: true}
	host := strings.TrimSpace(text)
	if strings.Contains(host, "://") || strings.ContainsAny(host, "/@?#") {
		e := invalid("%q is not a host: it looks like a URL", clip.Short(text))
		if u, err := url.Parse(host); err == nil {
			if t, err := targetOf(u); err == nil {
				return p, e.WithHint("--allow-host %s", shellword.Of(t.String()))
			}
		}
		return p, e.WithHint("%s", forms)
	}
	if h, port, err := net.SplitHostPort(host); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return p, invalid("%q: the port is not a number from 1 to 65535", clip.Short(text)).WithHint("%s", forms)
		}
		host, p.port, p.bare = h, uint16(n), false
	}
	if host == "*" {
		p.any = true
		return p, nil
	}
	host, p.sub = strings.CutPrefix(host, "*.")
	name, addr, err := hostOf(strings.Trim(host, "[]"))
	if err != nil {
		return p, agentkernel.AsError(err, agentkernel.CodeInvalid, op).WithHint("%s", forms)
	}
	p.host = name
	if !addr.IsValid() {
		return p, nil
	}
	switch k := classify(addr); {
	case p.sub:
		return p, invalid("%q: there is nothing below an address", clip.Short(text)).WithHint("%s", forms)
	case k == barred:
		return p, denied("%s cannot be allowed: link-local, metadata and broadcast addresses are never fetched from", name)
	case k == private && p.bare:
		return p, invalid("%s is a private address, which is allowed only with its port, such as %s", name, net.JoinHostPort(name, "8080")).
			WithHint("--allow-host %s", net.JoinHostPort(name, "8080"))
	}
	return p, nil
}

// matches says whether the pattern allows a target. A pattern without a port means HTTPS on its own port; one with a
// port means that port, encrypted or not.
func (p pattern) matches(t target) bool {
	if p.port != t.port || p.bare && t.scheme != "https" {
		return false
	}
	switch {
	case p.any:
		return true
	case p.sub:
		return strings.HasSuffix(t.host, "."+p.host) && !t.addr.IsValid()
	}
	return p.host == t.host
}

// overlaps says whether there may be a host that both patterns mean.
func (p pattern) overlaps(q pattern) bool {
	below := func(host string, p pattern) bool { return p.sub && strings.HasSuffix(host, "."+p.host) }
	return p.port == q.port && (p.any || q.any || p.host == q.host && p.sub == q.sub || below(p.host, q) || below(q.host, p))
}

// allow says whether one of the patterns lets a request through to a target. An address that is not public must be
// named itself; whatever a pattern may stand for, it does not stand for such a one.
func allow(patterns []string, t target) error {
	if t.addr.IsValid() && classify(t.addr) == barred {
		return denied("%s is never fetched from: link-local, metadata and broadcast addresses are barred", t.host)
	}
	hidden := t.addr.IsValid() && classify(t.addr) == private
	for _, text := range patterns {
		p, err := parsePattern(text)
		if err == nil && p.matches(t) && (!hidden || p.host == t.host) {
			return nil
		}
	}
	e := denied("%s was not allowed", t)
	if t.scheme == "http" {
		e = denied("%s was not allowed; without https a port must be named", t)
	}
	return e.WithHint("allow it with --allow-host %s", shellword.Quoted(t.String()))
}
