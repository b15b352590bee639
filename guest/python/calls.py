"""System calls and tools as functions: `kernel`, `kernel.aio`, `tools.<server>`, `tools.<server>.aio`.

A function issues its call when it is called. The plain form waits for the result; the awaitable form gives a
Call, which may be awaited, gathered or made a task. Arguments are checked here, in the words of every guest.
"""
import collections.abc
import inspect
import types
from asyncio import events

from _agentkernel import errors, fetched, streams, syscalls, values, wire


class Call(collections.abc.Coroutine):
    """An async call under way."""

    __slots__ = ("_done", "_value", "_error", "_waiting", "_steps", "_shape", "__weakref__")

    def __init__(self, op, args, shape=None):
        self._shape = shape
        self._done, self._value, self._error = False, None, None
        self._waiting, self._steps = [], None
        _channel(op).issue(op, args, self)

    def settle(self, value, error):
        if self._shape is not None and error is None:
            value = self._shape(value)
        self._done, self._value, self._error = True, value, error
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting = []

    def __await__(self):
        if not self._done:
            future = events.get_running_loop().create_future()
            self._waiting.append(future)
            yield from future
        if self._error is not None:
            raise self._error.with_traceback(None)
        return self._value

    def send(self, value):
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(self, *error):
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.throw(*error)

    def close(self):
        if self._steps is not None:
            self._steps.close()


def _channel(op):
    c = wire.channel
    if c is None:
        raise RuntimeError("unavailable: %s: there is no kernel here" % op)
    return c


# arguments


class Param:
    """One parameter: its name for the kernel, its name in Python, and what `help` shows."""

    __slots__ = ("name", "python", "required", "default", "kind")

    def __init__(self, name, python, required, default, kind):
        self.name, self.python, self.required, self.default, self.kind = name, python, required, default, kind


class _Shown(str):
    """Text that stands for itself in a signature."""
    __repr__ = str.__str__


def _bind(params, name, signature, args, kwargs):
    """The arguments by position, as Python would assign them; what was not given is missing from the dict."""
    if not kwargs and len(args) == len(params):
        return dict(enumerate(args))
    if len(args) > len(params):
        _misfit(signature, "%s() takes %d positional arguments but %d were given", name, len(params), len(args))
    given = dict(enumerate(args))
    for key, value in kwargs.items():
        at = next((i for i, p in enumerate(params) if p.python == key), None)
        if at is None:
            _misfit(signature, "%s() got an unexpected keyword argument '%s'", name, key)
        if at in given:
            _misfit(signature, "%s() got multiple values for argument '%s'", name, key)
        given[at] = value
    missing = ["'%s'" % p.python for i, p in enumerate(params) if p.required and i not in given]
    if missing:
        _misfit(signature, "%s() missing %d required argument%s: %s", name, len(missing),
                "s" if len(missing) > 1 else "", ", ".join(missing))
    return given


def _misfit(signature, form, *parts):
    raise TypeError("invalid_argument: %s (the signature is: %s)" % (form % parts, signature))


def _object(params, given):
    """The text of the argument object, in the order of the parameters. A None that was given is there: the kernel
    knows the tool's schema, and whether it takes a null."""
    pairs = [(p.name, given[i]) for i, p in enumerate(params) if i in given]
    return values.encode(dict(pairs))


# What programs get in place of a result, and from the awaitable form.
_shapes = {"http.fetch": (fetched.Response, fetched.Response), "llm.stream": (streams.Stream, streams.AsyncStream)}


def function(name, op, prefix, params, signature, doc, aio):
    """Makes one function. prefix is what stands in the call's arguments before those of the program, as the
    beginning of a JSON object that _object's text closes; empty for system calls."""
    suffix = "}" if prefix else ""
    short = op.rsplit(".", 1)[-1] if not prefix else name
    shape = _shapes[op][aio] if op in _shapes else None

    if aio:
        def call(*args, **kwargs):
            return Call(op, prefix + _object(params, _bind(params, short, signature, args, kwargs)) + suffix, shape)
    elif shape is not None:
        def call(*args, **kwargs):
            return shape(_channel(op).ask(op, prefix + _object(params, _bind(params, short, signature, args, kwargs)) + suffix))
    else:
        def call(*args, **kwargs):
            return _channel(op).ask(op, prefix + _object(params, _bind(params, short, signature, args, kwargs)) + suffix)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    call.__signature__ = _signature(params)
    return call


def _signature(params):
    made = []
    for p in params:
        default = inspect.Parameter.empty if p.required else _Shown(p.default)
        kind = _Shown(p.kind) if p.kind else inspect.Parameter.empty
        made.append(inspect.Parameter(p.python, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind))
    try:
        return inspect.Signature(made)
    except ValueError:  # a required one behind an optional one
        return None


# kernel


class _Family:
    """Functions under one name: state.get, tool.call."""

    def __init__(self, name):
        self.__name__ = name

    def __repr__(self):
        return "<kernel.%s>" % self.__name__


class _Callable(_Family):
    """A family whose name alone makes a call: llm("...") is llm.ask("...")."""

    def __init__(self, name, bare):
        super().__init__(name)
        self.__doc__ = bare.__doc__
        self._bare = bare

    def __call__(self, *args, **kwargs):
        return self._bare(*args, **kwargs)


def kernel_module(aio=False):
    """The module `kernel`, or its awaitable twin, out of the generated table."""
    module = types.ModuleType("kernel.aio" if aio else "kernel",
                              "The functions of `kernel`, awaitable." if aio else "The kernel, as a program inside AgentKernel sees it.")
    names = []
    for op, guest, signature, doc, args, bare in syscalls.TABLE:
        params = [Param(n, n, not optional, default, kind) for n, kind, optional, default in args]
        family, _, verb = guest.rpartition(".")
        made = function(verb, op, "", params, signature, doc, aio)
        holder = module
        if family:
            if not hasattr(module, family):
                setattr(module, family, _Callable(family, made) if bare else _Family(family))
                names.append(family)
            holder = getattr(module, family)
        else:
            names.append(verb)
        setattr(holder, verb, made)
    if not aio:
        for name in errors.NAMES:
            setattr(module, name, errors.find(name))
            names.append(name)
        module.aio = kernel_module(True)
        module.__path__ = []
    module.__all__ = names
    return module


# tools


def tool_function(tool, aio):
    """A tool as a function, out of the description that the kernel sent."""
    params = []
    for p in tool.get("params") or ():
        required, default = p.get("required", False), p.get("default", "")
        params.append(Param(p["name"], p["python"], required, default or "None", p.get("type", "")))
    prefix = '{"server":%s,"tool":%s,"arguments":' % (values.encode(tool["server"]), values.encode(tool["name"]))
    name = tool["python_name"]
    made = function(name, "tool.call", prefix, params, tool.get("signature") or name + "(...)", tool.get("doc", ""), aio)
    made.__module__ = "tools." + tool["python_server"]
    return made
