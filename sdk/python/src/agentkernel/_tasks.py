"""What task managers do, as steps. No input or output happens here."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, field
from typing import Any, Generic, Iterator, Mapping, Optional

from ._agent import Agent, Planned, finish
from ._bymodel import Asked, Told
from ._kernel import Callback, Refusal, check_pid, keyed
from ._result import R
from ._steps import Steps
from .errors import Conflict, KernelError, KernelGone, Unsupported
from .model import Process
from .spec import Span

#: Ids of tasks that were refused: they have no process, and no other manager of this interpreter has the same.
_refused_ids = itertools.count(-1, -1)


def _short(task: str) -> str:
    return " ".join(task.split())[:100]


#: How a task stands, from how its process stands.
_STATUS = {"ready": "pending", "running": "running", "waiting": "running", "unfinished": "unfinished", "failed": "failed"}


@dataclass(frozen=True)
class TaskStatus:
    """How a background task stands. Its id is the PID of its process; below zero it was refused and has none."""

    task_id: int
    status: str  #: pending, running, paused, completed, failed, cancelled or unfinished
    description: str = ""
    process: Optional[Process] = field(default=None, repr=False)
    refusal: Optional[KernelError] = field(default=None, repr=False)  #: why it never became a process

    @property
    def done(self) -> bool:
        """The task has ended, well or badly."""
        return self.status in ("completed", "failed", "cancelled")

    @property
    def error(self) -> Optional[KernelError]:
        """Why it failed or was cancelled."""
        return self.process.error if self.process else self.refusal

    @classmethod
    def of(cls, process: Process, description: str) -> "TaskStatus":
        if process.state == "exited":
            status = "completed" if process.success else "failed"
        elif process.state == "killed":
            limit = process.error is not None and process.error.code in ("limit_exceeded", "crashed")
            status = "failed" if limit else "cancelled"
        else:
            status = "paused" if process.paused else _STATUS[process.state]
        return cls(process.pid, status, description or process.name, process)


@dataclass(frozen=True)
class _Refused:
    description: str
    mode: str
    error: KernelError


@dataclass
class _Dispatched:
    description: str
    planned: Planned
    name: str
    moved: int
    snapshot: Mapping[str, Any]
    told: Told
    key: Optional[str]  #: the idempotency key of its process
    collected: bool = False


class Tasks(Generic[R]):
    """Background tasks of an agent: each is a process."""

    def __init__(self, agent: Agent[R]) -> None:
        self.agent = agent
        self.kernel = agent.kernel
        self.known: dict[int, _Dispatched] = {}
        self.refusals: dict[int, _Refused] = {}

    def ids(self) -> list[int]:
        """The tasks of this manager in the order in which they were dispatched; those that were refused come first."""
        return [*sorted(self.refusals, reverse=True), *sorted(self.known)]

    def dispatch(self, task: str, options: Mapping[str, Any]) -> Steps[int]:
        """What is wrong with the task is in its result, as for a task that is not dispatched."""
        asked, options = Asked.take(options)
        try:
            planned = yield from self.agent.plan(task, asked, options)
        except Unsupported as e:
            return self._refuse(task, "template", e)
        spec, snapshot, moved = yield from self.agent.spec(planned, asked.bounded(options, planned.turns))
        spec = keyed(spec)
        try:
            process = yield from self.kernel.create(spec)
        except Refusal as e:
            return self._refuse(task, planned.mode, e.error)
        self.known[process.pid] = _Dispatched(planned.title or _short(task), planned, spec.name, moved, snapshot, Told(self.kernel, asked.of(planned.mode)), spec.idempotency_key)
        return process.pid

    def _refuse(self, task: str, mode: str, error: KernelError) -> int:
        task_id = next(_refused_ids)
        self.refusals[task_id] = _Refused(_short(task), mode, error)
        return task_id

    def refusal(self, task_id: Any) -> Optional[_Refused]:
        """Why a task never became a process; None: it did."""
        try:
            return self.refusals.get(int(task_id))
        except (TypeError, ValueError, OverflowError):
            return None

    def status(self, task_id: Any) -> Steps[TaskStatus]:
        if (refused := self.refusal(task_id)) is not None:
            return TaskStatus(int(task_id), "failed", refused.description, refusal=refused.error)
        process = yield from self.kernel.process(task_id)
        return TaskStatus.of(process, self._description(process.pid))

    def _description(self, pid: int) -> str:
        return self.known[pid].description if pid in self.known else ""

    def wait(self, task_id: Any, timeout: Optional[Span], check: Callback = None, on_step: Callback = None) -> Steps[R]:
        if (refused := self.refusal(task_id)) is not None:
            result = self.agent.refused(refused.error)
            result.mode = refused.mode
            return result
        task = self.known.get(pid := check_pid(task_id))
        told = task.told if task is not None else Told(self.kernel, Asked())
        given, _ = Asked.take({"check": check or told.asked.check, "on_step": on_step or told.asked.on_step})
        told.asked = given
        with self._named():
            process = yield from (told.wait(pid, timeout) if told else self.kernel.wait(pid, timeout))
            result = yield from self.kernel.collect(process)
        if task is None:
            return result
        if process.done and not task.collected:
            task.collected = True
            yield from self.agent.take_state(process.pid, task.snapshot, task.key)
        return finish(result, task.planned, task.name, task.moved)

    def all(self, everybody: bool) -> Steps[list[TaskStatus]]:
        if everybody:
            processes = yield from self.kernel.ps(True, self.agent.settings.namespace, 0, 0)
        else:
            found = []
            for task_id in self.ids():
                status = yield from self.status(task_id)
                found.append(status)
            return found
        return [TaskStatus.of(p, self._description(p.pid)) for p in processes]

    def cancel(self, task_id: Any) -> Steps[bool]:
        if self.refusal(task_id) is not None:
            return False
        pid = check_pid(task_id)
        try:
            yield from self.kernel.signal(pid, "kill")
        except Conflict:
            return False
        return True

    def events(self, task_id: Any) -> Steps[None]:
        if (refused := self.refusal(task_id)) is not None:
            raise refused.error
        with self._named():
            yield from self.kernel.events(task_id, 1, True)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Adds the key of a task to what says that its kernel is gone: the same dispatch with it makes no second process."""
        try:
            yield
        except KernelGone as e:
            if (task := self.known.get(e.pid)) is not None:
                e.idempotency_key = task.key or ""
            raise

    def recover(self) -> Steps[list[TaskStatus]]:
        processes = yield from self.kernel.recover(None)
        return [TaskStatus.of(p, self._description(p.pid)) for p in processes]
