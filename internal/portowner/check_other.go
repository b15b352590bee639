//go:build !linux

package portowner

import "net"

// Check cannot tell here.
func Check(net.Conn) error { return nil }
