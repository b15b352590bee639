//go:build !linux

package portowner

import "net"

// check cannot tell here.
func check(net.Conn, bool) error { return nil }
