"""A child's way from the kernel's request to its first message: the plan's calls (package internal/sandbox/confine), done
exactly as written, with those around them that clone it and put its descriptors in place."""
import base64
import ctypes
import mmap
import os
import resource
import signal
import socket
import struct

from _agentkernel import program, steps, wire

CHANNEL = 3  # descriptor of a child's channel
INBOX = 64 << 10  # what a child can read before the interpreter runs again
HELLO = b'{"type":"hello","wire":1}'
CONTROL = 3  # descriptor of the zygote's socket to the kernel
REQUEST = 16  # bytes of a request for one more child of the same plan: its number, in digits
_CHILD_SETTID, _CHILD_CLEARTID, _PIDFD, _PARENT = 0x01000000, 0x00200000, 0x00001000, 0x00008000
_PR_SET_PDEATHSIG, _PR_GET_TID_ADDRESS = 1, 40
_EPERM = 1
_RIGHTS = struct.Struct("@Nii")  # struct cmsghdr
_MESSAGE = struct.Struct("@PIPNPNi4x")  # struct msghdr
_GIVEN = 8 * (steps.KEPT + 1)  # where in a list's results the control message of a request comes to lie
_GIVEN_SIZE = socket.CMSG_SPACE(12)
_SOCK, _OUT, _ERR = (steps.Slot(_GIVEN + _RIGHTS.size + 4 * i) for i in range(3))  # the descriptors in it


class Plan:
    """A plan made ready: laid out in memory once, in the zygote, and run by every child. The zygote itself waits for
    requests in it, and answers them: as long as they are for the same plan, no line of Python is run for them, and no
    memory is written that its children share with it."""

    def __init__(self, plan, memory, runner, calls, null):
        """memory: bytes that a child may have beyond what the zygote has; 0: no limit. null: descriptor of /dev/null,
        the zygote's last."""
        self.walls = bool(plan)
        self.reads = False
        self.null = null
        self.trees = [t["name"] for t in plan.get("trees") or ()]
        if plan.get("maps"):
            raise ValueError("a child writes its own id maps")
        self.list = s = steps.List(runner)
        self.inbox = mmap.mmap(-1, INBOX, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # a shared one would show each child those of others
        self._serve(plan.get("clone", 0), calls)
        self.child = len(s)
        s.turn(self.clone, self.child)
        s.add(calls["prctl"], _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        s.add(calls["setsid"], ok=(_EPERM,))
        self.setup = len(s)
        for step in plan.get("setup") or ():
            self._step(step)
        self.place = len(s)
        s.add(calls["dup3"], steps.Late("in"), 0, 0)
        s.add(calls["dup3"], _OUT, 1, 0)
        s.add(calls["dup3"], _ERR, 2, 0)
        s.add(calls["dup3"], _SOCK, CHANNEL, os.O_CLOEXEC)
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

    def _serve(self, namespaces, calls):
        """The zygote's part: takes a request of the short form, clones, answers with number and process, begins again. At
        any other message, which it leaves where it is, it ends."""
        s = self.list
        at = s.spare_at
        self._number = 8 * steps.SLOTS
        number, pidfd, mark = at, at + 32 + _RIGHTS.size, at + 24
        said, vectors, message, answer = at + 32, at + 64, at + 128, at + 192
        put = lambda address, data: self.list.memory.__setitem__(slice(address - s.results_at, address - s.results_at + len(data)), data)
        put(mark, b"f")
        put(said, _RIGHTS.pack(socket.CMSG_LEN(4), socket.SOL_SOCKET, socket.SCM_RIGHTS))
        put(vectors, struct.pack("@6P", mark, 1, number, REQUEST, s.results_at, 8))  # where the clone's result is
        put(message, _MESSAGE.pack(0, 0, vectors + 16, 1, s.results_at + _GIVEN, _GIVEN_SIZE, 0))
        put(answer, _MESSAGE.pack(0, 0, vectors, 3, said, socket.CMSG_SPACE(4), 0))
        s.add(calls["prctl"], _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        s.add(calls["recvfrom"], CONTROL, number, REQUEST, socket.MSG_PEEK | socket.MSG_TRUNC, 0, 0, stop=REQUEST)
        s.add(calls["recvmsg"], CONTROL, message, socket.MSG_CMSG_CLOEXEC, stop=REQUEST)
        self.clone = len(s)
        tid = _tid_address()
        flags = namespaces | int(signal.SIGCHLD) | _PIDFD | _PARENT | (_CHILD_SETTID | _CHILD_CLEARTID if tid else 0)
        last = (0, tid) if calls["child_tid_last"] else (tid, 0)
        s.add(calls["clone"], flags, 0, pidfd, *last, stop=steps.ON_ZERO)
        s.add(calls["sendmsg"], CONTROL, answer, socket.MSG_NOSIGNAL)
        s.add(calls["close_range"], self.null + 1, 0xFFFFFFFF, 0, stop=steps.ON_ZERO, turn=1)

    def serve(self, request=None):
        """Serves until it cannot go on by itself, in this process; or, in each child, until the child is there. request: a
        first one, as (number, descriptors). It gives the index of the call at which it ended."""
        if request is None:
            return self.list.run()
        number, (sock, out, err, *rest) = request
        self.list.memory[self._number:self._number + REQUEST] = b"%*d" % (REQUEST, number)
        struct.pack_into("=3i", self.list.memory, _SOCK.offset, sock, out, err)
        self.reads = len(rest) > len(self.trees)  # the first is its standard input then
        for name, fd in zip(["in"] + ["tree " + t for t in self.trees], rest if self.reads else [self.null, *rest]):
            self.list.set(name, fd)
        return self.list.run(self.clone)

    def number(self):
        """That of the request which could not be served."""
        return int(self.list.memory[self._number:self._number + REQUEST])

    def sock(self):
        """The channel of a child that has not put it in its place."""
        return struct.unpack_from("=i", self.list.memory, _SOCK.offset)[0]

    def _inbox_address(self):
        return ctypes.addressof(ctypes.c_char.from_buffer(self.inbox))

    def _step(self, step):
        self.list.add(step["nr"], *[_argument(a) for a in step.get("args") or ()], save=step.get("save"), ok=step.get("ok") or ())

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
