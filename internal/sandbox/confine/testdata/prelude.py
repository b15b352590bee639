# What every attack begins with. An attack prints one line for each thing it tries: the name of the errno that
# stopped it, or BREACH and what it got.
import ctypes, errno, json, os, socket, struct, sys, time

P = json.loads(os.environ["PARAMS"])  # what the host has set up, and the numbers of system calls
NR = P["nr"]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def sys_(name, *args):
    """A raw system call; OSError if it fails."""
    args = [ctypes.c_char_p(a) if isinstance(a, bytes) else a if isinstance(a, ctypes.Array) else ctypes.c_long(a) for a in args]
    r = libc.syscall(ctypes.c_long(NR[name] if isinstance(name, str) else name), *args)
    if r == -1:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
    return r


def say(*words):
    print(*words, flush=True)


def attempt(f, *args, **kw):
    """Tries one thing and says what came of it."""
    try:
        r = f(*args, **kw)
    except OSError as e:
        say(errno.errorcode.get(e.errno, repr(e)))
    except (MemoryError, RuntimeError) as e:
        say(type(e).__name__)
    else:
        say("BREACH", getattr(f, "__name__", f), args, repr(r)[:200])


def raw(name, *args):
    attempt(sys_, name, *args)


def read(path, n=4096):
    with open(path, "rb") as f:
        return f.read(n)


def write(path, data=b"x", flags=os.O_WRONLY):
    fd = os.open(path, flags)
    try:
        return os.write(fd, data)
    finally:
        os.close(fd)


def here():
    """A directory of the workspace that no other run has."""
    d = "/workspace/%d" % P["run"]
    os.mkdir(d)
    return d


buf = ctypes.create_string_buffer(4096)
