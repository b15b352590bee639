package wire

import (
	"net"

	"golang.org/x/sys/unix"
)

// PeerUID is the user at the other end of a unix socket (LOCAL_PEERCRED, as getpeereid(3)).
func PeerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *unix.Xucred
	var asked error
	if err := raw.Control(func(fd uintptr) {
		cred, asked = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); err != nil {
		return -1, err
	}
	if asked != nil {
		return -1, asked
	}
	return int(cred.Uid), nil
}
