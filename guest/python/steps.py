"""Lists of system calls laid out in memory, made by a few machine instructions: confine.StepRunner says how.

Nothing of the interpreter runs between the clone of a child and its first message. It would write to two hundred
pages that parent and child share, and each would have to be copied.
"""
import ctypes
import mmap
import os
import struct

_CALL = struct.Struct("<7q8B6q")
_WORD = struct.Struct("<q")
_MASK = (1 << 64) - 1
SLOTS = 64  # results that are kept; 0 is that of the last call
SPARE = 1 << 10  # bytes behind them that are the user's
KEPT = 48  # results that can be kept by name; what lies behind them is the user's, too
ON_RESULT, ON_ZERO = 1, 2  # a call at which the list takes a turn; any other number: unless it returns just that


def load(code):
    """The runner as a function. The code is mapped from a file: so the system brings the processor's caches up to
    date, and no memory is ever both written and executed."""
    try:
        fd = os.memfd_create("steps")
    except (AttributeError, OSError):  # a zygote may not: no process is seen to have that memory
        import tempfile
        fd, path = tempfile.mkstemp(dir="/tmp")
        os.unlink(path)
    try:
        os.write(fd, code)
        _kept.append(mmap.mmap(fd, len(code), mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))
    finally:
        os.close(fd)
    return ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p, ctypes.c_long)(_address_of_code(_kept[-1]))


_kept = []


class _Buffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


def _address_of_code(mapped):
    """Where a read-only mapping lies (Py_buffer; ctypes itself wants a writable one)."""
    view = _Buffer()
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes, get.restype = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int], ctypes.c_int
    get(mapped, ctypes.addressof(view), 0)
    return view.buf  # never released: the mapping stays


class _Filter(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class Buffer:
    """Memory for the system to read or write."""

    def __init__(self, data):
        self.memory = ctypes.create_string_buffer(data, len(data))
        self.address = ctypes.addressof(self.memory)


class Late:
    """An argument that is known only when the list is run."""

    def __init__(self, name):
        self.name = name


class Saved:
    """An argument that is the result of an earlier call."""

    def __init__(self, name):
        self.name = name


class Slot:
    """An argument that is a number of 4 bytes in results, this many bytes behind their beginning."""

    def __init__(self, offset):
        self.offset = offset


def filter_of(data):
    """A struct sock_fprog over these instructions."""
    code = Buffer(data)
    made = Buffer(bytes(_Filter(len(data) // 8, code.address)))
    made.keep = code
    return made


class List:
    """A list of calls. run may be called again and again, in this process or in its children."""

    def __init__(self, runner):
        self._runner = runner
        self._rows = []
        self._late = {}  # name -> offset
        self._slots = {}
        self._kept = []
        # What is written while the list runs lies by itself: each child would copy what it shares a page with.
        self.memory = mmap.mmap(-1, 8 * SLOTS + SPARE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.results = memoryview(self.memory)[:8 * SLOTS].cast("q")
        self.results_at = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.spare_at = self.results_at + 8 * SLOTS
        self._table = self._at = None

    def __len__(self):
        return len(self._rows)

    def add(self, number, *args, save=None, ok=(), stop=0, turn=0):
        """turn: the index of the call to go on with when the list takes a turn at this one; 0: it ends."""
        words, late = [], []
        for i, a in enumerate(args):
            word, slot = 0, 0
            if isinstance(a, int):
                word = a & _MASK
                word -= (word >> 63) << 64
            elif isinstance(a, str):
                word = self._keep(Buffer(a.encode() + b"\0"))
            elif isinstance(a, Buffer):
                word = self._keep(a)
            elif isinstance(a, Late):
                self._late[a.name] = len(self._rows) * _CALL.size + 8 + 8 * i
            elif isinstance(a, Saved):
                slot = 2 * self._slots[a.name]
            elif isinstance(a, Slot):
                slot = a.offset // 4
            words.append(word)
            late.append(slot)
        rest = 6 - len(words)
        kept = 0
        if save is not None:
            kept = self._slots.setdefault(save, len(self._slots) + 1)
            if kept > KEPT:
                raise ValueError("too many results are kept")
        ok = (tuple(ok) + (0, 0, 0))[:3]
        self._rows.append([number, *words, *[0] * rest, *late, *[0] * (rest + 2), kept, stop, *ok, turn])

    def turn(self, index, to):
        """Has the call with this index turn to another."""
        self._rows[index][-1] = to

    def _keep(self, buffer):
        self._kept.append(buffer)
        return buffer.address

    def close(self):
        """Lays the list out; nothing can be added any more."""
        text = b"".join(_CALL.pack(*row) for row in self._rows)
        self._table = mmap.mmap(-1, len(text), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._table[:] = text
        self._at = ctypes.addressof(ctypes.c_char.from_buffer(self._table))

    def set(self, name, value):
        """Says what the argument Late(name) is from now on."""
        _WORD.pack_into(self._table, self._late[name], value)

    def spans(self):
        """Where it lies, as [(begin, end)] in order: nothing else is needed to run it, if no call has arguments elsewhere."""
        return sorted((at, at + -(-n // mmap.PAGESIZE) * mmap.PAGESIZE) for at, n in ((self.results_at, len(self.memory)), (self._at, len(self._table))))

    def run(self, first=0):
        """Makes the calls from the first on; gives the index of the one at which it ended."""
        return self._runner(self._at, len(self._rows), self.results_at, first)
