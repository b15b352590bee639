"""What the kernel's answers are made of. Each class reads the JSON of docs/api.md; members that a newer kernel
adds are in ``raw`` and otherwise ignored."""

from __future__ import annotations

import dataclasses
import datetime
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

from .errors import InvalidArgument, KernelError, NotFound, ProgramSyntaxError
from .values import from_wire

PathLike = Union[str, "os.PathLike[str]"]

_TERMINAL = ("exited", "failed", "killed")


def parse_time(text: Optional[str]) -> Optional[datetime.datetime]:
    """A time of the kernel (RFC 3339, up to nanoseconds) as an aware datetime; None for none."""
    if not text:
        return None
    m = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", text)
    if m is None:
        raise InvalidArgument(f"{text!r} is not a time")
    fraction = ((m[2] or ".")[1:] + "000000")[:6]
    return datetime.datetime.fromisoformat(f"{m[1]}.{fraction}{'+00:00' if m[3] == 'Z' else m[3]}")


def seconds(span: Union[float, str, datetime.timedelta], what: str) -> str:
    """A span of time as the kernel reads it: seconds, "1m30s" or a timedelta."""
    if isinstance(span, str):
        return span
    if isinstance(span, datetime.timedelta):
        span = span.total_seconds()
    if isinstance(span, bool) or not isinstance(span, (int, float)) or not 0 < span < 1e9:
        raise InvalidArgument(f"{what}={span!r} is not a span of time", hint="seconds above zero, or a text such as '1m30s'")
    return f"{span:.6f}s"


_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size(value: Union[int, str], what: str) -> int:
    """A number of bytes: 1048576, "64k", "512m", "1g"."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    m = re.fullmatch(r"(\d+)\s*([kmg]?)i?b?", str(value).strip().lower())
    if m is None or isinstance(value, (bool, int)) or int(m[1]) == 0:
        raise InvalidArgument(f"{what}={value!r} is not a size", hint="a number of bytes, or a text such as '64k', '512m', '2g'")
    return int(m[1]) * _SIZES[m[2]]


@dataclass(frozen=True)
class Usage:
    """What a process has used. ``running`` is in seconds, ``output`` and ``bytes_in`` in bytes."""

    syscalls: int = 0
    tool_calls: int = 0
    waits: int = 0
    running: float = 0.0
    output: int = 0
    bytes_in: int = 0

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Usage":
        known = {k: data.get(k, 0) for k in ("syscalls", "tool_calls", "waits", "output", "bytes_in")}
        return cls(running=data.get("running_ns", 0) / 1e9, **known)


@dataclass(frozen=True)
class Process:
    """What is known of a process at one moment."""

    pid: int
    name: str
    state: str  #: ready, running, waiting, unfinished, exited, failed or killed
    namespace: str = "default"
    backend: str = ""
    parent: int = 0
    priority: int = 10
    paused: bool = False
    pause_note: str = ""
    waits_for: tuple[str, ...] = ()
    exit_code: int = 0
    result: Any = None  #: value of the program's last expression
    error: Optional[KernelError] = None
    created: Optional[datetime.datetime] = None
    ended: Optional[datetime.datetime] = None
    usage: Usage = field(default_factory=Usage)
    recoveries: int = 0
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def done(self) -> bool:
        """It has ended, well or badly."""
        return self.state in _TERMINAL

    @property
    def success(self) -> bool:
        """It has ended with exit code 0."""
        return self.state == "exited" and self.exit_code == 0

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Process":
        return cls(
            pid=data["pid"],
            name=data.get("name", ""),
            state=data["state"],
            namespace=data.get("namespace", ""),
            backend=data.get("backend", ""),
            parent=data.get("parent", 0),
            priority=data.get("priority", 10),
            paused=data.get("paused", False),
            pause_note=data.get("pause_note", ""),
            waits_for=tuple(data.get("waits_for") or ()),
            exit_code=data.get("exit_code", 0),
            result=from_wire(data.get("result")),
            error=KernelError.from_wire(data["error"]) if data.get("error") else None,
            created=parse_time(data.get("created")),
            ended=parse_time(data.get("ended")),
            usage=Usage.from_wire(data.get("usage") or {}),
            recoveries=data.get("recoveries", 0),
            raw=data,
        )


@dataclass(frozen=True)
class Ask:
    """A question of the kernel to whoever started the process: may this call run?"""

    id: int
    call: str  #: "filesystem.write_file"
    effect: str
    args: Any

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Ask":
        return cls(data["id"], data.get("call", ""), data.get("effect", ""), from_wire(data.get("args")))


@dataclass(frozen=True)
class Event:
    """One thing that happened to a process: created, output, state, ask, log or end."""

    kind: str
    pid: int
    seq: int
    at: Optional[datetime.datetime] = None
    stream: str = ""  #: of output: "stdout" or "stderr"
    text: str = ""  #: of output and log
    ask: Optional[Ask] = None
    process: Optional[Process] = None

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Event":
        return cls(
            kind=data["kind"],
            pid=data["pid"],
            seq=data.get("seq", 0),
            at=parse_time(data.get("at")),
            stream=data.get("stream", ""),
            text=data.get("text", ""),
            ask=Ask.from_wire(data["ask"]) if data.get("ask") else None,
            process=Process.from_wire(data["process"]) if data.get("process") else None,
        )


@dataclass(frozen=True)
class Entry:
    """One record of a process's journal."""

    pid: int
    seq: int
    kind: str  #: created, call, result, output, paused, resumed, recover, signal, terminal
    at: Optional[datetime.datetime] = None
    call: int = 0  #: the call's number
    op: str = ""  #: its operation: "tool.call"
    effect: str = ""
    is_async: bool = False
    args: Any = None
    done: bool = False
    data: Any = None
    error: Optional[KernelError] = None
    stream: str = ""
    note: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Entry":
        return cls(
            pid=data["pid"],
            seq=data["seq"],
            kind=data["kind"],
            at=parse_time(data.get("at")),
            call=data.get("call", 0),
            op=data.get("op", ""),
            effect=data.get("effect", ""),
            is_async=data.get("async", False),
            args=from_wire(data.get("args")),
            done=data.get("done", False),
            data=from_wire(data.get("data")),
            error=KernelError.from_wire(data["error"]) if data.get("error") else None,
            stream=data.get("stream", ""),
            note=data.get("note", ""),
            raw=data,
        )


@dataclass(frozen=True)
class Inspection:
    """Everything that is known of a process: the process, its Spec, its working set, its children."""

    process: Process
    spec: Mapping[str, Any]
    state: dict[str, Any]
    entries: int
    children: tuple[Process, ...]


@dataclass(frozen=True)
class ToolServer:
    """One configured tool server."""

    name: str
    python_name: str
    transport: str = ""
    trusted: bool = False
    running: bool = False
    source: str = ""
    problem: str = ""

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "ToolServer":
        return cls(**{f.name: data[f.name] for f in dataclasses.fields(cls) if f.name in data})


@dataclass(frozen=True)
class Tool:
    """One tool, with what somebody who writes a program needs to know of it."""

    server: str
    name: str
    python_server: str
    python_name: str
    description: str = ""
    effect: str = ""  #: read, idempotent or write
    signature: str = ""
    doc: str = ""
    input_schema: Any = None
    output_schema: Any = None
    observed: Optional[Mapping[str, Any]] = None  #: what results looked like, where no output schema says it
    changed: Optional[Mapping[str, Any]] = None  #: what is not as it was accepted; None: nothing
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def import_line(self) -> str:
        """The line with which a program imports it."""
        return f"from tools.{self.python_server} import {self.python_name}"

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Tool":
        known = {f.name: data[f.name] for f in dataclasses.fields(cls) if f.name in data}
        return cls(**known, raw=data)


@dataclass(frozen=True)
class Skill:
    """Saved functions, a module ``skills.<name>`` for programs of its namespace."""

    name: str
    version: int = 0  #: counted up by each save
    description: str = ""
    tags: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()  #: signatures
    code: str = ""  #: empty in lists
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def import_line(self) -> str:
        """The line with which a program imports all of it."""
        return f"from skills.{self.name} import {', '.join(f.partition('(')[0] for f in self.functions)}"

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Skill":
        lists = {n: tuple(data.get(n) or ()) for n in ("tags", "functions")}
        return cls(data["name"], data.get("version", 0), data.get("description", ""), code=data.get("code", ""), raw=data, **lists)


@dataclass(frozen=True)
class KernelInfo:
    """Which kernel this is."""

    version: str
    api: int
    home: str
    os_pid: int = 0
    mode: str = ""
    processes: int = 0  #: carried on by this kernel
    unfinished: int = 0  #: waiting for recover
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "KernelInfo":
        known = {f.name: data[f.name] for f in dataclasses.fields(cls) if f.name in data}
        return cls(**known, raw=data)


@dataclass(frozen=True)
class Limits:
    """Limits of a process. Spans are seconds, texts such as "1m30s" or timedeltas; sizes are bytes or "512m"."""

    time: Union[float, str, None] = None  #: running time, waiting not counted (default 60 s)
    wall: Union[float, str, None] = None  #: from start to end, waiting counted
    memory: Union[int, str, None] = None  #: heap (default 256m)
    recursion: Optional[int] = None
    output: Union[int, str, None] = None  #: what it may print (default 16m)
    calls: Optional[int] = None
    call_wait: Union[float, str, None] = None  #: the longest external call (default 2 m)

    def to_wire(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name in ("time", "wall", "call_wait"):
            if getattr(self, name) is not None:
                out[name] = seconds(getattr(self, name), name)
        for name in ("memory", "output"):
            if getattr(self, name) is not None:
                out[name] = size(getattr(self, name), name)
        for name in ("recursion", "calls"):
            value = getattr(self, name)
            if value is not None:
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise InvalidArgument(f"{name}={value!r} is not a whole number above zero")
                out[name] = value
        return out


@dataclass(frozen=True)
class Spec:
    """Everything that is needed to start a program.

    ``tools`` are MCP configuration files whose servers the program may import; ``allow`` are patterns of calls
    that may change things ("filesystem.write_*"); ``modules`` are sources that travel with the program, by
    dotted name; ``interactive`` says that you read the events and answer those of kind "ask". ``environment`` is the
    path of a virtual environment whose packages the program has, as ``agentkernel env build`` prints it.
    """

    source: str
    name: str = "program.py"
    args: Sequence[str] = ()
    tools: Union[PathLike, Sequence[PathLike]] = ()
    allow: Union[str, Sequence[str]] = ()
    deny: Union[str, Sequence[str]] = ()
    modules: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    namespace: str = ""
    backend: str = ""
    priority: int = 0
    on_unknown: str = ""
    durability: str = ""
    idempotency_key: str = ""
    interactive: bool = False
    language: str = "python"
    environment: str = ""

    @classmethod
    def file(cls, path: PathLike, **options: Any) -> "Spec":
        """The program in a file, with the local tools in a folder ``tools`` beside it."""
        path = Path(path)
        try:
            text = path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode()
        except UnicodeDecodeError:
            raise ProgramSyntaxError(f"{path} is not valid UTF-8", hint="save it as UTF-8") from None
        except OSError as e:
            raise NotFound(f"{path} cannot be read: {e.strerror}") from None
        modules = {**local_tools(path.parent, text), **options.pop("modules", {})}
        return cls(text, name=path.name, modules=modules).with_options(**options)

    def with_options(self, **options: Any) -> "Spec":
        """A copy in which these fields have other values; ``timeout`` stands for the limit ``wall``."""
        if "timeout" in options:
            limits = options.get("limits", self.limits)
            options["limits"] = dataclasses.replace(limits, wall=options.pop("timeout"))
        unknown = set(options) - {f.name for f in dataclasses.fields(self)}
        if unknown:
            known = ", ".join(f.name for f in dataclasses.fields(self) if f.name != "source")
            raise TypeError(f"a program has no option {sorted(unknown)[0]!r}; the options are timeout, {known}")
        return dataclasses.replace(self, **options)

    def to_wire(self) -> dict[str, Any]:
        if not isinstance(self.source, str):
            raise InvalidArgument(f"a program is a text, not {type(self.source).__name__}")
        for text in (self.source, *self.modules.values(), *self.args):
            _utf8(text)
        program: dict[str, Any] = {"name": self.name, "language": self.language, "source": self.source}
        if self.args:
            program["args"] = [str(a) for a in self.args]
        if self.modules:
            program["modules"] = dict(self.modules)
        if self.environment:
            program["host"] = os.fspath(self.environment)
        out: dict[str, Any] = {"program": program}
        limits = self.limits.to_wire()
        if limits:
            out["limits"] = limits
        if tools := files(self.tools):
            out["tools"] = tools
        for name in ("allow", "deny"):
            value = getattr(self, name)
            if value:
                out[name] = [value] if isinstance(value, str) else list(value)
        for name in ("namespace", "backend", "priority", "on_unknown", "durability", "idempotency_key", "interactive"):
            if getattr(self, name):
                out[name] = getattr(self, name)
        return out


def files(tools: Union[PathLike, Sequence[PathLike]]) -> list[str]:
    """Configuration files as the kernel wants them: absolute."""
    if isinstance(tools, (str, os.PathLike)):
        tools = [tools]
    return [os.path.abspath(os.path.expanduser(os.fspath(t))) for t in tools]


def _utf8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as e:
        line = text.count("\n", 0, e.start) + 1
        raise ProgramSyntaxError(f"the program is not valid UTF-8: line {line}", hint="it holds half of a surrogate pair") from None


_MODULE_LIMIT, _ALL_LIMIT, _COUNT_LIMIT = 1 << 20, 16 << 20, 1000


def local_tools(folder: PathLike, source: str = "tools") -> dict[str, str]:
    """Local tools of a folder: ``tools/<server>/<tool>.py`` becomes the module ``tools.<server>.<tool>``. A program
    whose source does not speak of tools has none."""
    root = Path(folder) / "tools"
    if "tools" not in source or not root.is_dir():
        return {}
    found: dict[str, str] = {}
    real, total = root.resolve(), 0
    for path in sorted(root.glob("*/*.py")):
        if path.name.startswith(("_", ".")) or path.parent.name.startswith(("_", ".")):
            continue
        if real not in path.resolve().parents:
            raise InvalidArgument(f"the local tool {path} is a link that leads out of {root}")
        text = path.read_bytes()
        total += len(text)
        if len(text) > _MODULE_LIMIT or total > _ALL_LIMIT or len(found) == _COUNT_LIMIT:
            raise InvalidArgument(f"the local tools below {root} are too large", hint="1 MB a file, 16 MB and 1,000 files together")
        try:
            found[f"tools.{path.parent.name}.{path.stem}"] = text.removeprefix(b"\xef\xbb\xbf").decode()
        except UnicodeDecodeError:
            raise ProgramSyntaxError(f"the local tool {path} is not valid UTF-8", hint="save it as UTF-8") from None
    return found
