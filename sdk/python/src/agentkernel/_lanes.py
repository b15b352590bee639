"""Lanes: which of the things that run at the same time in a coroutine a call belongs to.

Each task is a lane. Its name says which task of which task it is, in the order in which they were created, so a program
that begins again has the same lanes, in whatever order they run. The lane is in a context variable; a task factory gives
each new task its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import weakref
from typing import Any, Callable, Coroutine, Iterator, Optional

from .errors import InvalidArgument

#: The kernel takes names of so many bytes.
_LONGEST = 200
_current: "contextvars.ContextVar[Optional[Lane]]" = contextvars.ContextVar("agentkernel_lane", default=None)


class Lane:
    """What runs one after the other. Its calls are numbered from 1."""

    __slots__ = ("host", "name", "issued", "children", "owner", "__weakref__")

    def __init__(self, host: Any, name: str) -> None:
        self.host, self.name = host, name
        self.issued = self.children = 0
        self.owner: Optional["weakref.ref[asyncio.Task[Any]]"] = None

    def child(self) -> "Lane":
        self.children += 1
        name = f"{self.name}.{self.children}" if self.name else str(self.children)
        if len(name.encode()) > _LONGEST:  # tasks of tasks of tasks ...
            name = "~" + hashlib.sha256(name.encode()).hexdigest()[:32]
        return Lane(self.host, name)

    def claim(self) -> None:
        """Checks that the task which runs is the one whose lane this is."""
        task = asyncio.current_task()
        if self.owner is None and task is not None:
            self.owner = weakref.ref(task)
        elif self.owner is None or self.owner() is not task:
            raise InvalidArgument(
                f"two tasks make calls in the lane {self.name!r}: their order is not the same each time",
                hint="a loop.set_task_factory() that came after host() takes the lanes away: set yours before; a named lane has one task at a time",
            )


class _First(Lane):
    """Stands for the lane that the next task is to have."""

    __slots__ = ("first",)

    def __init__(self, first: Lane) -> None:
        super().__init__(first.host, "")
        self.first = first

    def child(self) -> Lane:
        return self.first


def current(host: Any) -> Lane:
    """The lane that runs, which must be one of the host's."""
    lane = _current.get()
    if lane is None or lane.host is not host:
        raise InvalidArgument(
            "this call is made outside of the coroutine whose process it is about: nobody knows its place among the others",
            hint='with p.lane("name"): gives it one',
        )
    return lane


@contextlib.contextmanager
def within(lane: Optional[Lane]) -> Iterator[None]:
    """Calls are made in a lane; with None in none, so that tasks which the library needs do not count."""
    token = _current.set(lane)
    try:
        yield
    finally:
        _current.reset(token)


@contextlib.contextmanager
def named(lane: Lane) -> Iterator[None]:
    """Calls are made in a lane with a name of its own, which no other task uses at that time."""
    if lane.owner is not None:
        raise InvalidArgument(f"the lane {lane.name!r} is in use", hint="what runs at the same time needs lanes of different names")
    task = asyncio.current_task()
    if task is None:
        raise InvalidArgument("a lane is that of a task, and none runs here")
    lane.owner = weakref.ref(task)
    try:
        with within(lane):
            yield
    finally:
        lane.owner = None


def start(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], lane: Optional[Lane]) -> "asyncio.Task[Any]":
    """A task with this lane, or with none."""
    if not isinstance(loop.get_task_factory(), _Factory):
        loop.set_task_factory(_Factory(loop.get_task_factory()))
    with within(lane and _First(lane)):
        return loop.create_task(coroutine)


class _Factory:
    """Makes tasks as the factory before it did, each with a lane of its own."""

    def __init__(self, before: Optional[Callable[..., Any]]) -> None:
        self._before = before

    def __call__(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        lane = _current.get()
        if lane is None:
            return self._make(loop, coroutine, options)
        given: Optional[contextvars.Context] = options.get("context")
        context = contextvars.copy_context() if given is None else given.copy()
        context.run(_current.set, lane.child())
        if given is None:
            return context.run(self._make, loop, coroutine, options)  # the task copies the context in which it is made
        return self._make(loop, coroutine, {**options, "context": context})

    def _make(self, loop: asyncio.AbstractEventLoop, coroutine: Any, options: Any) -> Any:
        if self._before is not None:
            return self._before(loop, coroutine, **options)
        return asyncio.Task(coroutine, loop=loop, **options)
