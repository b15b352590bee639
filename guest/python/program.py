"""One program: from the kernel's `start` to its end."""
import ast
import asyncio
import atexit
import gc
import inspect
import linecache
import logging
import os
import resource
import signal
import sys
import threading
import time
import types

from _agentkernel import errors, exact, modules, output, scan, trace, values, wire

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"}

OWNER = "AGENTKERNEL_OWNER"  # by which the kernel finds what a program without walls leaves behind

_quiet = (0, 0)  # callbacks of atexit and handlers of logging that the zygote has
_own = 0  # bytes of data that the zygote has


def prepare():
    """Makes in the zygote what every program needs, so that none has to."""
    global _quiet, _own
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
    rehearse()
    _quiet = (atexit._ncallbacks(), len(logging._handlerList))
    with open("/proc/self/statm") as f:
        _own = int(f.read().split()[5]) * resource.getpagesize()


def rehearse():
    """Does once what running a program needs. What that leaves in caches and in memory helps those that follow."""
    request = values.decode('{"type":"start","name":"rehearsal","source":"x = [1]\\nlen(x)","args":[],"imports":["x"],"recursion":1000}')
    tree, last = _split(scan.parse(request["name"], request["source"], True))
    names = {"__name__": "rehearsal", "__builtins__": __builtins__}
    exec(_code(tree, "rehearsal", "exec"), names)
    result_text(eval(_code(last, "rehearsal", "eval"), names))
    types.ModuleType("__main__").__dict__.update(names)
    trace.register("rehearsal", request["source"])
    del linecache.cache["rehearsal"]
    signal.signal(signal.SIGXCPU, signal.getsignal(signal.SIGXCPU))
    print("", end="")
    output.flush()


def serve(channel, waits):
    """Waits for what the kernel wants of this child: a program to check, or one to run. waits: that may take a
    while, which is used to have memory at hand."""
    if waits:
        rehearse()
    while True:
        request = channel.receive()
        if request["type"] == "start":
            run(channel, request)
        elif request["type"] == "check":
            channel.send_json(values.encode(dict(scan.check(request), type="checked")))


def run(channel, request):
    """Runs a program and ends this process."""
    wire.channel = channel
    channel.before = output.flush
    _surroundings(request)
    _watch(channel)
    gc.enable()
    try:
        try:
            end = {"type": "exit", "result": _execute(request)}
        finally:
            _finish()
    except SystemExit as e:
        output.flush()
        channel.call("proc.exit", "{}" if e.code is None else '{"code":%s}' % values.encode(e.code))
        _rest(channel)
    except BaseException as e:
        end = failure(e)
    output.flush()
    if end["type"] == "fail":
        channel.send_json(values.encode(end))
    else:
        _exit(channel, end["result"])
    _rest(channel)


def _exit(channel, result):
    try:
        channel.send_json('{"type":"exit","code":0,"result":%s}' % result_text(result))
    except ValueError as e:  # it is too big
        channel.send_json('{"type":"exit","code":0,"result":%s}' % result_text(values.Text("<no result: %s>" % e)))


def _rest(channel):
    """Everything has been said: the kernel ends this process."""
    while True:
        channel.receive()


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


def _surroundings(request):
    name = request["name"]
    sys.argv = [name] + (request.get("args") or [])
    sys.orig_argv = [sys.executable] + sys.argv
    sys.setrecursionlimit(request.get("recursion") or 1000)
    if request.get("memory"):
        _cap(request["memory"])
    modules.install(request.get("tools") or (), request.get("modules") or {})
    trace.register(name, request["source"])


SPARE = 16 << 20  # memory in which to tell that there is none


def _cap(limit):
    """Has the system refuse memory beyond the limit, so that the program gets a MemoryError. What the zygote had
    already is not the program's. Walls around the whole tree are the kernel's."""
    resource.setrlimit(resource.RLIMIT_DATA, (_own + limit, _own + limit + SPARE))


def _uncap():
    resource.setrlimit(resource.RLIMIT_DATA, (resource.getrlimit(resource.RLIMIT_DATA)[1],) * 2)


def _watch(channel):
    """The kernel's word that the time is over: says where the program was, and ends it. Nothing can catch this."""
    def over(signum, frame):
        if not channel.sending.acquire(blocking=False):
            return  # a frame is half written; the kernel asks again
        channel.sending.release()
        channel.send_json(values.encode({"type": "fail", "limit": "time", "exception": "TimeoutError",
                                         "message": "TimeoutError: the time limit is over", "traceback": trace.stack(frame)}))
        os._exit(0)
    signal.signal(signal.SIGXCPU, over)


def _execute(request):
    """Runs the source as __main__ and gives the value of its last expression."""
    name, source = request["name"], request["source"]
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=name, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    tree, last = _split(scan.parse(name, source, True))
    first = _code(tree, name, "exec")
    second = _code(last, name, "eval") if last is not None else None
    exact.begin(set(request.get("imports") or ()))
    if _awaits(first) or second is not None and _awaits(second):
        return asyncio.run(_together(first, second, main.__dict__))
    exec(first, main.__dict__)
    return eval(second, main.__dict__) if second is not None else None


def _split(tree):
    """Takes the last statement off if it is an expression: its value is the program's result."""
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        return tree, ast.Expression(tree.body.pop().value)
    return tree, None


def _code(tree, name, mode):
    return compile(tree, name, mode, scan.FLAGS, dont_inherit=True)


def _awaits(code):
    return bool(code.co_flags & inspect.CO_COROUTINE)


async def _together(first, second, names):
    """Runs a program that awaits outside of functions."""
    value = eval(first, names)
    if _awaits(first):
        await value
    if second is None:
        return None
    value = eval(second, names)
    return await value if _awaits(second) else value


def _finish():
    """What an interpreter does before it ends: waits for threads, runs what was registered."""
    if threading.active_count() > 1:
        threading._shutdown()
    if (atexit._ncallbacks(), len(logging._handlerList)) != _quiet:
        atexit._run_exitfuncs()


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
    end["syntax"] = isinstance(error, SyntaxError) and error.__traceback__ is None
    try:
        end["traceback"] = trace.text(error)
    except (MemoryError, RecursionError):
        end["traceback"] = ""
    end["message"] = end["message"].encode("utf-8", "replace").decode()
    end["traceback"] = end["traceback"].encode("utf-8", "replace").decode()
    return end
