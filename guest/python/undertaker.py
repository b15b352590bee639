"""The first process of a zygote, and the parent of all its children: it says how each of them ended.

It parts from the zygote before anything is imported, so that all memory is the zygote's, which Python does not write to
while programs come and go.
"""
import base64
import errno
import os
import signal
import struct
import sys

CONTROL = 3  # descriptor of the socket to the kernel
SPARED = ("_ssl", "_uuid")  # which asyncio and uuid take if they can: libraries that would be in every child, and that none can use
_DONTNEED = 4
_USAGE = 144  # bytes of a struct rusage


def main(config):
    if os.fork() == 0:
        _zygote(config)
    else:
        _bury(base64.b64decode(config["runner"]), config["calls"])


def _zygote(config):
    from _agentkernel import pages
    apart = pages.together()
    sys.modules.update(dict.fromkeys(SPARED))
    from _agentkernel import zygote
    for name in SPARED:
        del sys.modules[name]  # a program that imports it gets it
    zygote.main(config, apart)


def _bury(runner, calls):
    """Waits for children, and writes of each "x", its number, its status (8 bytes each) and its struct rusage. That is
    done by a list of calls, which needs no interpreter: so the memory of this one is given up. It ends with the zygote."""
    from _agentkernel import steps
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # there is no interpreter to handle it
    s = steps.List(steps.load(runner))
    mark, status, usage, vectors = (s.spare_at + 8 * n for n in (0, 1, 2, 32))
    written = struct.pack("@8P", mark, 1, s.results_at, 8, status, 8, usage, _USAGE)  # where the number of the child is
    at = vectors - s.results_at
    s.memory[at:at + len(written)] = written
    s.memory[mark - s.results_at:mark - s.results_at + 1] = b"x"
    ours = _private()
    begins = len(ours) + 2 * 4  # around the list itself are more pieces
    for n in range(begins):
        s.add(calls["madvise"], steps.Late("begin %d" % n), steps.Late("length %d" % n), _DONTNEED, ok=(errno.EINVAL, errno.ENOMEM))
    s.add(calls["wait4"], -1, status, 0, usage, ok=(errno.ECHILD,), stop=steps.ON_RESULT, turn=begins + 2)
    s.add(calls["exit_group"], 1)
    s.add(calls["writev"], CONTROL, vectors, 4, ok=(errno.EPIPE, errno.ECONNRESET), stop=steps.ON_RESULT, turn=begins)
    s.add(calls["exit_group"], 1)
    s.close()
    pieces = _without(_private(), s.spans())[:begins]
    for n, (begin, end) in enumerate(pieces + [(0, 0)] * (begins - len(pieces))):
        s.set("begin %d" % n, begin)
        s.set("length %d" % n, end - begin)
    s.run()


def _private():
    """The memory that is this process's alone, as [(begin, end)] in order."""
    found = []
    with open("/proc/self/maps") as f:
        for line in f:
            fields = line.split()
            if fields[1] in ("rw-p", "r--p") and (len(fields) < 6 or fields[5] == "[heap]" or fields[5][0] != "["):
                begin, end = fields[0].split("-")
                found.append((int(begin, 16), int(end, 16)))
    return found


def _without(spans, kept):
    """The spans but for what of them is kept. Both are in order."""
    rest = []
    for begin, end in spans:
        for first, last in kept:
            if begin < last and first < end:
                rest.append((begin, first))
                begin = last
        rest.append((begin, end))
    return [(begin, end) for begin, end in rest if begin < end]
