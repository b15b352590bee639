"""sys.stdout and sys.stderr as frames of the channel, so that text stands exactly where it was printed, between
the calls and between the two streams. Descriptors 1 and 2 are pipes to the kernel, for child processes."""
import io
import sys

from _agentkernel import wire


class _Frames(io.RawIOBase):
    """Where a stream's bytes go: into frames, or, in a process that the program forked, into the pipe."""

    def __init__(self, fd, kind):
        self._fd = fd
        self._kind = kind

    def writable(self):
        return True

    def fileno(self):
        return self._fd

    def isatty(self):
        return False

    def write(self, data):
        c = wire.channel
        data = bytes(data)
        if c is None or not c.usable():
            return wire._write(self._fd, data)
        c.send_output(self._kind, data)
        return len(data)


def _stream(fd, kind, name, errors):
    raw = _Frames(fd, kind)
    raw.name = name
    buffered = io.BufferedWriter(raw, 64 << 10)
    return io.TextIOWrapper(buffered, encoding="utf-8", errors=errors, newline="\n", line_buffering=True)


def prepare():
    """Puts the streams in place, in the zygote: where there is no channel they write to their descriptors."""
    global _out, _err
    out = sys.stdout = sys.__stdout__ = _stream(1, wire.STDOUT, "<stdout>", "strict")
    err = sys.stderr = sys.__stderr__ = _stream(2, wire.STDERR, "<stderr>", "backslashreplace")
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")
    _out, _err = out.flush, err.flush


def read():
    """Makes sys.stdin anew, for a program that was given something to read."""
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)


_out = _err = None


def flush():
    """Sends what a line leaves unfinished."""
    try:
        _out()
        _err()
    except ValueError:
        pass  # the program closed one of them
