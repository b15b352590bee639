"""The channel to the kernel: frames over one inherited stream socket.

A frame is a length (4 bytes, little endian), a kind (1 byte) and that many bytes of payload. Kinds: "{" is a
JSON object, "1" and "2" are what the program printed to stdout and stderr, "d" asks the kernel to take first what
child processes left in the pipes of descriptors 1 and 2. Package internal/sandbox/process documents the objects.

A program is one process with perhaps several threads. `send` may be called by any of them; `ask`, a question
and its answer, is one thread's at a time.
"""
import array
import fcntl
import os
import struct
import termios
import threading
import time

from _agentkernel import values

HEAD = struct.Struct("<IB")
JSON, STDOUT, STDERR, DRAIN = 0x7B, 0x31, 0x32, 0x64
CHUNK = 256 << 10  # the most text in one frame
MAX_FRAME = 64 << 20  # the kernel takes no longer one

_getpid = os.getpid
_write = os.write
_read = os.read
_fstat = os.fstat
_ioctl = fcntl.ioctl
_FIONREAD = termios.FIONREAD
_sleep = time.sleep  # the real one: later it is a system call
PAUSE, PAUSES = 0.0005, 10000  # how often, and how many times, the kernel is waited for to take what children wrote


class Channel:
    """One program's channel. Calls are numbered here, in the order in which they are sent."""

    def __init__(self):
        self.fd = -1
        self.owner = 0
        self.sending = threading.Lock()
        self.asking = threading.RLock()
        self.last = 0
        self.flying = {}  # async calls without a result: number -> object with settle(value, error)
        self.before = None  # called before a call is sent: it flushes what was printed
        self.last_words = None  # called before the program ends by a call: it writes what files hold back
        self.early = []  # results that came while another answer was expected
        self._buffer = b""
        self._unread = array.array("i", [0])
        self._pipes = ()  # descriptors 1 and 2 with the inodes of the pipes that the kernel reads

    def open(self, fd, received=b""):
        """received: what was read from fd already; b"" at its end means that nothing was."""
        self.fd = fd
        self._buffer = received
        self.owner = _getpid()
        self._pipes = [(n, _fstat(n).st_ino) for n in (1, 2)]

    def has_more(self):
        """Says whether something of the kernel's has been read that nobody has asked for yet."""
        return len(self._buffer) > 0

    def usable(self):
        """Says whether this very process may talk to the kernel: a forked child may not."""
        return self.fd >= 0 and _getpid() == self.owner

    # sending

    def send_json(self, text):
        payload = text.encode("utf-8") if len(text) < CHUNK else self._payload(text)
        with self.sending:
            self._put(JSON, payload)

    @staticmethod
    def _payload(text):
        payload = text.encode("utf-8")
        if len(payload) > MAX_FRAME:
            raise ValueError("invalid_argument: %d bytes are more than one message to the kernel may have (%d)"
                             % (len(payload), MAX_FRAME))
        return payload

    def send_output(self, kind, payload):
        """Sends what was printed. Text of child processes that is in the pipes already goes first."""
        with self.sending:
            if len(payload) <= CHUNK:
                self._put(kind, payload)
                return
            at = 0
            while at < len(payload):
                self._put(kind, payload[at:at + CHUNK])
                at += CHUNK

    def _put(self, kind, payload):
        unread = self._unread
        try:
            _ioctl(1, _FIONREAD, unread)
            if unread[0] == 0:
                _ioctl(2, _FIONREAD, unread)
            foreign = unread[0] > 0
        except OSError:  # the program closed one, or put something else there
            foreign = self._foreign(1) or self._foreign(2)
        if foreign:
            self._all(HEAD.pack(0, DRAIN))
            self._await_taken()
        data = HEAD.pack(len(payload), kind) + payload
        try:
            n = _write(self.fd, data)
        except BrokenPipeError:
            os._exit(0)  # the kernel has let go of this program
        if n < len(data):
            self._all(data[n:])

    def _await_taken(self):
        """Waits until the kernel has taken what lies in the pipes. If it read them later, what a child writes after
        our next frame would come before it. Not for ever: a child may write faster than the kernel reads."""
        for _ in range(PAUSES):
            if not any(self._foreign(fd) and self._is_pipe(fd, inode) for fd, inode in self._pipes):
                return
            _sleep(PAUSE)

    @staticmethod
    def _is_pipe(fd, inode):
        """Says whether the program has left the kernel's pipe where it was."""
        try:
            return _fstat(fd).st_ino == inode
        except OSError:
            return False

    def _foreign(self, fd):
        """Says whether something lies unread in the pipe behind a descriptor."""
        try:
            fcntl.ioctl(fd, termios.FIONREAD, self._unread)
        except OSError:
            return False  # the program closed it, or put something else there
        return self._unread[0] > 0

    def _all(self, data):
        try:
            n = _write(self.fd, data)
            while n < len(data):
                data = memoryview(data)[n:]
                n = _write(self.fd, data)
        except BrokenPipeError:
            os._exit(0)  # the kernel has let go of this program

    # receiving

    def receive(self):
        """Waits for one object from the kernel."""
        buf = self._buffer
        while len(buf) < 5:
            buf += self._more()
        size = HEAD.unpack_from(buf)[0] + 5
        if len(buf) < size:
            parts, have = [buf], len(buf)
            while have < size:
                more = self._more(min(size - have, 1 << 20))
                parts.append(more)
                have += len(more)
            buf = b"".join(parts)
        self._buffer = buf[size:]
        return values.decode(buf[5:size].decode("utf-8"))

    def _more(self, n=65536):
        data = _read(self.fd, n)
        if not data:
            os._exit(0)  # the kernel has let go of this program
        return data

    # calls

    def call(self, op, args, flying=None):
        """Sends a call; args is the text of a JSON object. Gives its number."""
        if not self.usable():
            raise RuntimeError("unavailable: %s: only the program's own process can call the kernel, not one that it forked" % op)
        if self.before is not None:
            self.before()
        number = self.last + 1
        payload = self._payload('{"type":"call","id":%d,"op":"%s","args":%s%s}'
                                % (number, op, args, "" if flying is None else ',"async":true'))
        if flying is not None:
            self.flying[number] = flying
        # A handler of a signal may raise from here on. Whether the frame has left is not known then, so that the
        # number is never used again; an answer that nobody waits for is dropped.
        self.last = number
        try:
            with self.sending:
                self._put(JSON, payload)
        except BaseException:
            self.flying.pop(number, None)
            raise
        return number

    def _ending(self, op):
        """Does what comes before a call; what a forked child holds back is its parent's, too, which writes it."""
        if op == "proc.exit" and self.last_words is not None and self.usable():
            self.last_words()

    def ask(self, op, args):
        """Makes a call and waits for its result."""
        self._ending(op)
        with self.asking:
            number = self.call(op, args)
            while True:
                reply = self.receive()
                if reply["id"] == number:
                    return self.outcome(reply)
                self.early.append(reply)

    def next_cell(self, said):
        """Tells how a cell of a session ended and waits for the next one."""
        with self.asking:
            self.last = number = self.last + 1
            self.send_json('{"type":"next","id":%d,%s}' % (number, said))
            while True:
                reply = self.receive()
                if reply["id"] == number:
                    return reply["result"]
                self.early.append(reply)

    def issue(self, op, args, flying):
        """Makes a call whose result `flying` is given later, by `settle_one`."""
        self._ending(op)
        with self.asking:
            self.call(op, args, flying)

    def wait(self):
        """Tells the kernel that everything waits; one result comes back."""
        if self.before is not None:
            self.before()
        self.send_json('{"type":"wait"}')

    def settle_one(self):
        """Takes one result from the kernel and hands it to its call."""
        reply = self.early.pop(0) if self.early else self.receive()
        flying = self.flying.pop(reply["id"], None)
        if flying is None:
            return
        error = reply.get("error")
        if error is None:
            flying.settle(reply.get("result"), None)
        else:
            flying.settle(None, self.error(error))

    def outcome(self, reply):
        error = reply.get("error")
        if error is None:
            return reply.get("result")
        raise self.error(error)

    error = staticmethod(lambda e: RuntimeError(e["text"]))  # package errors puts the real one here


channel = None  # of the program that runs in this process; None in the zygote


def here():
    """The channel, if this process may use it; else None."""
    c = channel
    if c is not None and c.fd >= 0 and _getpid() == c.owner:
        return c
    return None
