"""Performs steps with asyncio."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, AsyncIterator, Optional, TypeVar

from . import _lanes, _steps
from ._steps import Steps
from ._sync import check_peer, refused
from .errors import KernelError, PermissionDenied

T = TypeVar("T")

_Handle = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Run:
    """One run of steps, with the connections that it opened."""

    def __init__(self) -> None:
        self._open: list[_Handle] = []

    async def close(self) -> None:
        for _, writer in self._open:
            writer.close()

    async def perform(self, step: Any) -> Any:
        if isinstance(step, _steps.Receive):
            return await self._receive(step)
        if isinstance(step, _steps.Send):
            try:
                step.handle[1].write(step.data)
                return await step.handle[1].drain()
            except OSError as e:
                raise _steps.ConnectionCut(str(e)) from None
        if isinstance(step, _steps.Connect):
            return await self._connect(step.path)
        if isinstance(step, _steps.Close):
            step.handle[1].close()
            self._open.remove(step.handle)
            return None
        if isinstance(step, _steps.Call):
            return await asyncio.to_thread(step.function)
        if isinstance(step, _steps.Notify):
            answer = step.callback(step.value)
            return await answer if inspect.isawaitable(answer) else answer
        if isinstance(step, _steps.Loop):
            return asyncio.get_running_loop()
        await asyncio.sleep(step.seconds)
        return None

    async def _connect(self, path: str) -> _Handle:
        try:
            reader, writer = await asyncio.open_unix_connection(path)
        except OSError as e:
            raise refused(e, path) from None
        self._open.append((reader, writer))
        check_peer(writer.get_extra_info("socket"), path)
        return reader, writer

    async def _receive(self, step: _steps.Receive) -> bytes:
        try:
            read = step.handle[0].read(1 << 18)
            if step.timeout is None:
                data: bytes = await read
            else:
                with _lanes.within(None):  # it may make a task
                    data = await asyncio.wait_for(read, step.timeout)
            return data
        except (TimeoutError, asyncio.TimeoutError):
            raise TimeoutError from None
        except PermissionDenied:
            raise
        except OSError as e:
            raise _steps.ConnectionCut(str(e)) from None


async def run(steps: Steps[T]) -> T:
    """Performs steps to the end and gives what they return."""
    items = _Iteration(steps)
    try:
        async for _ in items:
            pass
    except KernelError as e:
        raise e.with_traceback(None) from None  # the way through the library is no news to its user
    result: T = items.result
    return result


def iterate(steps: Steps[Any]) -> AsyncIterator[Any]:
    """Gives what the steps emit."""
    return _Iteration(steps).__aiter__()


class _Iteration:
    def __init__(self, steps: Steps[Any]) -> None:
        self._steps = steps
        self.result: Any = None

    async def __aiter__(self) -> AsyncIterator[Any]:
        r = Run()
        answer: Any = None
        failure: Optional[BaseException] = None
        try:
            while True:
                try:
                    step = self._steps.send(answer) if failure is None else self._steps.throw(failure)
                except StopIteration as end:
                    self.result = end.value
                    return
                answer, failure = None, None
                if isinstance(step, _steps.Emit):
                    yield step.value
                    continue
                try:
                    answer = await r.perform(step)
                except Exception as e:
                    failure = e
        finally:
            await r.close()
