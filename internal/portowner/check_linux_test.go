package portowner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"testing"

	"agentkernel/internal/usertest"
)

// tables are those of a made-up machine: lines "TABLE LOCAL REMOTE STATE UID INODE", the addresses as people write them.
func tables(t *testing.T, lines ...string) func(string) (io.ReadCloser, error) {
	t.Helper()
	text := map[string]string{"tcp": "  sl  local_address\n", "tcp6": "  sl  local_address\n"}
	for _, l := range lines {
		f := strings.Fields(l)
		end := func(s string) string {
			a := tcp(t, s)
			if f[0] == "tcp" {
				return address(a.IP.To4(), a.Port)
			}
			return address(a.IP.To16(), a.Port)
		}
		text[f[0]] += fmt.Sprintf("   0: %s %s %s 00000000:00000000 00:00000000 00000000 %s 0 %s 1 0 100 0 0 10 0\n", end(f[1]), end(f[2]), f[3], f[4], f[5])
	}
	return func(name string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text[name])), nil }
}

func tcp(t *testing.T, s string) *net.TCPAddr {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The socket that Linux gives a connection to is the one whose user is told, where others listen at the same port.
func TestOwner(t *testing.T) {
	const four, six, from4, from6 = "127.0.0.1:80", "[::1]:80", "127.0.0.1:5000", "[::1]:5000"
	for name, c := range map[string]struct {
		to, from string
		rows     []string
		uid      int // -1: not known; -2: gone
	}{
		"the address":                         {four, from4, []string{"tcp 127.0.0.1:80 0.0.0.0:0 0A 7 1"}, 7},
		"all addresses":                       {four, from4, []string{"tcp 0.0.0.0:80 0.0.0.0:0 0A 7 1"}, 7},
		"all of both":                         {four, from4, []string{"tcp6 [::]:80 [::]:0 0A 7 1"}, 7},
		"the address of both":                 {four, from4, []string{"tcp6 [::ffff:127.0.0.1]:80 [::]:0 0A 7 1"}, 7},
		"the address, before all":             {four, from4, []string{"tcp 0.0.0.0:80 0.0.0.0:0 0A 8 1", "tcp 127.0.0.1:80 0.0.0.0:0 0A 7 1"}, 7},
		"the address of both, before all":     {four, from4, []string{"tcp 0.0.0.0:80 0.0.0.0:0 0A 8 1", "tcp6 [::ffff:127.0.0.1]:80 [::]:0 0A 7 1"}, 7},
		"all of IPv4, before all of both":     {four, from4, []string{"tcp6 [::]:80 [::]:0 0A 8 1", "tcp 0.0.0.0:80 0.0.0.0:0 0A 7 1"}, 7},
		"IPv6":                                {six, from6, []string{"tcp6 [::1]:80 [::]:0 0A 7 1"}, 7},
		"IPv6, all":                           {six, from6, []string{"tcp6 [::]:80 [::]:0 0A 7 1"}, 7},
		"IPv6, and all of IPv4 are another's": {six, from6, []string{"tcp 0.0.0.0:80 0.0.0.0:0 0A 8 1", "tcp6 [::1]:80 [::]:0 0A 7 1"}, 7},
		"all of IPv4 alone":                   {six, from6, []string{"tcp 0.0.0.0:80 0.0.0.0:0 0A 8 1"}, -1},
		"another port":                        {four, from4, []string{"tcp 127.0.0.1:81 0.0.0.0:0 0A 8 1"}, -1},
		"translated":                          {four, from4, []string{"tcp 127.0.0.1:5000 127.0.0.1:80 01 8 1"}, -1},
		"listens no more":                     {four, from4, []string{"tcp 127.0.0.1:80 127.0.0.1:5000 01 7 1"}, 7},
		"listens no more, of both":            {four, from4, []string{"tcp6 [::ffff:127.0.0.1]:80 [::ffff:127.0.0.1]:5000 01 7 1"}, 7},
		"listens no more, IPv6":               {six, from6, []string{"tcp6 [::1]:80 [::1]:5000 01 7 1"}, 7},
		"never accepted":                      {four, from4, []string{"tcp 127.0.0.1:80 127.0.0.1:5000 01 0 0"}, -2},
		"another's connection":                {four, from4, []string{"tcp 127.0.0.1:80 127.0.0.1:5001 01 8 1"}, -1},
	} {
		uid, known, err := owner(tcp(t, c.to), tcp(t, c.from), tables(t, c.rows...))
		switch {
		case errors.Is(err, ErrGone):
			uid = -2
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !known:
			uid = -1
		}
		if uid != c.uid {
			t.Errorf("%s: uid %d, want %d", name, uid, c.uid)
		}
	}
}

// Where there are no tables nothing is known: that is not "gone".
func TestOwnerWithoutTables(t *testing.T) {
	for _, reason := range []error{fs.ErrNotExist, fs.ErrPermission} {
		_, known, err := owner(tcp(t, "127.0.0.1:80"), tcp(t, "127.0.0.1:5000"), func(string) (io.ReadCloser, error) { return nil, reason })
		if known || err != nil {
			t.Errorf("%v: %v %v", reason, known, err)
		}
	}
	rows := tables(t, "tcp 127.0.0.1:80 0.0.0.0:0 0A 7 1")
	withoutIPv6 := func(name string) (io.ReadCloser, error) {
		if name == "tcp6" {
			return nil, fs.ErrNotExist
		}
		return rows(name)
	}
	if uid, known, err := owner(tcp(t, "127.0.0.1:80"), tcp(t, "127.0.0.1:5000"), withoutIPv6); uid != 7 || !known || err != nil {
		t.Errorf("%d %v %v", uid, known, err)
	}
}

// The real thing: this user's listener passes, a stranger's does not, and neither hides the other where both listen at one port.
func TestCheck(t *testing.T) {
	mine, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here")
	}
	defer mine.Close()
	look := func(addr string) error {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return Check(conn)
	}
	if err := look(mine.Addr().String()); err != nil {
		t.Errorf("my own: %v", err)
	}
	_, port, _ := net.SplitHostPort(mine.Addr().String())
	usertest.Listen(t, "tcp4", "0.0.0.0:"+port)
	if err := look(mine.Addr().String()); err != nil {
		t.Errorf("my own, with a stranger's at the same port: %v", err)
	}
	other, ok := errors.AsType[*Other](look("127.0.0.1:" + port))
	if !ok || other.UID != usertest.Someone {
		t.Errorf("a stranger's: %v", other)
	}
	service := usertest.ListenAs(t, firstUser-1, "tcp4", "127.0.0.1:0")
	if err := look(service.Addr().String()); err != nil {
		t.Errorf("a service's: %v", err)
	}
	conn, err := net.Dial("tcp", service.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := check(conn, true); err == nil {
		t.Error("a service's, where a program of mine is meant")
	}
}
