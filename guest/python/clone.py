"""fork with namespaces: clone(2), called directly, with what the C library and the interpreter do around a fork."""
import ctypes
import os
import platform
import signal

_libc = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock, as os.fork does
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_NUMBERS = {"x86_64": (56, 436), "aarch64": (220, 436)}
_CHILD_SETTID, _CHILD_CLEARTID = 0x01000000, 0x00200000
_PR_GET_TID_ADDRESS = 40
_PR_SET_PDEATHSIG = 1


def _tid_address():
    """Where the C library keeps the number of the main thread; the kernel writes the child's there, as fork has it
    do. 0 if the kernel does not tell: then raise() and abort() in a child name the wrong thread."""
    address = ctypes.c_void_p()
    if _libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0) != 0:
        return 0
    return address.value or 0


class Cloner:
    def __init__(self):
        machine = platform.machine()
        if machine not in _NUMBERS:
            raise OSError("the process backend does not know the machine %s" % machine)
        self.nr_clone, self.nr_close_range = _NUMBERS[machine]
        self.tid = _tid_address()
        self.arm = machine == "aarch64"
        api = ctypes.pythonapi
        self.before, self.parent, self.child = api.PyOS_BeforeFork, api.PyOS_AfterFork_Parent, api.PyOS_AfterFork_Child
        for f in (self.before, self.parent, self.child):
            f.restype = None

    def clone(self, namespaces):
        """As os.fork, with these CLONE_NEW* flags. OSError if the system refuses."""
        flags = ctypes.c_ulong(namespaces | signal.SIGCHLD | (_CHILD_SETTID | _CHILD_CLEARTID if self.tid else 0))
        zero, tid = ctypes.c_ulong(0), ctypes.c_ulong(self.tid)
        self.before()
        if self.arm:
            pid = _syscall(ctypes.c_long(self.nr_clone), flags, zero, zero, zero, tid)
        else:
            pid = _syscall(ctypes.c_long(self.nr_clone), flags, zero, zero, tid, zero)
        if pid == 0:
            self.child()
            return 0
        errno = ctypes.get_errno()
        self.parent()
        if pid < 0:
            raise OSError(errno, os.strerror(errno))
        return pid

    def close_from(self, fd):
        """Closes every descriptor from fd on."""
        if _syscall(ctypes.c_long(self.nr_close_range), ctypes.c_ulong(fd), ctypes.c_ulong(0xFFFFFFFF), ctypes.c_ulong(0)) != 0:
            os.closerange(fd, os.sysconf("SC_OPEN_MAX"))


def die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
