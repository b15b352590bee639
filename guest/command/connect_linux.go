package command

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
)

// connect makes a pair of sockets and hands one of them to the kernel through the door.
func connect() (io.ReadWriteCloser, error) {
	door, err := strconv.Atoi(os.Getenv(DoorVariable))
	if err != nil {
		return nil, fmt.Errorf("%s is no descriptor", DoorVariable)
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	err = syscall.Sendmsg(door, []byte{1}, syscall.UnixRights(pair[1]), nil, syscall.MSG_NOSIGNAL)
	_ = syscall.Close(pair[1])
	if err != nil {
		_ = syscall.Close(pair[0])
		return nil, fmt.Errorf("descriptor %d does not lead to the kernel (%w): whatever started this command closed it "+
			"(Python: subprocess.run(..., close_fds=False))", door, err)
	}
	return os.NewFile(uintptr(pair[0]), "kernel"), nil
}
