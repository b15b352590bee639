"""What would differ between two runs of a program asks the kernel instead, whose answers are in the journal: the
clock, randomness, names made of either. `prepare` runs once in the zygote, `begin` in each program.

Where there is no kernel (in the zygote, in a process that a program forked) the real functions answer.
"""
import datetime
import gc
import operator
import os
import random
import sys
import time
import uuid

from _agentkernel import values, wire

_real_urandom = os.urandom
_real_now = time.time
MOST = 65536  # bytes that one system call gives


def now():
    """Seconds since 1970."""
    c = wire.here()
    return _real_now() if c is None else c.ask("time.now", "{}")


def random_bytes(n):
    n = operator.index(n)
    c = wire.here()
    if c is None or n <= 0:
        return _real_urandom(n)
    parts = []
    while n > 0:
        some = min(n, MOST)
        parts.append(c.ask("rand.bytes", '{"n":%d}' % some))
        n -= some
    return parts[0] if len(parts) == 1 else b"".join(parts)


def prepare():
    _clock()
    _dates()
    _randomness()


# time


def _clock():
    real_sleep = time.sleep
    nanoseconds = lambda: round(now() * 1e6) * 1000

    def sleep(seconds, /):
        c = wire.here()
        if c is None:
            return real_sleep(seconds)
        if not isinstance(seconds, (int, float)):
            seconds = float(seconds)
        if seconds != seconds:
            raise ValueError("Invalid value NaN (not a number)")
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        c.ask("time.sleep", '{"seconds":%s}' % values.encode(seconds))

    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        if hasattr(time, name):
            setattr(time, name, _named(name, lambda: now()))
            setattr(time, name + "_ns", _named(name + "_ns", lambda: nanoseconds()))
    time.sleep = sleep
    time.clock_gettime = _named("clock_gettime", lambda clk_id, /: now())
    time.clock_gettime_ns = _named("clock_gettime_ns", lambda clk_id, /: nanoseconds())
    for name in ("gmtime", "localtime", "ctime"):
        real = getattr(time, name)
        setattr(time, name, _named(name, lambda seconds=None, /, real=real: real(now() if seconds is None else seconds)))
    real_strftime, real_asctime = time.strftime, time.asctime
    time.strftime = _named("strftime", lambda format, t=None, /: real_strftime(format, time.localtime() if t is None else t))
    time.asctime = _named("asctime", lambda t=None, /: real_asctime(time.localtime() if t is None else t))


def _named(name, function):
    function.__name__ = function.__qualname__ = name
    function.__module__ = "time"
    return function


def _dates():
    """datetime.now and its like, in the types themselves: a subclass would not be what libraries written in C make,
    nor print as the real one does. The types cannot be assigned to, but their dictionaries can."""
    def today(cls):
        """Current date or datetime:  same as self.__class__.fromtimestamp(time.time())."""
        return cls.fromtimestamp(now())

    def moment(cls, tz=None):
        """Returns new datetime object representing current time local to tz."""
        return cls.fromtimestamp(now(), tz)

    def utcnow(cls):
        """Return a new datetime representing UTC day and time."""
        m = datetime.datetime.fromtimestamp(now(), datetime.timezone.utc).replace(tzinfo=None)
        if cls is datetime.datetime:
            return m
        # A subclass is made by its own constructor.
        return cls(m.year, m.month, m.day, m.hour, m.minute, m.second, m.microsecond)

    moment.__name__, moment.__qualname__ = "now", "datetime.now"
    _put(datetime.date, "today", classmethod(today))
    _put(datetime.datetime, "now", classmethod(moment))
    _put(datetime.datetime, "utcnow", classmethod(utcnow))
    probe = []
    global now
    real, now = now, lambda: probe.append(1) or 0.0
    try:
        datetime.datetime.now(), datetime.date.today()
    finally:
        now = real
    if len(probe) != 2:
        raise RuntimeError("the datetime module of this Python does not let its clock be replaced")


def _put(kind, name, value):
    import ctypes
    for d in gc.get_referents(kind.__dict__):
        if isinstance(d, dict):
            d[name] = value
            break
    modified = ctypes.pythonapi.PyType_Modified
    modified.argtypes, modified.restype = [ctypes.py_object], None
    modified(kind)


# randomness

_functions = {}  # the functions of the module `random`, as they are once it is seeded


def _randomness():
    os.urandom = random_bytes
    if hasattr(os, "getrandom"):
        os.getrandom = lambda size, flags=0: random_bytes(size)
    random._urandom = random_bytes
    uuid._generate_time_safe = uuid._UuidCreate = None
    uuid._GETTERS = []
    real_seed = random.Random.seed

    def seed(self, a=None, version=2):
        if a is None and wire.here() is not None:
            a = int.from_bytes(random_bytes(32), "big")
        return real_seed(self, a, version)
    seed.__doc__ = real_seed.__doc__
    random.Random.seed = seed

    shared = random._inst
    for name, value in list(vars(random).items()):
        if getattr(value, "__self__", None) is shared:
            _functions[name] = value if name != "seed" else shared.seed
            setattr(random, name, _late(name))


def _late(name):
    """A function of `random` that seeds the shared generator before its first use: programs that never ask for
    random numbers make no system call for them."""
    def call(*args, **kwargs):
        if _pending[0]:
            _settle(seeded=name in ("seed", "setstate"))
        return _functions[name](*args, **kwargs)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = _functions[name].__doc__
    call.__module__ = "random"
    return call


_pending = [True]


def _settle(seeded):
    _pending[0] = False
    if not seeded:
        random._inst.seed()
    for name, value in _functions.items():
        setattr(random, name, value)


def begin(modules):
    """Called in a program before its first line. modules are the names that it imports. Says whether it has seeded."""
    if "numpy.random" not in sys.modules or {"numpy", "pandas", "scipy", "sklearn"}.isdisjoint(modules):
        return False
    sys.modules["numpy.random"].seed(list(random_bytes(32)))
    return True
