"""The verbs of the kernel's API as steps. No input or output happens here."""

from __future__ import annotations

import logging
import uuid
from functools import partial
from typing import Any, Callable, Iterable, Mapping, Optional, Union

from . import _home
from ._code import dedent
from ._http import API_VERSION, Frames, Response, compose
from ._steps import Call, Close, Connect, ConnectionCut, Emit, NobodyListens, Notify, Pause, Receive, Send, Steps, redirect
from .errors import Conflict, InvalidArgument, KernelError, KernelGone, ProgramSyntaxError, Timeout, Unavailable, VersionMismatch
from .model import Entry, Event, Inspection, KernelInfo, PathLike, Process, Skill, Spec, Tool, ToolServer, files
from .result import Result
from .values import from_wire, parse

log = logging.getLogger("agentkernel")

Program = Union[str, Spec]
Callback = Optional[Callable[[Any], Any]]

#: How long a kernel that accepts connections may take for its first answer.
_PATIENCE = 5.0
_RESUMES = 4
_KILL_PATIENCE = 2.0


def spec_of(program: Program, options: Mapping[str, Any]) -> Spec:
    """A Spec from a text or a Spec, with options laid over it."""
    spec = program if isinstance(program, Spec) else Spec(program)
    return spec.with_options(**options) if options else spec


def check_pid(pid: Any) -> int:
    try:
        number = int(pid)
    except (TypeError, ValueError):
        number = 0
    if number < 1 or isinstance(pid, (bool, float)):
        raise InvalidArgument(f"{pid!r} is not a pid: pids are whole numbers from 1", hint="ps() lists the processes")
    return number


class Kernel:
    """Knows where the kernel is and how to ask it."""

    def __init__(
        self, home: Optional[PathLike], binary: Optional[PathLike], start: bool, embeddings: Optional[Mapping[str, str]] = None
    ) -> None:
        self.settings = _home.embeddings_settings(embeddings)
        self.home = _home.data_directory(home)
        self.socket = _home.socket_path(self.home)
        self.start = start
        self._binary = binary
        self._greeted = False

    def binary(self) -> str:
        return _home.find_binary(self._binary)

    # Connections

    def _connect(self, start: bool) -> Steps[Any]:
        """A connection. Where nobody listens, nothing was asked yet, so starting a kernel is safe."""
        for attempt in range(4):
            try:
                connection = yield Connect(self.socket)
            except NobodyListens:
                if not start or attempt > 1:
                    break
                self.socket = yield Call(lambda: _home.start_kernel(self.binary(), self.home, self.settings))
                continue
            if self._greeted:
                return connection
            yield from self._greet(connection)
        raise Unavailable(
            f"no kernel runs on the data directory {self.home}",
            hint="start=True starts one when it is needed; on the command line `agentkernel start` does, and `agentkernel serve` keeps one running",
        )

    def _greet(self, connection: Any) -> Steps[None]:
        """Asks the first kernel that is met for its version, with little patience."""
        try:
            answer = yield from self._exchange(connection, "attach", compose("GET", "/version", None, None), _PATIENCE)
        except TimeoutError:
            raise Unavailable(
                f"a kernel listens on {self.socket} but does not answer",
                hint="look at kernel.log in the data directory; if the kernel hangs, end its process, then recover()",
            ) from None
        if answer.get("api") != API_VERSION:
            raise VersionMismatch(
                f"the kernel on {self.home} is agentkernel {answer.get('version')} (API {answer.get('api')}), and this SDK speaks API {API_VERSION}",
                hint="`agentkernel shutdown` ends that kernel, and recover() continues what was unfinished; or install the SDK of its release",
            )
        self._greeted = True

    def _exchange(self, connection: Any, op: str, request: bytes, timeout: Optional[float] = None) -> Steps[Any]:
        """One request and its whole answer, as parsed JSON."""
        yield Send(connection, request)
        response = Response()
        while not response.complete:
            data = yield Receive(connection, timeout)
            response.feed(data)
            if not data and not response.complete:
                raise ConnectionCut("the connection ended before the answer was complete")
        yield Close(connection)
        return self._answer(op, response, response.take())

    def _answer(self, op: str, response: Response, body: bytes) -> Any:
        if "agentkernel-api" not in response.headers:
            raise Unavailable(f"what listens on {self.socket} is not a kernel", hint="end it, or choose another data directory: home=")
        if response.status // 100 == 2:
            return parse(body) if body else None
        try:
            data = parse(body)
        except KernelError:
            data = None
        if not isinstance(data, dict) or "code" not in data:
            raise Unavailable(f"the kernel answered {response.status} and no explanation", op=op)
        raise KernelError.from_wire(data)

    def ask(self, op: str, method: str, path: str, query: Optional[Mapping[str, Any]] = None, body: Any = None,
            repeatable: bool = False, start: Optional[bool] = None) -> Steps[Any]:  # fmt: skip
        """A request with an answer in JSON. One that is repeatable is made once more if the kernel went away."""
        request = compose(method, path, query, body)
        start = self.start if start is None else start
        for again in (repeatable or method == "GET", False):
            connection = yield from self._connect(start)
            try:
                answer = yield from self._exchange(connection, op, request)
                return answer
            except ConnectionCut as e:
                if not again:
                    raise self._gone(op, str(e)) from None
            except Unavailable as e:
                if not (again and _is_ending(e)):
                    raise
                yield Pause(0.02)
        raise self._gone(op, "it is ending")

    def _gone(self, op: str, why: str, pid: int = 0) -> KernelGone:
        if pid:
            return KernelGone(
                f"the kernel ended (it crashed or was stopped) while process {pid} was {op}; the process stands where its journal says",
                hint=f"recover({pid}) continues it, what it did is not repeated; then wait({pid}) again. On the command line: agentkernel recover {pid} --wait",
                op=op,
                pid=pid,
            )
        return KernelGone(f"the kernel went away before it answered ({why})", op=op, hint="ps() shows what became of your processes, recover() continues unfinished ones")

    # The kernel itself

    def info(self) -> Steps[KernelInfo]:
        data = yield from self.ask("info", "GET", "/info")
        return KernelInfo.from_wire(data)

    def shutdown(self) -> Steps[bool]:
        try:
            yield from self.ask("shutdown", "POST", "/shutdown", body={}, start=False)
        except KernelGone:
            pass  # it ended while it answered
        except Unavailable:
            return False
        self._greeted = False
        return True

    # Processes

    def spawn(self, program: Program, options: Mapping[str, Any]) -> Steps[Process]:
        spec = spec_of(program, options)
        data = yield from self.ask("spawn", "POST", "/processes", body=keyed(spec).to_wire(), repeatable=True)
        return Process.from_wire(data)

    def process(self, pid: Any) -> Steps[Process]:
        data = yield from self.ask("process", "GET", f"/processes/{check_pid(pid)}")
        return Process.from_wire(data)

    def ps(self, all: bool, namespace: str, parent: int, limit: int) -> Steps[list[Process]]:
        query = {"unfinished": not all, "namespace": namespace, "parent": parent, "limit": limit}
        data = yield from self.ask("ps", "GET", "/processes", query)
        return [Process.from_wire(p) for p in data["processes"]]

    def wait(self, pid: Any, timeout: Optional[float]) -> Steps[Process]:
        pid = check_pid(pid)
        if timeout is not None and timeout <= 0:
            p = yield from self.process(pid)
            return self._ended_in_time(p, timeout)
        query = {"timeout": f"{timeout:.3f}s"} if timeout is not None else None
        connection = yield from self._connect(self.start)
        try:
            data = yield from self._exchange(connection, "wait", compose("GET", f"/processes/{pid}/wait", query, None))
        except ConnectionCut as e:
            raise self._gone("waited for", str(e), pid) from None
        except Unavailable as e:
            raise (self._gone("waited for", e.message, pid) if _is_ending(e) else e) from None
        except Conflict as e:
            raise _unfinished(e, pid) from None
        return self._ended_in_time(Process.from_wire(data), timeout)

    def _ended_in_time(self, p: Process, timeout: Optional[float]) -> Process:
        if p.state == "unfinished":
            raise _unfinished(None, p.pid)
        if timeout is not None and not p.done and not p.paused:
            raise Timeout(f"process {p.pid} has not ended within {timeout:g} s; it goes on", op="wait", pid=p.pid, hint=f"wait({p.pid}) again, or kill({p.pid})")
        return p

    def signal(self, pid: Any, signal: str) -> Steps[None]:
        pid = check_pid(pid)
        yield from self.ask(signal, "POST", f"/processes/{pid}/signal", body={"signal": signal})
        if signal == "kill":
            try:
                yield from self.ask("kill", "GET", f"/processes/{pid}/wait", {"timeout": f"{_KILL_PATIENCE}s"})
            except Conflict:
                pass  # it was unfinished, and has been ended without being continued

    def answer(self, pid: Any, ask: int, answer: str) -> Steps[None]:
        yield from self.ask("answer", "POST", f"/processes/{check_pid(pid)}/answers", body={"ask": ask, "answer": answer})

    def recover(self, pid: Optional[Any]) -> Steps[list[Process]]:
        body = {} if pid is None else {"pid": check_pid(pid)}
        data = yield from self.ask("recover", "POST", "/recover", body=body, repeatable=True)
        return [Process.from_wire(p) for p in data["processes"]]

    # Streams

    def stream(self, program: Program, options: Mapping[str, Any]) -> Steps[Process]:
        """Starts a program and emits its events; returns the process as it ended or paused."""
        try:
            process = yield from self._stream(spec_of(program, options))
        except Refusal as e:
            raise e.error from None
        return process

    def _stream(self, spec: Spec) -> Steps[Process]:
        try:
            body = keyed(spec).to_wire()
        except ProgramSyntaxError as e:
            raise Refusal(e) from None
        request = compose("POST", "/processes", {"follow": True}, body)
        follower = _Follower(self, 0, 0, True, until_pause=True)
        try:
            yield from follower.once(request, self.start)
        except (ConnectionCut, Unavailable) as e:
            if isinstance(e, Unavailable) and not _is_ending(e):
                raise
            if not follower.pid:
                yield from follower.once(request, self.start)  # the key makes this the same process
            else:
                yield from follower.resume(e)
        process = follower.process
        if process is None or not (process.done or process.paused):
            process = yield from self.process(follower.pid)
        return process

    def events(self, pid: Any, first: int, follow: bool, kinds: Optional[tuple[str, ...]] = None) -> Steps[None]:
        follower = _Follower(self, check_pid(pid), max(first, 1) - 1, follow, kinds=kinds)
        try:
            yield from follower.once(follower.request(), self.start)
        except (ConnectionCut, Unavailable) as e:
            if isinstance(e, Unavailable) and not _is_ending(e):
                raise
            yield from follower.resume(e)

    def run(self, program: Program, options: Mapping[str, Any], on_output: Callback, on_event: Callback, on_ask: Callback) -> Steps[Result]:
        """Runs a program to its end: what it printed, its value, its error."""
        spec = spec_of(program, options)
        if on_ask is not None:
            spec = spec.with_options(interactive=True)
        printed: dict[str, list[str]] = {"stdout": [], "stderr": []}
        try:
            process = yield from redirect(self._stream(spec), lambda event: self._tell(event, printed, on_output, on_event, on_ask))
        except Refusal as e:
            return Result.refused(e.error, spec.source)
        return Result.of(process, printed, spec.source)

    def _tell(self, event: Event, printed: dict[str, list[str]], on_output: Callback, on_event: Callback, on_ask: Callback) -> Steps[None]:
        if on_event is not None:
            yield Notify(on_event, event)
        if event.kind == "output":
            printed.setdefault(event.stream, []).append(event.text)
            if on_output is not None:
                yield Notify(on_output, event)
        elif event.kind == "ask" and event.ask is not None and on_ask is not None:
            said = yield Notify(on_ask, event.ask)
            answer = {True: "yes", False: "no", None: "no"}.get(said, said)
            yield from self.answer(event.pid, event.ask.id, answer)

    def result(self, pid: Any, timeout: Optional[float]) -> Steps[Result]:
        process = yield from self.wait(pid, timeout)
        result = yield from self.collect(process)
        return result

    def collect(self, process: Process, source: str = "") -> Steps[Result]:
        """The result of a process that has ended, with what it printed."""
        printed: dict[str, list[str]] = {"stdout": [], "stderr": []}

        def take(event: Event) -> Steps[None]:
            printed.setdefault(event.stream, []).append(event.text)
            yield from ()

        yield from redirect(self.events(process.pid, 1, False, ("output",)), take)
        return Result.of(process, printed, source)

    # Traces

    def trace(self, pid: Any, first: int, limit: int) -> Steps[list[Entry]]:
        pid, start = check_pid(pid), max(first, 1)
        entries: list[Entry] = []
        while True:
            query = {"from": start, "limit": limit - len(entries) if limit else 0}
            page = yield from self.ask("trace", "GET", f"/processes/{pid}/journal", query)
            entries += [Entry.from_wire(e) for e in page["entries"]]
            if not page.get("next") or limit and len(entries) >= limit:
                return entries
            start = page["next"]

    def state(self, pid: Any) -> Steps[dict[str, Any]]:
        wire = yield from self.wire_state(pid)
        return {k: from_wire(v) for k, v in wire.items()}

    def wire_state(self, pid: Any) -> Steps[dict[str, Any]]:
        data = yield from self.ask("state", "GET", f"/processes/{check_pid(pid)}/state")
        state: dict[str, Any] = data["state"]
        return state

    def inspect(self, pid: Any) -> Steps[Inspection]:
        process = yield from self.process(pid)
        entries = yield from self.trace(pid, 1, 0)
        state = yield from self.state(pid)
        children = yield from self.ps(True, "", process.pid, 0)
        spec = entries[0].raw.get("data") if entries else {}
        return Inspection(process, spec or {}, state, len(entries), tuple(children))

    # Tools

    def servers(self, tools: Union[PathLike, Iterable[PathLike]]) -> Steps[list[ToolServer]]:
        data = yield from self.ask("tools", "GET", "/tools/servers", {"files": files(_listed(tools))})
        return [ToolServer.from_wire(s) for s in data["servers"]]

    def tools(self, tools: Union[PathLike, Iterable[PathLike]], server: str) -> Steps[list[Tool]]:
        data = yield from self.ask("tools", "GET", "/tools", {"files": files(_listed(tools)), "server": server})
        return [Tool.from_wire(t) for t in data["tools"]]

    def search(self, tools: Union[PathLike, Iterable[PathLike]], query: str, server: str, limit: int) -> Steps[list[Tool]]:
        if not isinstance(query, str):
            raise InvalidArgument(f"a query is a text, not {type(query).__name__}")
        data = yield from self.ask("search", "GET", "/tools/search", {"files": files(_listed(tools)), "text": query, "server": server, "limit": limit})
        for problem in data.get("problems") or ():
            log.warning("not searched: %s", problem)
        return [Tool.from_wire(t) for t in data["tools"]]

    # Skills

    def save_skill(self, namespace: str, name: str, code: str, description: str, tags: Iterable[str]) -> Steps[Skill]:
        given = [tags] if isinstance(tags, str) else list(tags)
        body = {"namespace": namespace, "name": name, "code": dedent(code), "description": description, "tags": given}
        data = yield from self.ask("save_skill", "POST", "/skills", body=body)
        return Skill.from_wire(data)

    def skill(self, namespace: str, name: str, version: int) -> Steps[Skill]:
        data = yield from self.ask("skill", "GET", "/skill", {"namespace": namespace, "name": name, "version": version})
        return Skill.from_wire(data)

    def skills(self, namespace: str, query: str, limit: int) -> Steps[list[Skill]]:
        data = yield from self.ask("skills", "GET", "/skills", {"namespace": namespace, "text": query, "limit": limit})
        return [Skill.from_wire(s) for s in data["skills"]]

    def delete_skill(self, namespace: str, name: str) -> Steps[None]:
        yield from self.ask("delete_skill", "POST", "/skills/delete", body={"namespace": namespace, "name": name})

    def plan(self, task: str, tools: list[Tool]) -> Steps[Any]:
        plan = yield Call(partial(_plan, self, task, tools))
        return plan


def _plan(kernel: Kernel, task: str, tools: list[Tool]) -> Any:
    return _home.make_plan(kernel.binary(), task, [t.raw for t in tools])


def _listed(tools: Any) -> Any:
    return tools if isinstance(tools, (str, bytes)) or hasattr(tools, "__fspath__") else list(tools)


class Refusal(Exception):
    """The kernel would not make a process of a program: an outcome of the program, not a failure of the call."""

    #: What is wrong with a program, as against the arguments or the kernel.
    CODES = ("syntax_error", "unsupported", "not_found")

    def __init__(self, error: KernelError) -> None:
        super().__init__(str(error))
        self.error = error


def keyed(spec: Spec) -> Spec:
    """A Spec whose creation may be repeated: without a key of its own it gets one."""
    return spec if spec.idempotency_key else spec.with_options(idempotency_key=f"python-{uuid.uuid4().hex}")


def _is_ending(error: Unavailable) -> bool:
    return error.message.startswith("the kernel is ending")


def _unfinished(error: Optional[KernelError], pid: int) -> Conflict:
    message = error.message if error else f"process {pid} is unfinished and no kernel carries it on"
    return Conflict(message, op="wait", pid=pid, hint=f"recover({pid}) continues it; on the command line: agentkernel recover {pid}")


class _Follower:
    """Reads a process's events over one connection after another, each event once."""

    def __init__(self, kernel: Kernel, pid: int, seen: int, follow: bool, until_pause: bool = False, kinds: Optional[tuple[str, ...]] = None) -> None:
        self.kernel, self.pid, self.seen, self.follow = kernel, pid, seen, follow
        self.until_pause, self.kinds = until_pause, kinds
        self.process: Optional[Process] = None
        self.resumed = self.progress = False

    def request(self) -> bytes:
        return compose("GET", f"/processes/{self.pid}/events", {"from": self.seen + 1, "follow": self.follow}, None)

    def once(self, request: bytes, start: bool) -> Steps[None]:
        """One stream to its end. ConnectionCut: it was cut off."""
        connection = yield from self.kernel._connect(start)
        yield Send(connection, request)
        response, frames, whole = Response(), Frames(), b""
        while True:
            data = yield Receive(connection)
            response.feed(data)
            body = response.take()
            if response.status and not self._is_stream(response):
                whole += body
                if response.complete:
                    self._refuse(response, whole)
            elif response.status:
                for name, text in frames.feed(body):
                    if (yield from self._take(name, text)):
                        yield Close(connection)
                        return
            if response.complete or not data:
                raise ConnectionCut("the stream ended before its process did")

    def _refuse(self, response: Response, body: bytes) -> None:
        try:
            self.kernel._answer("events", response, body)
        except KernelError as e:
            raise self._failure(e) from None
        raise Unavailable("the kernel answered without a stream of events")

    def _failure(self, error: KernelError) -> Exception:
        """What an error means: before there is a process it may be a refusal of the program. One that takes long to
        find comes at the head of the stream."""
        return Refusal(error) if not self.pid and error.code in Refusal.CODES else error

    @staticmethod
    def _is_stream(response: Response) -> bool:
        return response.headers.get("content-type", "").startswith("text/event-stream")

    def _take(self, name: str, text: str) -> Steps[bool]:
        data = parse(text)
        if name == "done":
            if data.get("process"):
                self.process = Process.from_wire(data["process"])
            return True
        if name == "failure":
            raise self._failure(KernelError.from_wire(data))
        event = Event.from_wire(data)
        self.pid = self.pid or event.pid
        if event.seq <= self.seen and event.kind not in ("ask", "state"):
            return False  # told before the connection broke
        self.seen, self.progress = max(self.seen, event.seq), True
        self.process = event.process or self.process
        if self.kinds is None or event.kind in self.kinds:
            yield Emit(event)
        return self.until_pause and self.resumed and event.kind == "state" and event.process is not None and event.process.paused

    def resume(self, cause: Exception) -> Steps[None]:
        """Takes a broken stream up where it broke, as long as a kernel is there; none is started for it."""
        pause, tries = 0.01, 0
        while tries < _RESUMES:
            yield Pause(pause)
            pause, tries = pause * 2, tries + 1
            self.resumed, self.progress = True, False
            try:
                yield from self.once(self.request(), False)
                return
            except ConnectionCut as e:
                cause = e
            except Unavailable as e:
                cause = e
            if self.progress:
                pause, tries = 0.01, 0
        raise self.kernel._gone("watched", str(cause), self.pid)
