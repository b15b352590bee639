package wire

import (
	"net"

	"golang.org/x/sys/unix"
)

// PeerUID is the user at the other end of a unix socket (SO_PEERCRED, unix(7)).
func PeerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *unix.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) {
		cred, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return -1, err
	}
	if asked != nil {
		return -1, asked
	}
	return int(cred.Uid), nil
}
