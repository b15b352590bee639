package main

import (
	"errors"
	"net"
	"strconv"
	"syscall"

	"agentkernel"
)

// listenAt listens at an address that a flag has. One that cannot be meant is the command line's mistake; where another listens, the address is
// taken only now. free says which may be chosen instead.
func listenAt(op, flag, address, free string) (net.Listener, error) {
	bad := func(format string, args ...any) error {
		return agentkernel.Errorf(agentkernel.CodeInvalid, op, format, args...).WithHint("%s 127.0.0.1:7780, or port 0 for any that is free", flag)
	}
	if _, err := strconv.ParseUint(address, 10, 16); err == nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, op, "%s %s is a port; an address has a host, too", flag, address).WithHint("%s 127.0.0.1:%s", flag, address)
	}
	_, port, err := net.SplitHostPort(address)
	if e, ok := errors.AsType[*net.AddrError](err); ok {
		return nil, bad("%s: %q is no address of the form HOST:PORT: %s", flag, address, e.Err)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return nil, bad("%s: %q is no port: it is a number from 0 to 65535", flag, port)
	}
	door, err := net.Listen("tcp", address)
	if err == nil {
		return door, nil
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return nil, bad("%s: the host %q has no address: %s", flag, e.Name, e.Err)
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok { // the rest names the address once more, and calls of the system
		err = errno
	}
	return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, op, "%s cannot be listened on: %w", address, err).WithHint("%s", free)
}
