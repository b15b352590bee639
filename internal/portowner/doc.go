// Package portowner says whose program has taken a connection to this machine: any user can listen at a port that a
// server has left, or not yet taken, and would be sent the keys and calls that are meant for the server.
//
// It must never send anything, and never refuse where the owner cannot be known.
package portowner

import (
	"errors"
	"fmt"
	"net"
)

// ErrGone says that nobody listens at the address any more.
var ErrGone = errors.New("nobody listens there any more")

// Other is a user that is neither this one nor root.
type Other struct {
	Addr net.Addr
	UID  int
}

func (o *Other) Error() string {
	return fmt.Sprintf("another user of this machine (uid %d) listens at %s", o.UID, o.Addr)
}

// Hint says what to do about an Other.
const Hint = "if it is not the server that is meant, find out whose it is; if it is, have root, a system account or you listen there, or use https"
