"""Carries out a plan (package internal/sandbox/confine): a list of system calls, done exactly as written."""
import base64
import ctypes

_libc = ctypes.PyDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_MASK = (1 << 64) - 1


class Failed(Exception):
    """A step of a plan failed: list, index, errno."""


class _Filter(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class Plan:
    """A plan made ready: arguments are laid out in memory once, in the zygote, and used by every child."""

    def __init__(self, plan):
        self.clone = plan["clone"]
        self.maps = plan.get("maps")
        self.trees = [t["name"] for t in plan.get("trees") or ()]
        self.env = plan["program"].get("env") or []
        self.setup = [_Step(s) for s in plan.get("setup") or ()]
        self.seal = [_Step(s) for s in plan.get("seal") or ()]

    def write_maps(self, pid):
        """Writes the id maps of a child, which waits for that."""
        if not self.maps:
            return
        if self.maps.get("deny_setgroups"):
            _write("/proc/%d/setgroups" % pid, "deny")
        _write("/proc/%d/gid_map" % pid, _lines(self.maps["gid"]))
        _write("/proc/%d/uid_map" % pid, _lines(self.maps["uid"]))


def _lines(ids):
    return "".join("%d %d %d\n" % (i["inside"], i["outside"], i["count"]) for i in ids)


def _write(path, text):
    with open(path, "wb", buffering=0) as f:
        f.write(text.encode())


class _Step:
    __slots__ = ("nr", "args", "save", "ok", "late")

    def __init__(self, step):
        self.nr = ctypes.c_long(step["nr"])
        self.save = step.get("save")
        self.ok = step.get("ok") or ()
        self.args = [_argument(a) for a in step.get("args") or ()]
        self.late = [i for i, a in enumerate(self.args) if isinstance(a, tuple)]


def _argument(a):
    if a is None:
        return ctypes.c_long(0)
    if isinstance(a, int):
        return ctypes.c_ulong(a & _MASK)
    if isinstance(a, str):
        return ctypes.c_char_p(a.encode())
    if a.get("bytes") is not None:
        data = base64.b64decode(a["bytes"])
        return ctypes.create_string_buffer(data, len(data))
    if a.get("filter") is not None:
        data = base64.b64decode(a["filter"])
        program = ctypes.create_string_buffer(data, len(data))
        prog = _Filter(len(data) // 8, ctypes.cast(program, ctypes.c_void_p))
        prog.keep = program
        return ctypes.byref(prog)
    if a.get("fd"):
        return ("fd", a["fd"])
    return ("saved", a["saved"])


def carry_out(name, steps, fds):
    """Runs a list of steps. fds: tree name -> descriptor."""
    saved = {}
    for i, step in enumerate(steps):
        args = step.args
        if step.late:
            args = list(args)
            for at in step.late:
                kind, key = args[at]
                args[at] = ctypes.c_long(fds[key] if kind == "fd" else saved[key])
        result = _syscall(step.nr, *args)
        if result == -1:
            errno = ctypes.get_errno()
            if errno not in step.ok:
                raise Failed(name, i, errno)
        if step.save:
            saved[step.save] = result
