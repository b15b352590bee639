"""Background tasks: each is a process of the kernel. It shows in ps, has limits, can be killed, and outlives the
interpreter that dispatched it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, Optional

from . import _sync
from ._tasks import Tasks, TaskStatus
from .agent import AgentHelper, create_agent
from .model import Event, Step
from .result import Result
from .spec import Span


class TaskManager:
    """Dispatches tasks of an agent and collects their results. A task's id is the PID of its process, so another
    interpreter can wait for it, too."""

    def __init__(self, agent: Optional[AgentHelper] = None) -> None:
        self.agent = agent if agent is not None else create_agent()
        self._tasks = Tasks(self.agent.agent)

    def __enter__(self) -> "TaskManager":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Tasks go on: they belong to the kernel. It is there for ``with``."""

    def dispatch_task(self, task: str, **options: Any) -> int:
        """Starts a task and gives its id; it is durable when this returns. A task that cannot be done (it needs a model,
        it does not parse) gets an id below zero, and its result says why. Options are ``timeout=``, the fields of :class:`Spec`,
        and ``schema=``, ``check=``, ``on_step=``, ``turns=``, ``agents=`` and ``model=`` of :meth:`AgentHelper.execute_task`; ``check`` and ``on_step``
        are called while the task is waited for."""
        return _sync.run(self._tasks.dispatch(task, options))

    def get_task_status(self, task_id: int) -> TaskStatus:
        """How a task stands."""
        return _sync.run(self._tasks.status(task_id))

    def wait_for_task(
        self,
        task_id: int,
        timeout: Optional[Span] = None,
        *,
        check: Optional[Callable[[Any], Any]] = None,
        on_step: Optional[Callable[[Step], Any]] = None,
    ) -> Result:
        """Waits for a task and gives its result. Raises Timeout after so many seconds, and KernelGone if the kernel ends
        meanwhile: then :meth:`recover` continues what was unfinished, and you wait again. ``check`` and ``on_step`` take the place of
        those with which the task was dispatched, here or by another interpreter."""
        return _sync.run(self._tasks.wait(task_id, timeout, check, on_step))

    def wait_for_all(self, task_ids: Optional[Iterable[int]] = None, timeout: Optional[Span] = None) -> list[Result]:
        """The results of these tasks, or of all of this manager, in order; the timeout is for each."""
        return [self.wait_for_task(i, timeout) for i in (self._tasks.ids() if task_ids is None else task_ids)]

    def list_tasks(self, *, all: bool = False) -> list[TaskStatus]:
        """The tasks of this manager; with ``all`` every process of the kernel, whoever started it."""
        return _sync.run(self._tasks.all(all))

    def cancel_task(self, task_id: int) -> bool:
        """Ends a task, its children and its sandbox. False if it had ended already."""
        return _sync.run(self._tasks.cancel(task_id))

    def stream_task(self, task_id: int) -> Iterator[Event]:
        """The events of a task from its beginning until it ends."""
        return _sync.iterate(self._tasks.events(task_id))

    def recover(self) -> list[TaskStatus]:
        """Continues all tasks that an ended kernel left unfinished; nothing that was done is repeated."""
        return _sync.run(self._tasks.recover())
