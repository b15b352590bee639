"""What the library wants done in the outside world. All logic is written as generators that yield these steps;
``_sync`` performs them with sockets, ``_async`` with asyncio. So both clients are one implementation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Generator, Optional, TypeVar

T = TypeVar("T")


class NobodyListens(Exception):
    """There is no socket, or nobody behind it."""


class ConnectionCut(Exception):
    """The connection ended before the answer was complete."""


@dataclass(frozen=True)
class Connect:
    """Open a connection to a unix socket; gives a handle. Raises NobodyListens or KernelError."""

    path: str


@dataclass(frozen=True)
class Send:
    """Write bytes. Raises ConnectionCut."""

    handle: Any
    data: bytes


@dataclass(frozen=True)
class Receive:
    """Read some bytes; empty at the end. Raises ConnectionCut, or TimeoutError after ``timeout`` seconds."""

    handle: Any
    timeout: Optional[float] = None


@dataclass(frozen=True)
class Close:
    """Close a connection early; those that are open at the end are closed anyway."""

    handle: Any


@dataclass(frozen=True)
class Call:
    """Run a function that may block: files, the binary."""

    function: Callable[[], Any]


@dataclass(frozen=True)
class Notify:
    """Hand something to the user's callback, which may be a coroutine function for the async client."""

    callback: Callable[[Any], Any]
    value: Any


@dataclass(frozen=True)
class Loop:
    """Say which event loop performs the steps; None: a thread does, which waits."""


@dataclass(frozen=True)
class Pause:
    """Wait a moment."""

    seconds: float


@dataclass(frozen=True)
class Emit:
    """Give one item to whoever iterates."""

    value: Any


#: A piece of logic: yields steps, is sent their results, returns a T.
Steps = Generator[Any, Any, T]


def redirect(steps: Steps[T], take: Callable[[Any], Steps[None]]) -> Steps[T]:
    """Performs steps, and hands what they emit to ``take`` instead of emitting it."""
    answer: Any = None
    failure: Optional[BaseException] = None
    while True:
        try:
            step = steps.send(answer) if failure is None else steps.throw(failure)
        except StopIteration as end:
            result: T = end.value
            return result
        answer, failure = None, None
        try:
            if isinstance(step, Emit):
                yield from take(step.value)
            else:
                answer = yield step
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as e:
            failure = e
