"""What the kernel's answers are made of. Each class reads the JSON of docs/api.md; members that a newer kernel
adds are in ``raw`` and otherwise ignored."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

from ._span import span
from .errors import InvalidArgument, KernelError, NotFound, ProgramSyntaxError
from .values import from_wire

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
class Spending:
    """Dollars, tokens of models, calls out of the kernel, turns of models, and seconds that programs ran. In a limit 0 is no bound."""

    usd: decimal.Decimal = decimal.Decimal(0)
    tokens: int = 0
    calls: int = 0
    turns: int = 0
    time: float = 0

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Spending":
        counts = {name: data.get(name, 0) for name in ("tokens", "calls", "turns")}
        return cls(usd=decimal.Decimal(str(data.get("usd", 0))), time=span(data.get("time", 0), "time"), **counts)


@dataclass(frozen=True)
class Budget:
    """What a process and all below it may spend, and have spent. What calls under way may cost is held."""

    pid: int
    limit: Spending
    spent: Spending
    held: Spending

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Budget":
        return cls(data["pid"], *(Spending.from_wire(data.get(part) or {}) for part in ("limit", "spent", "held")))


@dataclass(frozen=True)
class Allowance:
    """What the processes of a namespace may spend together in each day or month, and have spent since it began."""

    namespace: str
    period: str  #: day or month
    limit: Spending
    spent: Spending
    held: Spending
    since: Optional[datetime.datetime] = None
    until: Optional[datetime.datetime] = None  #: it begins anew then

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Allowance":
        amounts = (Spending.from_wire(data.get(part) or {}) for part in ("limit", "spent", "held"))
        return cls(data["namespace"], data["period"], *amounts, parse_time(data.get("since")), parse_time(data.get("until")))


@dataclass(frozen=True)
class ModelUse:
    """What some calls to models have used. Of agent, model, day, namespace and tree those are set that were asked for."""

    agent: str = ""
    model: str = ""
    day: str = ""
    namespace: str = ""
    tree: int = 0
    calls: int = 0  #: that have ended
    failed: int = 0  #: of them
    tokens: int = 0  #: all together
    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    usd: decimal.Decimal = decimal.Decimal(0)
    uncertain: int = 0  #: requests that are charged in full, since nobody knows whether their servers have
    uncertain_usd: decimal.Decimal = decimal.Decimal(0)  #: of usd
    unpriced: int = 0  #: requests whose price nobody knows
    open: int = 0  #: calls under way
    held_usd: decimal.Decimal = decimal.Decimal(0)  #: for them, and not in usd

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "ModelUse":
        known = {f.name: data[f.name] for f in dataclasses.fields(cls) if f.name in data}
        for name in ("usd", "uncertain_usd", "held_usd"):
            known[name] = decimal.Decimal(str(data.get(name, 0)))
        return cls(**known)


@dataclass(frozen=True)
class ModelUsage:
    """What calls to models have used: rows, the dearest first, and all together."""

    rows: tuple[ModelUse, ...]
    total: ModelUse

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "ModelUsage":
        return cls(tuple(ModelUse.from_wire(r) for r in data.get("rows") or ()), ModelUse.from_wire(data.get("total") or {}))


@dataclass(frozen=True)
class Pause:
    """Why a process is paused."""

    kind: str  #: hand, budget, allowance, answer, no_progress, functions or other
    amount: str = ""  #: of which too little is left: usd, tokens, calls, turns or time
    budget: int = 0  #: the process whose budget it is
    namespace: str = ""  #: whose allowance it is
    until: Optional[datetime.datetime] = None  #: when the allowance begins anew

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Pause":
        return cls(data["kind"], data.get("amount", ""), data.get("budget", 0), data.get("namespace", ""), parse_time(data.get("until")))


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
    pause_note: str = ""  #: why, in words, if the kernel paused it
    paused_for: Optional[Pause] = None  #: why, for programs
    waits_for: tuple[str, ...] = ()
    exit_code: int = 0  #: 0, too, as long as it has not ended: see ``done`` and ``success``
    result: Any = None  #: value of the program's last expression
    error: Optional[KernelError] = None
    created: Optional[datetime.datetime] = None
    ended: Optional[datetime.datetime] = None
    deadline: Optional[datetime.datetime] = None  #: when it is asked to stop
    usage: Usage = field(default_factory=Usage)
    recoveries: int = 0
    left: tuple[str, ...] = ()  #: files that went with its sandbox, since it had no workspace
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
            paused_for=Pause.from_wire(data["paused_for"]) if data.get("paused_for") else None,
            waits_for=tuple(data.get("waits_for") or ()),
            exit_code=data.get("exit_code", 0),
            result=from_wire(data.get("result")),
            error=KernelError.from_wire(data["error"]) if data.get("error") else None,
            created=parse_time(data.get("created")),
            ended=parse_time(data.get("ended")),
            deadline=parse_time(data.get("deadline")),
            usage=Usage.from_wire(data.get("usage") or {}),
            recoveries=data.get("recoveries", 0),
            left=tuple(data.get("left", ())),
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
class Step:
    """One step of a task that a model does: a program that it wrote, or at the end its result, where ``program`` is empty. ``said`` is what the
    model said with it, ``pid`` the process of the program (0: it ran in that of the task). Texts are cut after 100,000 characters."""

    turn: int  #: which answer of the model it comes from, from 1
    said: str = ""
    program: str = ""
    output: str = ""  #: what the program printed
    error: str = ""  #: why it failed
    exit_code: int = 0
    result: Any = None  #: the value of its last expression, or the result of the task
    pid: int = 0


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
    cost_usd: Optional[float] = None  #: what a call costs; None: the tools file does not say
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
