"""Tasks in plain language that a model does, as steps. No input or output happens here.

The loop is a program of the kernel, the same as that of ``agentkernel do``. What it tells is in its log, and what is said of its results comes to
it as signals: both are in its journal.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from ._kernel import Callback, Kernel
from ._span import span
from ._steps import Call, Notify, Steps, redirect
from .errors import Conflict, InvalidArgument, KernelError, Timeout, in_python
from .model import Event, Process, Step
from .spec import Span, whole
from .values import from_wire, parse

log = logging.getLogger("agentkernel")

#: Where programs come from that are the loop of a task.
MODE = "model"

#: How the loop says that there is no result.
_NOT_DONE = "the task is not done: "

#: How often a task is looked at whose steps somebody hears, in seconds: at first, and at the longest.
_SOON, _LATER = 0.02, 1.0

#: How long it is waited for where nobody says.
_EVER = 365 * 86400.0


@dataclass(frozen=True)
class Asked:
    """How a model is to do a task."""

    model: str = ""
    schema: Optional[Mapping[str, Any]] = None
    check: Callback = None
    on_step: Callback = None
    turns: Optional[int] = None
    agents: Optional[int] = None

    @classmethod
    def take(cls, options: Mapping[str, Any]) -> "tuple[Asked, dict[str, Any]]":
        """What of the options is about this, checked, and the others."""
        left = dict(options)
        given = {name: left.pop(name) for name in ("model", "schema", "check", "on_step", "turns", "agents") if name in left}
        asked = cls(**{name: value for name, value in given.items() if value is not None})
        if not isinstance(asked.model, str):
            raise InvalidArgument(f"model={asked.model!r} is not a text", hint="the alias of a model that is declared")
        if asked.schema is not None and not isinstance(asked.schema, Mapping):
            raise InvalidArgument(f"schema={asked.schema!r} is not a dict", hint='a JSON Schema, such as {"type": "number"}')
        for name, function in (("check", asked.check), ("on_step", asked.on_step)):
            if function is not None and not callable(function):
                raise InvalidArgument(f"{name}={function!r} is not a function")
        if asked.turns is not None:
            whole(asked.turns, "turns")
        if asked.agents is not None:
            whole(asked.agents, "agents")
        return asked, left

    def of_results(self) -> list[str]:
        """What it asks for that a model alone can do."""
        return [f"{name}=" for name in ("model", "schema", "check", "agents") if getattr(self, name)]

    def bounded(self, options: Mapping[str, Any], turns: int) -> dict[str, Any]:
        """The options with what the task may spend; turns is how many there are where nobody says, 0: nobody counts them."""
        bounded = dict(options)
        budget = bounded.get("budget")
        if budget is not None and not isinstance(budget, Mapping):
            return bounded  # it is refused with all else
        if self.turns is not None and (budget or {}).get("turns") is not None:
            raise InvalidArgument('turns= and budget={"turns": ...} are the same bound', hint="leave one of them out")
        most = self.turns if self.turns is not None else (budget or {}).get("turns") or turns
        if most:
            bounded["budget"] = {**(budget or {}), "turns": most}
        if turns:  # one that waits for more would hang where nobody looks
            bounded["on_budget"] = bounded.get("on_budget") or "raise"
        return bounded

    def of(self, mode: str) -> "Asked":
        """What it asks for of a program that comes from there."""
        return self if mode == MODE else Asked()

    def wire(self, task: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """What the kernel is asked for."""
        body: dict[str, Any] = {"task": task, "spec": spec, "steps": self.on_step is not None, "checked": self.check is not None}
        if self.model:
            body["model"] = self.model
        if self.schema is not None:
            body["schema"] = self.schema
        if self.agents:
            body["agents"] = self.agents
        return body


@dataclass
class Told:
    """What a task tells: steps for ``on_step``, results for ``check``."""

    kernel: Kernel[Any]
    asked: Asked
    seen: int = 0
    turn: int = 0
    said: str = ""  #: by the model in that turn
    code: str = ""  #: of the program that was started last
    answered: set[int] = field(default_factory=set)
    waiting: Optional[Mapping[str, Any]] = None  #: the result that waits for what the check says

    def __bool__(self) -> bool:
        return self.asked.check is not None or self.asked.on_step is not None

    def heard(self, event: Event) -> Steps[None]:
        """Takes an event as it comes."""
        self.seen = max(self.seen, event.seq)
        step = _told(event)
        kind = step.get("kind")
        if kind == "turn":
            self.turn, self.said = step.get("turn") or 0, step.get("text") or ""
        elif kind == "program":
            self.code = step.get("code") or ""
        elif kind in ("output", "result") and self.asked.on_step is not None:
            yield Notify(self.asked.on_step, self._step(step))
        elif kind == "checked":
            self.answered.add(step.get("number") or 0)
        elif kind == "check":
            self.waiting = step
            yield from self._check(event.pid)

    def _step(self, step: Mapping[str, Any]) -> Step:
        """A program that has ended, or the result."""
        if step["kind"] == "result":
            return Step(self.turn, self.said, result=from_wire(step.get("result")))
        value = step.get("value") or "null"
        try:
            result = from_wire(parse(value))
        except KernelError:  # it was cut
            result = value
        return Step(self.turn, self.said, self.code, step.get("text") or "", step.get("error") or "", step.get("exit_code") or 0, result, step.get("program_pid") or 0)

    def _check(self, pid: int) -> Steps[None]:
        """Checks the result that waits, if there is one, and says so to the task."""
        number = self.waiting.get("number") if self.waiting is not None else None
        if self.waiting is None or not isinstance(number, int) or number in self.answered or self.asked.check is None:
            return
        try:
            wrong = _wrong(self.asked.check, (yield Notify(self.asked.check, from_wire(self.waiting.get("result")))))
        except Exception as e:
            _name_in(e, pid)
            raise
        try:
            yield from self.kernel.signal(pid, "user", payload={"result": number, "wrong": wrong})
        except Conflict:
            process = yield from self.kernel.process(pid)
            if not process.done:  # its kernel has ended meanwhile
                raise
        self.answered.add(number)

    def catch_up(self, pid: int) -> Steps[bool]:
        """Hears what the task has told since it was heard last; whether that was anything."""
        events: list[Event] = []

        def take(event: Event) -> Steps[None]:
            events.append(event)
            yield from ()

        yield from redirect(self.kernel.events(pid, self.seen + 1, False, ("log",)), take)
        steps = [_told(e) for e in events]
        self.answered.update(step.get("number") or 0 for step in steps if step.get("kind") == "checked")
        yield from self._check(pid)  # of an earlier wait that broke off
        for event in events:
            yield from self.heard(event)
        return bool(events)

    def wait(self, pid: int, timeout: Optional[Span]) -> Steps[Process]:
        """Waits for the end of a task, and hears meanwhile what it tells."""
        left = _EVER if timeout is None else max(span(timeout, "timeout"), 0)
        end = left + (yield Call(time.monotonic))
        pause = _SOON
        while True:
            pause = _SOON if (yield from self.catch_up(pid)) else min(2 * pause, _LATER)
            left = end - (yield Call(time.monotonic))
            try:
                process = yield from self.kernel.wait(pid, min(left, pause))
            except Timeout as e:
                if left > pause:
                    continue
                raise _after(e, timeout) from None
            yield from self.catch_up(pid)
            return process


def _after(error: Timeout, timeout: Optional[Span]) -> Timeout:
    """The error of somebody who has waited so long in all."""
    said = error.message.partition(" has not ended")[0]
    return Timeout(f"{said} has not ended within {span(timeout or 0, 'timeout'):g} s; it goes on", op=error.op, pid=error.pid, hint=error.hint)


def _told(event: Event) -> Mapping[str, Any]:
    """A step of a task, as its log has it; nothing, if it is another line. In a folder, programs of the model may write lines that are none."""
    _, _, text = event.text.partition(": ")
    if event.kind != "log" or not text.startswith('{"') or '"kind":' not in text:
        return {}
    try:
        step = parse(text)
    except KernelError:
        return {}
    sound = isinstance(step, Mapping) and all(step.get(name) is None or isinstance(step[name], kind) for name, kind in _FIELDS.items())
    return step if sound else {}


#: What the fields of a step are, as far as they matter here.
_FIELDS = {"kind": str, "turn": int, "number": int, "text": str, "code": str, "error": str, "exit_code": int, "value": str, "program_pid": int}


def _wrong(check: Callable[[Any], Any], said: Any) -> str:
    """What is wrong with a result, as a check has said it; "": nothing."""
    if said is None or said is True:
        return ""
    if said is False:
        return "the check of the result says no"
    if isinstance(said, str):
        return said.strip().rstrip(".")
    raise InvalidArgument(f"check={check!r} returned {said!r}", hint="True or None accept a result, a text says what is wrong with it")


def _name_in(error: BaseException, pid: int) -> None:
    """A check has failed; the task waits with its result."""
    says = f"process {pid} waits until its result is checked: TaskManager().wait_for_task({pid}, check=...) does it, client.kill({pid}) ends it"
    if hasattr(error, "add_note"):  # Python 3.11
        error.add_note(says)
    else:
        log.warning(says)


def explain(error: Any, stderr: str) -> None:
    """Has the error of a task that has no result say why."""
    said = [line for line in stderr.splitlines() if line.startswith(_NOT_DONE)]
    if error is not None and said and error.code == "program_error":
        error.message = in_python(said[-1])
        error.args = (error.message,)
