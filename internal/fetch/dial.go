package fetch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/portowner"
)

// resolver finds the addresses of a name; net.Resolver is one.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// dialTimeout bounds one attempt to connect, so that an address that does not answer leaves time for the next.
const dialTimeout = 10 * time.Second

// transport makes connections with dial, and with nothing of the environment: no proxy, no cookies.
func transport(cfg *Config, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dial,
		TLSClientConfig:        cfg.tls(),
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           128,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        30 * time.Second,
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: maxAnswerHeaders,
	}
}

// dialPublic connects to a name, or a public address, at an address that it has checked. The name is resolved here and
// nowhere else, so that no second answer can lead elsewhere.
func (f *Fetcher) dialPublic(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	addrs, err := f.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if classify(a) != public || f.own(a) {
			// One bad address is enough: a name that leads to both sides is an attempt to rebind.
			return nil, denied("%s is at an address that is not public, which programs do not reach", host).
				WithHint("a private service is allowed by its address and port, and fetched by them: --allow-host 127.0.0.1:8080")
		}
	}
	return dialFirst(ctx, network, addrs, port)
}

// dialNamed connects to an address that the user has named with its port. It resolves nothing.
func (f *Fetcher) dialNamed(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	a, err := netip.ParseAddr(host)
	if err != nil || classify(a) == barred {
		return nil, denied("%s is not an address that can be allowed", clip.Short(host))
	}
	return dialFirst(ctx, network, []netip.Addr{a}, port)
}

// dialKeyed is dialNamed for requests with secrets: another user of this machine may listen at the port of the service that is meant.
func (f *Fetcher) dialKeyed(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := f.dialNamed(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	err = portowner.Check(conn)
	if err == nil {
		return conn, nil
	}
	_ = conn.Close()
	if other, ok := errors.AsType[*portowner.Other](err); ok {
		return nil, denied("the secret was not sent: %v", other).WithHint("%s", portowner.Hint)
	}
	return nil, err
}

func (f *Fetcher) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	// The dot at the end keeps the search domains of this machine's network out of it.
	addrs, err := f.cfg.Resolver.LookupNetIP(ctx, "ip", host+".")
	switch dns, ok := errors.AsType[*net.DNSError](err); {
	case (err != nil || len(addrs) == 0) && (host == "localhost" || strings.HasSuffix(host, ".localhost")):
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the name %s is not resolved: a service of this machine is reached by its address and port", host).
			WithHint("write 127.0.0.1 with the port, such as http://127.0.0.1:8080/; allow it with --allow-host 127.0.0.1:8080")
	case ok && dns.IsNotFound, err == nil && len(addrs) == 0:
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, op, "there is no host %s", host)
	case err != nil:
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the name %s cannot be resolved at the moment", host)
	}
	return addrs, nil
}

// dialFirst connects to the first address that answers.
func dialFirst(ctx context.Context, network string, addrs []netip.Addr, port string) (net.Conn, error) {
	var last error
	for _, a := range addrs {
		attempt, cancel := context.WithTimeout(ctx, dialTimeout)
		conn, err := (&net.Dialer{}).DialContext(attempt, network, net.JoinHostPort(a.Unmap().String(), port))
		cancel()
		if err == nil {
			return conn, nil
		}
		if last = err; ctx.Err() != nil {
			break
		}
	}
	return nil, last
}
