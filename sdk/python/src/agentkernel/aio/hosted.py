"""Coroutines as processes: :meth:`Client.host` makes an async function of your program a process of the kernel."""

from __future__ import annotations

import asyncio
import logging
import re
import weakref
from typing import Any, Awaitable, Callable, ContextManager, Generator, Optional

from .. import _async, _hosted, _kernel, _lanes
from .._http import Response
from .._steps import ConnectionCut, NobodyListens
from .._sync import check_peer
from ..errors import BinaryNotFound, Conflict, Fenced, InvalidArgument, KernelError, PermissionDenied, Unavailable
from ..model import Process
from .._span import span
from ..spec import Span
from ..values import from_wire

log = logging.getLogger("agentkernel")

#: How long a kernel that accepts connections may take to say whether one is the host.
_PATIENCE = 5.0
#: How long a host before may take to be gone: its program was killed, and the kernel has not heard of it yet.
_GOING = 3.0
#: After how long it is looked why a call has no answer yet.
_TELLS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0

#: One coroutine of a loop asks whether a kernel is there, and starts it if need be; the others wait for it.
_asking: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]" = weakref.WeakKeyDictionary()


class HostedProcess:
    """The process that a coroutine is, as the coroutine sees it: each call is in the journal, and is answered from there when
    the program begins again. Calls are made by the coroutine and by tasks that it creates."""

    def __init__(self, host: "_Host", name: str) -> None:
        self._host = host
        self.name = name

    def __repr__(self) -> str:
        return f"HostedProcess(pid={self.pid}, name={self.name!r})"

    @property
    def pid(self) -> int:
        """The PID; the same when the program begins again with the same key."""
        return self._host.pid

    async def call(self, op: str, /, **args: Any) -> Any:
        """Any system call of docs/syscalls.md: ``await p.call("state.set", key="k", value=1)``."""
        return from_wire(await self._host.issue(_lanes.current(self._host), op, args, True))

    async def tool(self, name: str, /, **arguments: Any) -> Any:
        """Calls a tool of an MCP server: ``await p.tool("files.read_file", path="a.txt")``."""
        return await self.call("tool.call", **tool(name, arguments))

    async def sleep(self, seconds: float) -> None:
        """Waits. What is left of it when the program begins again is waited then."""
        await self.call("time.sleep", seconds=seconds)

    async def now(self) -> float:
        """Seconds since 1970, the same when the program begins again."""
        seconds: float = await self.call("time.now")
        return seconds

    async def log(self, message: Any, level: str = "info") -> None:
        """Writes a line to the process's log."""
        await self.call("log.write", message=message, level=level)

    def lane(self, name: str) -> ContextManager[None]:
        """``with p.lane("a name"):`` numbers the calls in it by themselves. For tasks that are not created in the same order each
        time, and for those that the coroutine has not created. What runs at the same time needs lanes of different names."""
        return _lanes.named(self._host.lane(name))

    @property
    def blocking(self) -> "BlockingProcess":
        """The same for a function that ``asyncio.to_thread`` runs: its calls block, and belong to the task that waits for it."""
        return BlockingProcess(self._host)


class BlockingProcess:
    """The calls of a :class:`HostedProcess` for a thread that ``asyncio.to_thread`` has started."""

    def __init__(self, host: "_Host") -> None:
        self._host = host

    def call(self, op: str, /, **args: Any) -> Any:
        """Any system call of docs/syscalls.md."""
        lane = _lanes.current(self._host)
        with _lanes.within(None):  # the task that makes the call is not one of the program's
            answer = asyncio.run_coroutine_threadsafe(self._host.issue(lane, op, args, False), self._host.loop)
        return from_wire(answer.result())

    def tool(self, name: str, /, **arguments: Any) -> Any:
        """Calls a tool of an MCP server."""
        return self.call("tool.call", **tool(name, arguments))

    def sleep(self, seconds: float) -> None:
        """Waits."""
        self.call("time.sleep", seconds=seconds)

    def log(self, message: Any, level: str = "info") -> None:
        """Writes a line to the process's log."""
        self.call("log.write", message=message, level=level)


def tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of tool.call."""
    server, dot, short = name.partition(".")
    if not dot:
        raise InvalidArgument(f"{name!r} is not the name of a tool", hint='"server.tool"; if a name has dots: p.call("tool.call", server=..., tool=..., arguments={...})')
    return {"server": server, "tool": short, "arguments": arguments}


class HostedTask:
    """A coroutine that is a process of the kernel. ``await task`` waits for its result, as ``await task.result()`` does; as with a task
    of asyncio, whoever is cancelled while he waits for it cancels it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._task: Optional["asyncio.Task[Process]"] = None  # None: it had ended before

    def __repr__(self) -> str:
        return f"HostedTask(pid={self.pid}, name={self.name!r}, done={self.done()})"

    def __await__(self) -> Generator[Any, None, Any]:
        return self.result().__await__()

    @property
    def pid(self) -> int:
        """The PID."""
        return self._process.pid

    @property
    def name(self) -> str:
        """The name of the process."""
        return self._process.name

    def done(self) -> bool:
        """Whether the process has ended, or this program is its host no more."""
        return self._task is None or self._task.done()

    def cancel(self) -> bool:
        """Cancels the coroutine and lets go of the process, which waits for its host: it is taken up by the same ``key``. To end
        the process: ``await client.kill(task.pid)``. False: it is done already."""
        return self._task is not None and self._task.cancel()

    async def process(self) -> Process:
        """Waits for the end, and returns the process as it ended, well or badly. Raises Fenced if another program has taken it over,
        and CancelledError after :meth:`cancel`."""
        if self._task is not None:
            self._process = await self._task
        return self._process

    async def result(self) -> Any:
        """Waits for the end and returns what the coroutine returned, as the kernel has it: plain data. Raises ProgramError if the
        coroutine raised (its exception is the ``__cause__``), Killed if the process was killed, and whatever else ended it."""
        process = await self.process()
        error = _hosted.failure(process)
        if error is not None:
            raise error.with_traceback(None) from error.__cause__
        return process.result


class Hosting:
    """What a client for asyncio has more than one that blocks."""

    kernel: _kernel.Kernel[Any]

    async def host(
        self,
        name: str,
        function: Callable[..., Awaitable[Any]],
        /,
        *args: Any,
        key: str = "",
        takeover: bool = False,
        patience: Optional[Span] = None,
        **options: Any,
    ) -> HostedTask:
        """Runs ``function(p, *args)``, an async function, as a process: ``p`` is its :class:`HostedProcess`. With the same ``key`` a
        program that begins again has the same process: its calls are answered from the journal, and one that has ended is not run: its result is
        given, whatever ``args`` are, which the kernel does not see. So what they say belongs into the key. If the
        connection breaks or the kernel ends, it goes on when there is a kernel again; with ``patience`` it fails after so many seconds without one.
        ``takeover`` takes the process from a program that hosts it, else that is Conflict. Options are those of :class:`Spec`."""
        if not callable(function):
            raise InvalidArgument(f"{function!r} is not an async function")
        spec = _kernel.keyed(_hosted.spec_of(name, key, options))
        waits = None if patience is None else span(patience, "patience")
        with _lanes.within(None):  # what the client does has no place among the calls of a coroutine that uses it
            try:
                process = await _async.run(self.kernel.create(spec))
            except _kernel.Refusal as e:
                raise e.error from None
            task = HostedTask(process)
            host = _Host(self.kernel, process.pid, waits)
            ended = process if process.done else await host.attach(takeover)
        if ended is not None:
            task._process = ended
        else:
            p = HostedProcess(host, process.name)
            task._task = _lanes.start(host.loop, host.run(_body(function, p, args)), None)
        return task


async def _body(function: Callable[..., Awaitable[Any]], p: HostedProcess, args: tuple[Any, ...]) -> Any:
    return await function(p, *args)


class _Host:
    """Hosts one process, over one connection after another."""

    def __init__(self, kernel: _kernel.Kernel[Any], pid: int, patience: Optional[float]) -> None:
        self.kernel, self.pid, self.patience = kernel, pid, patience
        self.loop = asyncio.get_running_loop()
        self.epoch = 0
        self.link: Optional[_Link] = None
        #: The calls without an answer in the order in which they were made: operation, line, who waits.
        self._open: dict[tuple[str, int], tuple[str, bytes, "asyncio.Future[Any]"]] = {}
        self._end: Optional[bytes] = None
        self._over: Optional[KernelError] = None  # why no call is made any more
        self._ended: Optional[Process] = None
        self._dismissed = False  # the kernel was ended by somebody, so none is started in its place
        self._named: dict[str, _lanes.Lane] = {}

    def lane(self, name: str) -> _lanes.Lane:
        """The lane of a name."""
        if not isinstance(name, str) or not name or name.replace(".", "").isdecimal() or name.startswith("~"):
            raise InvalidArgument(f"{name!r} is not a name for a lane", hint="a text that is no number and does not begin with ~: tasks have such lanes")
        if len(name.encode("utf-8", "replace")) > 150 or not name.isprintable():
            raise InvalidArgument(f"the name of a lane is at most 150 bytes of printable text: {name[:50]!r}")
        return self._named.setdefault(name, _lanes.Lane(self, name))

    async def issue(self, lane: _lanes.Lane, op: str, args: dict[str, Any], by_task: bool) -> Any:
        """Makes the next call of a lane and waits for its result."""
        if by_task:
            lane.claim()
        if self._over is not None:
            raise self._over
        number = lane.issued + 1
        line = _hosted.call(lane.name, number, op, args)
        answer: "asyncio.Future[Any]" = self.loop.create_future()
        lane.issued = number
        self._open[lane.name, number] = op, line, answer
        if self.link is not None:
            self.link.write(line)
        return await answer

    def take(self, message: dict[str, Any]) -> None:
        """Takes what the kernel says."""
        if "lane" in message:
            self._answer((message["lane"], message["n"]), message)
        elif "ended" in message:
            self._finish(Process.from_wire(message["ended"]))
        elif "failure" in message:
            error = KernelError.from_wire(message["failure"])
            error.pid = error.pid or self.pid
            if error.code == "unavailable":
                self._dismissed = True
            elif error.code != "timeout":
                self._over = error

    def _answer(self, place: tuple[str, int], message: dict[str, Any]) -> None:
        error = message.get("error")
        if error is not None and error.get("code") == "killed":
            return  # the process has ended: the kernel says how, and the coroutine is cancelled
        op, _, answer = self._open.get(place, ("", b"", None))
        if error is None and op == "proc.exit":
            return  # nothing after it runs
        self._open.pop(place, None)
        if answer is None or answer.done():
            return  # nobody waits for it any more
        if error is None:
            answer.set_result(message.get("result"))
        else:
            answer.set_exception(KernelError.from_wire(error))

    def _finish(self, process: Process) -> None:
        self._ended = process
        self._over = _hosted.failure(process) or Conflict(f"process {self.pid} has ended", pid=self.pid)

    # Connections

    async def attach(self, takeover: bool = False) -> Optional[Process]:
        """Becomes the host, however long that takes; the process if it has ended meanwhile."""
        pause, begin = _FIRST_PAUSE, self.loop.time()
        conflict = 0.0
        while True:
            failed: Exception
            try:
                process = await self._look()
                if process.done:
                    self._finish(process)
                    return process
                link = await self._dial(takeover)
                break
            except (Fenced, PermissionDenied, BinaryNotFound):
                raise
            except Conflict as e:  # it has a host; or it ended, or the kernel did, since it was looked at
                conflict, failed = conflict or self.loop.time(), e
                if self.loop.time() - conflict > _GOING:
                    raise
            except (Unavailable, ConnectionCut, NobodyListens, OSError) as e:
                conflict, failed = 0.0, e
            if self.patience is not None and self.loop.time() - begin > self.patience:
                raise Unavailable(f"there is no kernel that has process {self.pid}: {failed}", pid=self.pid, op="attach") from failed
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        self._dismissed = False
        if not link.closed.done():
            self.link = link
        for _, line, _ in self._open.values():
            link.write(line)
        if self._end is not None:
            link.write(self._end)
        return None

    async def _look(self) -> Process:
        """The process; a kernel is started if none runs."""
        start = self.kernel.start and not self._dismissed
        async with _asking.setdefault(self.loop, asyncio.Lock()):
            data = await _async.run(self.kernel.ask("attach", "GET", f"/processes/{self.pid}", pid=self.pid, start=start))
        return Process.from_wire(data)

    async def _dial(self, takeover: bool) -> "_Link":
        path = self.kernel.socket
        _, link = await self.loop.create_unix_connection(lambda: _Link(self), path)
        try:
            check_peer(link.transport.get_extra_info("socket"), path)
            link.write(_hosted.attach(self.pid, self.epoch, takeover))
            attached = await asyncio.wait_for(link.attached, _PATIENCE)
        except BaseException as e:
            link.transport.abort()
            if isinstance(e, asyncio.TimeoutError):
                raise Unavailable("the kernel does not answer") from None
            raise
        self.epoch = attached["epoch"]
        link.beats(attached["beat"])
        return link

    # The life of the coroutine

    async def run(self, coroutine: Any) -> Process:
        """Runs the coroutine to its end, or to that of the process."""
        body = _lanes.start(self.loop, coroutine, _lanes.Lane(self, ""))
        keeper = self.loop.create_task(self._keep())
        teller = self.loop.create_task(self._tell())
        try:
            await asyncio.wait((body, keeper), return_when=asyncio.FIRST_COMPLETED)
            error: Optional[BaseException] = None
            if not keeper.done():
                if body.cancelled():
                    raise asyncio.CancelledError
                error = body.exception()
                if error is not None and not isinstance(error, Exception):
                    raise error  # the program ends, and the process waits for it
                self._end, error = _hosted.ended(None if error else body.result(), error)
                if self.link is not None:
                    self.link.write(self._end)
            process = await keeper
        finally:
            self._over = self._over or Unavailable(f"process {self.pid} has no host any more", pid=self.pid)
            keeper.cancel()
            teller.cancel()
            body.cancel()
            if self.link is not None:
                self.link.transport.close()
            if not body.done():
                await asyncio.wait((body,))
            self._give_up()
        if process.error is not None:
            process.error.__cause__ = error
        return process

    async def _tell(self) -> None:
        """Says in the log why a call takes long, once for each reason: whoever waits for the coroutine sees nothing else."""
        said = ""
        while True:
            await asyncio.sleep(_TELLS)
            if not self._open or self.link is None:
                continue
            try:
                data = await _async.run(self.kernel.ask("attach", "GET", f"/processes/{self.pid}", pid=self.pid, start=False))
            except (KernelError, ConnectionCut, NobodyListens, OSError):
                continue  # the connection tells
            why = _hosted.waiting(Process.from_wire(data))
            reason = re.sub(r"[\d.,]+", "", why)  # without the times, which change
            if why and reason != said:
                log.warning("process %d: %s; agentkernel why %d says what helps", self.pid, why, self.pid)
            said = reason

    def _give_up(self) -> None:
        """Tells the tasks that still wait for an answer."""
        for _, _, answer in self._open.values():
            if not answer.done() and self._over is not None:
                answer.set_exception(self._over)
                answer.exception()  # who has gone does not ask for it
        self._open.clear()

    async def _keep(self) -> Process:
        """Attaches again whenever the connection breaks, until the process has ended."""
        while True:
            if self.link is not None:
                await self.link.closed
            if self._ended is not None:
                return self._ended
            if self._over is not None:
                raise self._over
            log.info("process %d: the connection to the kernel broke, attaching again", self.pid)
            try:
                await self.attach()
            except KernelError as e:
                self._over = e
                raise


class _Link(asyncio.Protocol):
    """One connection of a host."""

    transport: asyncio.Transport

    def __init__(self, host: _Host) -> None:
        self._host = host
        self._reader = _hosted.Reader()
        self.attached: "asyncio.Future[dict[str, Any]]" = host.loop.create_future()
        self.closed: "asyncio.Future[None]" = host.loop.create_future()
        self._beat = 0.0
        self._timer: Optional[asyncio.TimerHandle] = None
        self._silent = 0  # beats since something was heard
        self._said = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def write(self, line: bytes) -> None:
        self._said = True
        if not self.transport.is_closing():  # what has no answer is sent again
            self.transport.write(line)

    def data_received(self, data: bytes) -> None:
        self._silent = 0
        for message in self._reader.feed(data):
            if isinstance(message, Response):
                self._refused(message)
            elif self.attached.done():
                self._host.take(message)
            elif "attached" in message:
                self.attached.set_result(message["attached"])
            else:
                self._fail(Unavailable("what listens on the socket is not a kernel"))

    def eof_received(self) -> None:
        return None  # the transport closes itself

    def _refused(self, response: Response) -> None:
        try:
            self._host.kernel.answer_of("attach", response, response.take())
            self._fail(Unavailable("the kernel does not let programs of other places in", hint="it may be of an older version"))
        except KernelError as e:
            self._fail(e)

    def _fail(self, error: Exception) -> None:
        if not self.attached.done():
            self.attached.set_exception(error)
            self.attached.exception()

    def connection_lost(self, error: Optional[Exception]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fail(ConnectionCut("the connection ended before the kernel said who is the host"))
        if self._host.link is self:
            self._host.link = None
        if not self.closed.done():
            self.closed.set_result(None)

    def beats(self, beat: float) -> None:
        """Says something each beat from now on, and listens whether the other side does."""
        self._beat = beat
        self._timer = self._host.loop.call_later(beat, self._tick)

    def _tick(self) -> None:
        # Beats are counted, and not the time: a loop that was blocked has not heard what is there.
        self._silent += 1
        if self._silent > _hosted.BEATS:
            self.transport.abort()
            return
        if not self._said:
            self.write(_hosted.BEAT)
        self._said = False
        self._timer = self._host.loop.call_later(self._beat, self._tick)
