package portowner

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
)

// Dialer connects, as a [net.Dialer] does.
type Dialer interface {
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
}

// Check looks who has taken a connection that was just made, before anything is sent. Nil: this user, root, an account of the system (as which
// gateways and model servers run), or a program of another machine; or it cannot be known. Else an [*Other], or ErrGone.
func Check(conn net.Conn) error { return check(conn, false) }

// Checked is a dialer that looks who has taken each connection, and closes one that another user has.
type Checked struct {
	Dialer
	Mine bool // the server is a program of this user: no account of the system will do
}

// DialContext implements Dialer. Nothing was sent when it returns.
func (c Checked) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.Dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if err := check(conn, c.Mine); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// For is Checked for the connections to one server. Those to a proxy are not meant; and https has a certificate say whose the server is.
func For(server *url.URL, d Dialer) Dialer {
	port := server.Port()
	if port == "" {
		port = "80"
	}
	if server.Scheme != "http" {
		return d
	}
	return &toOne{strings.ToLower(net.JoinHostPort(server.Hostname(), port)), d}
}

type toOne struct {
	addr string
	Dialer
}

func (o *toOne) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if strings.ToLower(addr) == o.addr {
		return Checked{Dialer: o.Dialer}.DialContext(ctx, network, addr)
	}
	return o.Dialer.DialContext(ctx, network, addr)
}
