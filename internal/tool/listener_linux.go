package tool

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// listening is the state of a socket that takes connections, as /proc/net/tcp writes it.
const listening = "0A"

// oursListens says whether what listens at an address of this machine is a program of this user, or of root: any user can listen at a port
// that a program has left, and would be sent the token and the calls that are meant for the program.
func oursListens(addr net.Addr) error {
	at, ok := addr.(*net.TCPAddr)
	if !ok || !at.IP.IsLoopback() {
		return nil // another machine
	}
	uid, err := listener(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("nobody listens at %s any more: %w", addr, syscall.ECONNREFUSED)
	case err != nil:
		return err
	case uid != 0 && uid != os.Geteuid():
		return fmt.Errorf("another user listens at %s: %w", addr, syscall.ECONNREFUSED)
	}
	return nil
}

// listener is the user whose socket takes the connections to an address: one that listens there, else at all addresses.
func listener(at *net.TCPAddr) (uid int, err error) {
	for _, table := range []struct {
		path string
		ip   net.IP
	}{{"/proc/net/tcp", at.IP.To4()}, {"/proc/net/tcp", net.IPv4zero.To4()}, {"/proc/net/tcp6", at.IP.To16()}, {"/proc/net/tcp6", net.IPv6zero}} {
		if table.ip == nil { // it is of IPv6
			continue
		}
		if uid, err = listenerIn(table.path, table.ip, at.Port); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return uid, err
}

// listenerIn looks in a table of sockets (proc_net_tcp.txt of the documentation of Linux). Those that listen come first, so that not much
// is read.
func listenerIn(path string, ip net.IP, port int) (uid int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var want strings.Builder
	for ; len(ip) > 0; ip = ip[4:] {
		fmt.Fprintf(&want, "%08X", binary.NativeEndian.Uint32(ip))
	}
	fmt.Fprintf(&want, ":%04X", port)
	const address, state, user = 1, 3, 7
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		row := strings.Fields(lines.Text())
		if len(row) > user && row[address] == want.String() && row[state] == listening {
			return strconv.Atoi(row[user])
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fs.ErrNotExist
}
