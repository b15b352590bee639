"""A child's way from the clone to its first message: the plan's calls (package internal/sandbox/confine), done exactly
as written, with those around them that put its descriptors in place."""
import base64
import mmap
import os
import resource
import signal
import struct

from _agentkernel import program, steps, wire

CHANNEL = 3  # descriptor of a child's channel
INBOX = 64 << 10  # what a child can read before the interpreter runs again
HELLO = b'{"type":"hello","wire":1}'
_CHILD_SETTID, _CHILD_CLEARTID, _PIDFD = 0x01000000, 0x00200000, 0x00001000
_PR_SET_PDEATHSIG, _PR_GET_TID_ADDRESS = 1, 40
_EPERM = 1
_PIDFD_SLOT = steps.SLOTS - 1


class Plan:
    """A plan made ready: laid out in memory once, in the zygote, and run by every child."""

    def __init__(self, plan, memory, runner, calls):
        """memory: bytes that a child may have beyond what the zygote has; 0: no limit."""
        self.walls = bool(plan)
        self.trees = [t["name"] for t in plan.get("trees") or ()]
        if plan.get("maps"):
            raise ValueError("a child writes its own id maps")
        self.list = s = steps.List(runner)
        self.inbox = mmap.mmap(-1, INBOX, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # a shared one would show each child those of others
        self._clone(plan.get("clone", 0), calls)
        s.add(calls["prctl"], _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        s.add(calls["setsid"], ok=(_EPERM,))
        self.setup = len(s)
        for step in plan.get("setup") or ():
            self._step(step)
        self.place = len(s)
        for name, fd in (("in", 0), ("out", 1), ("err", 2)):
            s.add(calls["dup3"], steps.Late(name), fd, 0)
        s.add(calls["dup3"], steps.Late("channel"), CHANNEL, os.O_CLOEXEC)
        s.add(calls["close_range"], CHANNEL + 1, 0xFFFFFFFF, 0)
        s.add(calls["prctl"], _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if memory:
            s.add(calls["prlimit64"], 0, resource.RLIMIT_DATA, steps.Buffer(struct.pack("<QQ", *program.data_limit(memory))), 0)
        self.seal = len(s)
        for step in plan.get("seal") or ():
            self._step(step)
        self.sealed = len(s)
        hello = wire.HEAD.pack(len(HELLO), wire.JSON) + HELLO
        s.add(calls["write"], CHANNEL, steps.Buffer(hello), len(hello))
        s.add(calls["read"], CHANNEL, self._inbox_address(), INBOX)
        s.close()

    def _clone(self, namespaces, calls):
        s = self.list
        tid = _tid_address()
        flags = namespaces | int(signal.SIGCHLD) | _PIDFD | (_CHILD_SETTID | _CHILD_CLEARTID if tid else 0)
        pidfd = s.results_at + 8 * _PIDFD_SLOT
        last = (0, tid) if calls["child_tid_last"] else (tid, 0)
        s.add(calls["clone"], flags, 0, pidfd, *last, stop=steps.ON_RESULT)

    def _inbox_address(self):
        import ctypes
        return ctypes.addressof(ctypes.c_char.from_buffer(self.inbox))

    def _step(self, step):
        self.list.add(step["nr"], *[_argument(a) for a in step.get("args") or ()], save=step.get("save"), ok=step.get("ok") or ())

    def fork(self, late):
        """Clones a child and has it go all the way. In the parent it gives (pid, pidfd), or raises OSError; in the
        child, (0, the index at which it ended)."""
        results = self.list.results
        at = self.list.run(late)
        if at > 0:
            return 0, at
        if results[0] < 0:
            raise OSError(-results[0], os.strerror(-results[0]))
        return results[0], results[_PIDFD_SLOT] & 0xFFFFFFFF

    def failed(self, at):
        """In a child: which list and step of the plan failed, and errno."""
        errno = -self.list.results[0]
        if self.seal <= at:
            return "seal", at - self.seal, errno
        if self.setup <= at < self.place:
            return "setup", at - self.setup, errno
        raise OSError(errno, "%s at call %d" % (os.strerror(errno), at))


def _tid_address():
    """Where the C library keeps the number of the main thread; the kernel writes the child's there, as fork has it
    do. 0 if the kernel does not tell: then raise() and abort() in a child name the wrong thread."""
    import ctypes
    address = ctypes.c_void_p()
    libc = ctypes.PyDLL(None, use_errno=True)
    if libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0) != 0:
        return 0
    return address.value or 0


def _argument(a):
    if a is None:
        return 0
    if isinstance(a, (int, str)):
        return a
    if a.get("bytes") is not None:
        return steps.Buffer(base64.b64decode(a["bytes"]))
    if a.get("filter") is not None:
        return steps.filter_of(base64.b64decode(a["filter"]))
    if a.get("fd"):
        return steps.Late("tree " + a["fd"])
    return steps.Saved(a["saved"])
