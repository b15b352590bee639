"""One program: from the kernel's `start` to its end."""
import _io
import _thread
import asyncio
import atexit
import binascii
import errno
import fcntl
import gc
import inspect
import json
import linecache
import logging
import marshal
import os
import resource
import signal
import site
import stat
import sys
import threading
import time
import types

from _agentkernel import errors, exact, modules, output, scan, trace, values, wire

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"}

OWNER = "AGENTKERNEL_OWNER"  # by which the kernel finds what a program without walls leaves behind

_quiet = (0, 0)  # callbacks of atexit and handlers of logging that the zygote has
_own = 0  # bytes of data that the zygote has
_random = None  # numpy.random, if the zygote has it
_session = None  # the module

# What every program needs, without a search through modules: each object that is touched is a page that is copied.
_scan = json.JSONDecoder().scan_once
_loads = marshal.loads
_unbase = binascii.a2b_base64
_read = os.read
_threads = _thread._count
_callbacks = atexit._ncallbacks
_handlers = logging._handlerList
_lines = linecache.cache
_main = types.ModuleType("__main__")


def prepare():
    """Makes in the zygote what every program needs, so that none has to."""
    global _quiet, _own, _random, _session
    from _agentkernel import session as _session  # it stands on this module
    exact.prepare()
    trace.install()
    modules.prepare()
    output.prepare()
    for name in set(os.environ) - {OWNER}:
        del os.environ[name]
    os.environ.update(ENV)
    time.tzset()
    sys.path[:] = [p for p in sys.path if p]
    os.register_at_fork(after_in_child=_forked)
    _main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = _main
    signal.signal(signal.SIGXCPU, _over)
    _quiet = (_callbacks(), len(_handlers))
    _random = sys.modules.get("numpy.random")
    with open("/proc/self/statm") as f:
        _own = int(f.read().split()[5]) * resource.getpagesize()


REHEARSALS = 50  # after which the interpreter has done to its code what it does to code that is often used
_REHEARSAL = '{"type":"start","name":"rehearsal","source":"x = [1]\\nprint(len(x))","args":[],"imports":["x"],"recursion":1000,"compiled":"%s"}'


def rehearse(times):
    """Does what running a program needs. What that leaves in caches and in memory helps those that follow."""
    null = os.open("/dev/null", os.O_RDWR)
    channel = wire.Channel()
    text = _REHEARSAL % scan.coded("rehearsal", "x = [1]\nprint(len(x))")
    frame = wire.HEAD.pack(len(text), wire.JSON) + text.encode()
    for _ in range(times):
        channel.open(null, frame)
        perform(channel, first(channel))
    wire.channel = None
    gc.disable()
    del _lines["rehearsal"]
    for name in set(_main.__dict__) - _FRESH:
        del _main.__dict__[name]
    os.close(null)


_FRESH = frozenset(_main.__dict__) | {"__builtins__"}


def serve(channel):
    """Waits for what the kernel wants of this child: a program to check, or one to run."""
    if sys.flags.no_site:  # what installed packages have run at the start of an interpreter, they run in here
        site.main()
    request = first(channel)
    while True:
        kind = request["type"]
        if kind == "start":
            perform(channel, request)
            while _read(channel.fd, 65536):  # everything has been said: the kernel ends this process
                pass
            os._exit(0)
        elif kind == "check":
            channel.send_json(values.encode(dict(scan.check(request), type="checked")))
        elif kind == "rehearse":
            rehearse(1)
        request = channel.receive()


def first(channel):
    """The first message, which has been read already as a rule."""
    have = channel._buffer
    if len(have) < 5 or len(have) != wire.HEAD.unpack_from(have)[0] + 5:
        return channel.receive()
    channel._buffer = b""
    return _scan(have[5:].decode(), 0)[0]


def perform(channel, request):
    """Runs a program and tells its end."""
    global _files
    wire.channel = channel
    channel.before, channel.last_words = output.flush, _write_files
    _files = "files" in request
    name, source = request["name"], request["source"]
    sys.argv = [name, *request.get("args", ())]
    sys.orig_argv = [sys.executable, *sys.argv]
    sys.setrecursionlimit(request.get("recursion") or 1000)
    if "memory" in request:
        resource.setrlimit(resource.RLIMIT_DATA, data_limit(request["memory"]))
    if "tools" in request or "modules" in request:
        modules.install(request.get("tools") or (), request.get("modules") or {})
    text = source if source.endswith("\n") else source + "\n"
    _lines[name] = (len(source), None, text.splitlines(True), name)  # trace.register
    names = _main.__dict__
    names["__file__"] = name
    if "session" in request:
        gc.enable()
        _session.run(channel, request, names)
        return
    try:
        try:
            gc.enable()
            if "compiled" in request:
                code, last = _loads(_unbase(request["compiled"]))
            else:
                code, last = scan.compiled(name, source)
            if _random is not None:
                exact.begin(request.get("imports") or ())
            result = execute(code, last, names)
        finally:
            finish()
    except SystemExit as e:
        leave(channel, e)
        return
    except BaseException as e:
        end = failure(e)
        output.flush()
        channel.send_json(values.encode(end))
        return
    output.flush()
    if result is None:
        channel.send_json('{"type":"exit","code":0,"result":null}')
    else:
        _exit(channel, result)


def execute(code, last, names):
    """Runs what `scan.compiled` gave, and gives the value of its last expression."""
    if code.co_flags & inspect.CO_COROUTINE or last is not None and last.co_flags & inspect.CO_COROUTINE:
        return asyncio.run(_together(code, last, names))
    exec(code, names)
    return eval(last, names) if last is not None else None


def leave(channel, end):
    """Ends a program that has raised SystemExit."""
    output.flush()
    if end.code is None:
        channel.call("proc.exit", "{}")
        return
    try:
        code = values.encode(end.code)
    except ValueError:  # a text that is not UTF-8: what Python would print of it
        code = values.encode(str(end.code).encode("utf-8", "backslashreplace").decode())
    channel.call("proc.exit", '{"code":%s}' % code)


def _exit(channel, result):
    try:
        channel.send_json('{"type":"exit","code":0,"result":%s}' % result_text(result))
    except ValueError as e:  # it is too big
        channel.send_json('{"type":"exit","code":0,"result":%s}' % result_text(values.Text("<no result: %s>" % e)))


def result_text(value):
    """The JSON of the program's result; one that cannot leave is told as text, for nothing is undone by it."""
    try:
        return values.encode(value)
    except (ValueError, RecursionError) as e:
        return values.encode(values.Text("<no result: %s>" % e))


def _forked():
    """In a process that the program forked: it may not speak to the kernel."""
    c = wire.channel
    if c is not None and c.fd >= 0:
        os.close(c.fd)
        c.fd = -1


SPARE = 16 << 20  # memory in which to tell that there is none


def data_limit(memory):
    """The limits with which the system refuses memory beyond the program's, so that it gets a MemoryError. What the
    zygote had already is not the program's. Walls around the whole tree are the kernel's."""
    return _own + memory, _own + memory + SPARE


def _uncap():
    resource.setrlimit(resource.RLIMIT_DATA, (resource.getrlimit(resource.RLIMIT_DATA)[1],) * 2)


def _over(signum, frame):
    """The kernel's word that the time is over: says where the program was, and ends it. Nothing can catch this."""
    channel = wire.channel
    if channel is None or not channel.sending.acquire(blocking=False):
        return  # a frame is half written; the kernel asks again
    channel.sending.release()
    channel.send_json(values.encode({"type": "fail", "limit": "time", "exception": "TimeoutError",
                                     "message": "TimeoutError: the time limit is over", "traceback": trace.stack(frame)}))
    os._exit(0)


async def _together(first, second, names):
    """Runs a program that awaits outside of functions."""
    value = eval(first, names)
    if first.co_flags & inspect.CO_COROUTINE:
        await value
    if second is None:
        return None
    value = eval(second, names)
    return await value if second.co_flags & inspect.CO_COROUTINE else value


_files = False  # whether files outlast the program


def finish():
    """What an interpreter does before it ends: waits for threads, runs what was registered, writes what files hold back."""
    if _threads() and threading.active_count() > 1:
        threading._shutdown()
    if (_callbacks(), len(_handlers)) != _quiet:
        atexit._run_exitfuncs()
    _write_files()


_writing = set()  # threads that write what files hold back


def _write_files():
    me = _thread.get_ident()
    if not _files or me in _writing:  # what is closed here may end the program itself
        return
    _writing.add(me)
    try:
        if _writes():
            _write_out()
    except BaseException:
        pass  # the result of the program counts
    finally:
        _writing.discard(me)


def _writes():
    """Whether a file is open that may be written."""
    try:
        for fd in map(int, os.listdir("/proc/self/fd")):
            try:
                if stat.S_ISREG(os.fstat(fd).st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                    return True
            except OSError:
                pass  # that by which the list was read
        return False
    except OSError:
        return True


def _write_out():
    """Writes what is held back of files that the program has left open, outer layers first: the destructors of an interpreter do so, and this
    process is killed before they come. Those of other objects, such as a NamedTemporaryFile or a Shelf, are not run."""
    archive = getattr(sys.modules.get("zipfile"), "ZipFile", _io._IOBase)
    files = [o for o in gc.get_objects() if issubclass(type(o), (_io._IOBase, archive)) and type(o) is not output._Frames]
    text = [o for o in files if issubclass(type(o), _io.TextIOWrapper)]
    buffered = [o for o in files if issubclass(type(o), (_io.BufferedWriter, _io.BufferedRandom))]
    # Such as compressed ones, whose ends are not written by a flush. What is written into an archive comes before it, and it before what it is in.
    made = [o for o in files if type(o).__module__ != "_io"]
    layers = (_io._TextIOBase, _io._BufferedIOBase, archive)
    made.sort(key=lambda o: next((n for n, layer in enumerate(layers) if issubclass(type(o), layer)), len(layers)))
    for o in text + buffered:
        _finish_file(o, "flush")
    for o in made:
        _finish_file(o, "close")
    for o in text + buffered:
        _finish_file(o, "flush")


def _finish_file(o, write):
    """Flushes or closes a file. One that is closed is left alone, and one whose descriptor is of a pipe, say: a thread may hold its lock for ever."""
    try:
        beneath = o if isinstance(o, _io._IOBase) else o.fp  # of an archive
        if beneath is None or beneath.closed:
            return
        try:
            regular = stat.S_ISREG(os.fstat(beneath.fileno()).st_mode)
        except Exception:
            regular = True  # it has no descriptor of its own
        if regular:
            getattr(o, write)()
    except BaseException:
        pass  # there is no room, say: an interpreter goes on, too


_STRUCK = {errno.EMFILE: "open_files", errno.EFBIG: "file_size"}


def _struck(error):
    """The limit of the walls that the system answered with an error; "" if it is none."""
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return "pids"
    if not isinstance(error, OSError) or isinstance(error, errors.OutcomeUnknown):
        return ""
    if error.errno == errno.EAGAIN:
        return "pids" if trace.forking(error) else ""
    if error.errno == errno.ENOSPC:
        return "tmp" if _full() else ""
    return _STRUCK.get(error.errno, "")


def _full():
    """Whether it is /tmp that has no room: there is nothing else to write to, or it is full now."""
    if not os.path.ismount("/workspace") and not os.path.ismount("/volumes"):
        return True
    room = os.statvfs("/tmp")
    return room.f_bfree == 0 or room.f_ffree == 0


MOST_TOLD = 1 << 20  # characters of an error


def failure(error):
    """An error that nobody caught, for the kernel."""
    if isinstance(error, MemoryError):
        _uncap()
    if sys.excepthook is not sys.__excepthook__:
        try:
            sys.excepthook(type(error), error, trace.clean(error.__traceback__))
        except BaseException:
            pass  # the hook's own error is not the program's
    end = {"type": "fail", "exception": type(error).__name__, "message": trace.last_line(error)}
    if isinstance(error, MemoryError) and not isinstance(error, errors.LimitError) and (
            not error.args or type(error).__module__.split(".")[0] == "numpy"):
        end["limit"] = "memory"
    if isinstance(error, RecursionError) and str(error).startswith("maximum recursion depth exceeded"):
        end["limit"] = "recursion"
    elif "limit" not in end:
        end["limit"] = _struck(error)
    end["syntax"] = isinstance(error, SyntaxError) and error.__traceback__ is None
    try:
        end["traceback"] = trace.text(error)
    except (MemoryError, RecursionError):
        end["traceback"] = ""
    for name in ("message", "traceback"):
        text = end[name]
        if len(text) > MOST_TOLD:  # a message to the kernel has a limit, and nobody reads so much
            text = text[:MOST_TOLD // 2] + "\n... %d characters ...\n" % (len(text) - MOST_TOLD) + text[-MOST_TOLD // 2:]
        end[name] = text.encode("utf-8", "backslashreplace").decode()
    return end
