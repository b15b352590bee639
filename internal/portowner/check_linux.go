package portowner

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
)

// check is Check; mine: of accounts of the system root alone.
func check(conn net.Conn, mine bool) error {
	to, ok1 := conn.RemoteAddr().(*net.TCPAddr)
	from, ok2 := conn.LocalAddr().(*net.TCPAddr)
	if !ok1 || !ok2 || !to.IP.IsLoopback() && !to.IP.Equal(from.IP) { // a connection to this machine has one address at both ends
		return nil
	}
	uid, known, err := owner(to, from, openTable)
	switch {
	case err != nil:
		return err
	case !known, uid == 0, !mine && isService(uid), uid == os.Geteuid(), reserved(to.Port), unmapped(uid):
		return nil
	}
	return &Other{Addr: to, UID: uid}
}

// firstUser is the first number of an account that people have; those below are root's and of services. Source: UID_MIN of login.defs(5), and
// https://systemd.io/UIDS-GIDS.
const firstUser = 1000

// isService says whether an account is one of the system: also those that systemd makes for a service while it runs (DynamicUser).
func isService(uid int) bool { return uid < firstUser || 61184 <= uid && uid <= 65519 }

// openTable opens a table of sockets of this network namespace.
func openTable(name string) (io.ReadCloser, error) { return os.Open("/proc/self/net/" + name) }

// reserved says whether only root, or who is given the right, can listen at a port.
func reserved(port int) bool {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	first, errNumber := strconv.Atoi(strings.TrimSpace(string(b)))
	return err == nil && errNumber == nil && port < first
}

// overflow is how Linux writes a user that the user namespace of the reader does not have.
const overflow = 65534

// unmapped says whether a user may be any that is outside of this user namespace, root too.
func unmapped(uid int) bool {
	if uid != overflow {
		return false
	}
	f, err := os.Open("/proc/self/uid_map")
	if err != nil {
		return false
	}
	defer f.Close()
	for {
		var inside, outside, count int64
		if _, err := fmt.Fscan(f, &inside, &outside, &count); err != nil {
			return true
		}
		if inside <= overflow && overflow < inside+count {
			return false
		}
	}
}

// place is where a socket is in the tables: what it is bound to, as they write it.
type place struct{ table, address string }

// owner finds the user of the socket that took a connection from one address to another. Not known: the tables cannot be read, or what took
// it is no socket of this network namespace (the address was translated to that of a container).
//
// The socket that listens is asked for, since one that nobody has accepted yet is shown as root's. Of several Linux takes the one that is
// bound to the very address, before one of all addresses; a connection of IPv4 goes to sockets of IPv4, before those of IPv6 that are bound
// to the same address, and one of IPv6 never to sockets of IPv4.
func owner(to, from *net.TCPAddr, open func(table string) (io.ReadCloser, error)) (uid int, known bool, err error) {
	places := []place{{"tcp6", address(to.IP.To16(), to.Port)}, {"tcp6", address(net.IPv6zero, to.Port)}}
	if ip := to.IP.To4(); ip != nil {
		places = []place{{"tcp", address(ip, to.Port)}, places[0], {"tcp", address(net.IPv4zero.To4(), to.Port)}, places[1]}
	}
	// A row can be passed over while others go: what is not there is looked for twice.
	for range 2 {
		for _, at := range places {
			row, err := find(open, at, "", listening)
			if err != nil || row != nil {
				return ownerOf(row, err)
			}
		}
	}
	// It has stopped listening, and may have taken the connection before.
	peer := address(from.IP.To16(), from.Port)
	if ip := from.IP.To4(); ip != nil {
		if row, err := find(open, places[0], address(ip, from.Port), ""); err != nil || row != nil {
			return accepted(row, err)
		}
	}
	return accepted(find(open, place{"tcp6", address(to.IP.To16(), to.Port)}, peer, ""))
}

func ownerOf(row []string, err error) (uid int, known bool, _ error) {
	if err != nil || row == nil {
		return 0, false, nil //nolint:nilerr // a table that cannot be read says nothing
	}
	uid, err = strconv.Atoi(row[colUser])
	return uid, err == nil, nil
}

// accepted is the owner of one end of a connection; one that belongs to nobody was not accepted, and will not be.
func accepted(row []string, err error) (uid int, known bool, _ error) {
	if err == nil && row != nil && row[colInode] == "0" {
		return 0, false, ErrGone
	}
	return ownerOf(row, err)
}

// The columns of a table (proc_net_tcp.txt of the documentation of Linux), and the state of a socket that takes connections.
const (
	colLocal, colRemote, colState, colUser, colInode = 1, 2, 3, 7, 9

	listening = "0A"
)

// find looks for a socket by what it is bound to, what it is connected to and its state; "" is any. Those that listen come first, so that
// not much is read for them. A table that is not there has no rows if the other is there: a Linux without IPv6.
func find(open func(table string) (io.ReadCloser, error), at place, remote, state string) ([]string, error) {
	f, err := open(at.table)
	if errors.Is(err, fs.ErrNotExist) && at.table == "tcp6" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		row := strings.Fields(lines.Text())
		if len(row) > colInode && row[colLocal] == at.address && (remote == "" || row[colRemote] == remote) && (state == "" || row[colState] == state) {
			return row, nil
		}
	}
	return nil, lines.Err()
}

// address writes an address as the tables do: in words of the processor's own order.
func address(ip net.IP, port int) string {
	var b strings.Builder
	for ; len(ip) > 0; ip = ip[4:] {
		fmt.Fprintf(&b, "%08X", binary.NativeEndian.Uint32(ip))
	}
	fmt.Fprintf(&b, ":%04X", port)
	return b.String()
}
