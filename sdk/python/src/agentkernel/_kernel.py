"""The verbs of the kernel's API as steps. No input or output happens here."""

from __future__ import annotations

import logging
import shlex
import time
import uuid
from functools import partial
from typing import Any, Callable, Generic, Iterable, Mapping, Optional, Sequence, Union

from . import _files, _home
from ._code import dedent
from ._http import API_VERSION, Frames, Response, compose
from ._steps import Call, Close, Connect, ConnectionCut, Emit, NobodyListens, Notify, Pause, Receive, Send, Steps, redirect
from .errors import Conflict, InvalidArgument, KernelError, KernelGone, ProgramSyntaxError, Timeout, Unavailable, VersionMismatch, in_python
from ._result import R
from .changes import Changes
from .model import Allowance, Budget, Entry, Event, Inspection, KernelInfo, ModelUsage, Process, Skill, Tool, ToolServer, parse_time
from ._span import span
from .spec import PathLike, Span, Spec, files, moment, spending, texts, whole
from .values import from_wire, parse

log = logging.getLogger("agentkernel")

Program = Union[str, Spec]
Callback = Optional[Callable[[Any], Any]]

#: How long a kernel that accepts connections may take for its first answer.
_PATIENCE = 5.0
_RESUMES = 4
#: What one search gives at most.
MOST_TOOLS = 1000
_KILL_PATIENCE = 2.0
#: How long a model may take, in seconds, until it is said what is waited for; then after twice as long, and so on.
_SILENCE = 3.0
#: Is in what a model is waited for at whose server's address nothing listens.
_REFUSED = "connection refused"


def spec_of(program: Program, options: Mapping[str, Any]) -> Spec:
    """A Spec from a text or a Spec, with options laid over it."""
    spec = program if isinstance(program, Spec) else Spec(program)
    if "source" in options:
        raise TypeError("the program is the first argument; source is no option")
    return spec.with_options(**options) if options else spec


def check_pid(pid: Any) -> int:
    try:
        number = int(pid)
    except (TypeError, ValueError):
        number = 0
    if number < 1 or isinstance(pid, (bool, float)):
        raise InvalidArgument(f"{pid!r} is not a pid: pids are whole numbers from 1", hint="ps() lists the processes")
    return number


class Kernel(Generic[R]):
    """Knows where the kernel is and how to ask it."""

    def __init__(
        self, home: Optional[PathLike], binary: Optional[PathLike], start: bool, outcome: type[R], embeddings: Optional[Mapping[str, str]] = None
    ) -> None:
        self.outcome = outcome  # what results are made of: those of the blocking or of the asyncio face
        self.settings = _home.embeddings_settings(embeddings)
        self.home = _home.data_directory(home)
        self.socket = _home.socket_path(self.home)
        self.start = start
        self._binary = binary
        self._greeted = False
        self._command = "agentkernel" if home is None else f"agentkernel --home {shlex.quote(str(self.home))}"  # what to type for this kernel
        self._keys: dict[int, Mapping[str, str]] = {}  # of models that processes have brought, by pid: each kernel has to be given them

    def binary(self) -> str:
        return _home.find_binary(self._binary)

    def gone(self, pid: int, doing: str, key: str = "") -> KernelGone:
        """What somebody hears whose kernel ended while he waited for a process or watched it. ``key`` is that of the process,
        where the same call created it."""
        same = f"; so does the same call with idempotency_key={key!r}, which is in error.idempotency_key" if key else ""
        return KernelGone(
            f"the kernel ended (it was stopped, replaced or killed) while process {pid} was {doing}; the process is kept, and stands where its journal says",
            hint=f"client.recover({pid}) continues it, and repeats nothing that it did; client.result({pid}) then waits for its result{same}. "
            f"On the command line: {self._command} recover {pid} --wait. Do not start the program anew: what it did would be done twice",
            op=doing,
            pid=pid,
            idempotency_key=key,
        )

    def unfinished(self, error: Optional[KernelError], pid: int) -> Conflict:
        message = error.message if error else f"process {pid} is unfinished and no kernel carries it on"
        return Conflict(
            message,
            op="wait",
            pid=pid,
            hint=f"client.recover({pid}) continues it, client.result({pid}) then waits for its result; on the command line: {self._command} recover {pid} --wait",
        )

    # Connections

    def connect(self, start: Optional[bool] = None) -> Steps[Any]:
        """A connection. Where nobody listens, nothing was asked yet, so starting a kernel is safe; so is greeting another
        where one ends before or while it is greeted. ConnectionCut: the last one did, too."""
        start = self.start if start is None else start
        cut: Optional[ConnectionCut] = None
        for left in (3, 2, 1, 0):
            try:
                connection = yield Connect(self.socket)
            except NobodyListens:
                if not start:
                    break
                cut = ConnectionCut("no kernel listens, and those that were started ended at once")
                if left:
                    self.socket = yield Call(lambda: _home.start_kernel(self.binary(), self.home, self.settings))
                continue
            if self._greeted:
                return connection
            try:
                yield from self._greet(connection)
            except ConnectionCut as e:
                cut = e
        if cut is not None:
            raise cut
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
        return self.answer_of(op, response, response.take())

    def answer_of(self, op: str, response: Response, body: bytes) -> Any:
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
            repeatable: bool = False, start: Optional[bool] = None, pid: int = 0, key: str = "") -> Steps[Any]:  # fmt: skip
        """A request with an answer in JSON. One that is repeatable is made once more if the kernel went away. ``pid`` is
        the process that one which is not is about, ``key`` the idempotency key of the one that it creates."""
        request = compose(method, path, query, body)
        why = ""
        for again in (repeatable or method == "GET", False):
            try:
                connection = yield from self.connect(start)
                answer = yield from self._exchange(connection, op, request)
                return answer
            except (ConnectionCut, Unavailable) as e:
                why = _went_away(e, why)
            if not again:
                break
            yield Pause(0.02)
        raise unanswered(op, pid, why, key)

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
        try:
            process = yield from self.create(keyed(spec_of(program, options)))
        except Refusal as e:
            raise e.error from None
        return process

    def create(self, spec: Spec) -> Steps[Process]:
        """The process of a Spec with a key; Refusal: there is none, for what is wrong with the program."""
        try:
            body = spec.to_wire()
        except ProgramSyntaxError as e:
            raise Refusal(e) from None
        try:
            data = yield from self.ask("spawn", "POST", "/processes", body=body, repeatable=True, key=spec.idempotency_key or "")
        except KernelError as e:
            if e.code in Refusal.CODES:
                raise Refusal(e) from None
            raise
        process = Process.from_wire(data)
        if spec.keys and not process.done:
            self._keys[process.pid] = dict(spec.keys)
            yield from self._give_keys(process.pid)
        return process

    def _give_keys(self, pid: int) -> Steps[None]:
        """Gives the kernel the keys of a process that has brought models. One that has ended needs none; a kernel that is gone gets them later."""
        for model, key in self._keys.get(pid, {}).items():
            try:
                yield from self.give_key(model, key, pid)
            except (Conflict, KernelGone, Unavailable):
                return

    def process(self, pid: Any) -> Steps[Process]:
        pid = check_pid(pid)
        data = yield from self.ask("process", "GET", f"/processes/{pid}", pid=pid)
        return Process.from_wire(data)

    def ps(self, all: bool, namespace: str, parent: int, limit: int) -> Steps[list[Process]]:
        query = {"unfinished": not all, "namespace": namespace, "parent": check_pid(parent) if parent else 0}
        limit, found = whole(limit, "limit", 0), []
        while True:  # an answer is a page
            data = yield from self.ask("ps", "GET", "/processes", {**query, "limit": limit and limit - len(found)})
            found += [Process.from_wire(p) for p in data["processes"]]
            query["before"] = data.get("next", 0)
            if not query["before"] or limit and len(found) >= limit:
                return found

    def wait(self, pid: Any, timeout: Optional[Span]) -> Steps[Process]:
        pid = check_pid(pid)
        timeout = None if timeout is None else span(timeout, "timeout")
        yield from self._give_keys(pid)
        if timeout is not None and timeout <= 0:
            p = yield from self.process(pid)
            return self._ended_in_time(p, timeout)
        query = {"timeout": f"{max(timeout, 0.001):.3f}s"} if timeout is not None else None
        try:
            connection = yield from self.connect(self.start)
            data = yield from self._exchange(connection, "wait", compose("GET", f"/processes/{pid}/wait", query, None))
        except ConnectionCut as e:
            raise self.gone(pid, "waited for") from None
        except Unavailable as e:
            raise (self.gone(pid, "waited for") if _is_ending(e) else e) from None
        except Conflict as e:
            raise self.unfinished(e, pid) from None
        process = Process.from_wire(data)
        if process.done:
            self._keys.pop(pid, None)
        return self._ended_in_time(process, timeout)

    def _ended_in_time(self, p: Process, timeout: Optional[float]) -> Process:
        if p.state == "unfinished":
            raise self.unfinished(None, p.pid)
        if timeout is not None and not p.done and not p.paused:
            raise Timeout(f"process {p.pid} has not ended within {timeout:g} s; it goes on", op="wait", pid=p.pid, hint=f"client.wait({p.pid}) waits on, client.kill({p.pid}) ends it")
        return p

    def signal(self, pid: Any, signal: str, **options: Any) -> Steps[None]:
        pid = check_pid(pid)
        if not isinstance(signal, str):
            raise InvalidArgument(f"{signal!r} is not a signal", hint='one of "kill", "stop", "interrupt", "pause", "resume"')
        yield from self.ask(signal, "POST", f"/processes/{pid}/signal", body={"signal": signal, **options}, pid=pid)
        if signal == "kill":
            try:
                yield from self.ask("kill", "GET", f"/processes/{pid}/wait", {"timeout": f"{_KILL_PATIENCE}s"}, pid=pid)
            except Conflict:
                pass  # it was unfinished, and has been ended without being continued

    def stop(self, pid: Any, grace: Any, tree: bool) -> Steps[Process]:
        if isinstance(grace, bool) or not isinstance(grace, (int, float)) or not 0 < grace <= 86400:
            raise InvalidArgument(f"grace={grace!r} is no number of seconds above 0, and at most 86400")
        yield from self.signal(pid, "stop", grace=f"{max(int(grace * 1000), 1)}ms", tree=bool(tree))
        return (yield from self.wait(pid, grace + _KILL_PATIENCE))

    def hold(self, verb: str, namespace: Optional[str], tree: Any, **more: Any) -> Steps[None]:
        body: dict[str, Any] = dict(more)
        if namespace is not None:
            body["namespace"] = namespace
        if tree is not None:
            body["tree"] = check_pid(tree)
        yield from self.ask(verb, "POST", f"/{verb}", body=body, pid=0)

    def budget(self, pid: Any) -> Steps[Budget]:
        pid = check_pid(pid)
        data = yield from self.ask("budget", "GET", f"/processes/{pid}/budget", pid=pid)
        return Budget.from_wire(data)

    def add_budget(self, pid: Any, more: Mapping[str, Any]) -> Steps[Budget]:
        pid = check_pid(pid)
        body = spending(more, "add_budget")
        if not body:
            raise InvalidArgument("nothing is to be added", hint="add_budget(pid, usd=1)")
        data = yield from self.ask("budget", "POST", f"/processes/{pid}/budget", body=body, pid=pid)
        return Budget.from_wire(data)

    def allowances(self, namespace: Optional[str]) -> Steps[list[Allowance]]:
        data = yield from self.ask("budget", "GET", "/allowances", {} if namespace is None else {"namespace": namespace}, pid=0)
        return [Allowance.from_wire(a) for a in data["allowances"]]

    def llm_usage(self, by: Sequence[str], since: Any, until: Any, namespace: Optional[str], tree: Any) -> Steps[ModelUsage]:
        query: dict[str, Any] = {"by": list(by)}
        if since is not None:
            query["since"] = moment(since, "since", past=True)
        if until is not None:
            query["until"] = moment(until, "until", past=True)
        if namespace is not None:
            query["namespace"] = namespace
        if tree is not None:
            query["tree"] = check_pid(tree)
        data = yield from self.ask("usage", "GET", "/models/usage", query, pid=0)
        return ModelUsage.from_wire(data)

    def llm_limits(self) -> Steps[dict[str, Any]]:
        data = yield from self.ask("limits", "GET", "/models/limits", pid=0)
        return dict(data)

    def give_key(self, model: Any, key: Any, pid: Optional[Any] = None) -> Steps[None]:
        if not isinstance(model, str) or not isinstance(key, str) or not model or not key.strip():
            raise InvalidArgument("give_key takes the alias of a model and its key, as texts")
        of = 0 if pid is None else check_pid(pid)
        yield from self.ask("key", "POST", "/models/key", body={"model": model, "key": key, **({"pid": of} if of else {})}, pid=of)

    def answer(self, pid: Any, ask: Any, answer: Any) -> Steps[None]:
        pid = check_pid(pid)
        body = {"ask": whole(ask, "ask"), "answer": {True: "yes", False: "no", None: "no"}.get(answer, answer)}
        yield from self.ask("answer", "POST", f"/processes/{pid}/answers", body=body, pid=pid)

    def recover(self, pid: Optional[Any]) -> Steps[list[Process]]:
        body = {} if pid is None else {"pid": check_pid(pid)}
        data = yield from self.ask("recover", "POST", "/recover", body=body, repeatable=True, pid=body.get("pid", 0))
        for known in list(self._keys):
            yield from self._give_keys(known)
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
        spec = keyed(spec)
        try:
            body = spec.to_wire()
        except ProgramSyntaxError as e:
            raise Refusal(e) from None
        request = compose("POST", "/processes", {"follow": True}, body)
        if spec.keys:  # the request makes no second process: it has a key of its own
            yield from self.create(spec)
        follower = _Follower(self, 0, 0, True, until_pause=True, silence=_SILENCE, key=spec.idempotency_key or "")
        try:
            process = yield from self._followed(follower, request)
        except KeyboardInterrupt as e:
            _name_in(e, follower.pid)
            raise
        return process

    def _followed(self, follower: "_Follower", request: bytes) -> Steps[Process]:
        """The process that a request creates, followed to its end. The key makes it the same one if it is asked for again.
        One that was unfinished before this call is continued: its key asks for it, and nothing else creates such a one."""
        why = ""
        for again in (True, False):
            try:
                yield from follower.once(request, self.start)
                break
            except (ConnectionCut, Unavailable) as e:
                if isinstance(e, Unavailable) and _is_ending(e):
                    follower.pid = follower.pid or e.pid
                if follower.pid:
                    yield from follower.resume(e)
                    break
                why = _went_away(e, why)
            if not again:
                raise unanswered("spawn", 0, why, follower.key)
            yield Pause(0.02)
        process = yield from self._as_left(follower)
        if process.state == "unfinished" and not why and not follower.resumed:
            yield from self.recover(process.pid)
            try:
                yield from follower.once(follower.request(), self.start)
            except (ConnectionCut, Unavailable) as e:
                if isinstance(e, Unavailable) and not _is_ending(e):
                    raise
                yield from follower.resume(e)
            process = yield from self._as_left(follower)
        if process.state == "unfinished":  # another kernel took the place of the one that ran it
            raise self.gone(process.pid, "watched", follower.key)
        if process.done:
            self._keys.pop(process.pid, None)
        return process

    def _as_left(self, follower: "_Follower") -> Steps[Process]:
        """The process at the end of its stream."""
        process = follower.process
        if process is None or not (process.done or process.paused):
            process = yield from self.process(follower.pid)
        return process

    def events(self, pid: Any, first: int, follow: bool, kinds: Optional[tuple[str, ...]] = None) -> Steps[None]:
        pid = check_pid(pid)
        follower = _Follower(self, pid, max(whole(first, "first", 0), 1) - 1, follow, kinds=kinds)
        if follow:
            yield from self._give_keys(pid)
        try:
            yield from follower.once(follower.request(), self.start)
        except (ConnectionCut, Unavailable) as e:
            if isinstance(e, Unavailable) and not _is_ending(e):
                raise
            yield from follower.resume(e)
        if follow and not follower.ended:
            process = yield from self.process(pid)
            if process.state == "unfinished":
                raise self.gone(process.pid, "watched") if follower.resumed else self.unfinished(None, process.pid)

    def run(self, program: Program, options: Mapping[str, Any], on_output: Callback, on_event: Callback, on_ask: Callback,
            heard: Optional[Callable[[Event], Steps[None]]] = None) -> Steps[R]:  # fmt: skip
        """Runs a program to its end: what it printed, its value, its error. ``heard`` is done with each event, too."""
        spec = spec_of(program, options)
        for name, callback in (("on_output", on_output), ("on_event", on_event), ("on_ask", on_ask)):
            if callback is not None and not callable(callback):
                raise InvalidArgument(f"{name}={callback!r} is not a function")
        if on_ask is not None:
            spec = spec.with_options(interactive=True)
        printed: dict[str, list[str]] = {"stdout": [], "stderr": []}
        try:
            process = yield from redirect(self._stream(spec), lambda event: self._tell(event, printed, on_output, on_event, on_ask, heard))
        except Refusal as e:
            return self.outcome.refused(e.error, spec.source)
        result = self.outcome.of(process, printed, spec.source)
        result.attach(self, (yield from self._changes_of(process, spec)))
        return result

    def _changes_of(self, process: Process, spec: Spec) -> Steps[Optional[Changes]]:
        """What a process did to files, where it has a folder. A kernel that ended meanwhile does not take the result away."""
        if spec.workspace is None and not spec.volumes:
            return None
        try:
            found = yield from _files.changes_if_any(self, process.pid)
        except Unavailable:
            log.warning("what process %d did to files is not known yet: its kernel ended; client.diff(%d) asks again", process.pid, process.pid)
            return None
        return found

    def _tell(self, event: Event, printed: dict[str, list[str]], on_output: Callback, on_event: Callback, on_ask: Callback,
              heard: Optional[Callable[[Event], Steps[None]]]) -> Steps[None]:  # fmt: skip
        if heard is not None:
            yield from heard(event)
        if on_event is not None:
            yield Notify(on_event, event)
        if event.kind == "output":
            printed.setdefault(event.stream, []).append(event.text)
            if on_output is not None:
                yield Notify(on_output, event)
        elif event.kind == "ask" and event.ask is not None and on_ask is not None:
            said = yield Notify(on_ask, event.ask)
            yield from self.answer(event.pid, event.ask.id, said)

    def result(self, pid: Any, timeout: Optional[Span]) -> Steps[R]:
        process = yield from self.wait(pid, timeout)
        result = yield from self.collect(process)
        return result

    def collect(self, process: Process, source: str = "") -> Steps[R]:
        """The result of a process that has ended, with what it printed."""
        printed: dict[str, list[str]] = {"stdout": [], "stderr": []}

        def take(event: Event) -> Steps[None]:
            printed.setdefault(event.stream, []).append(event.text)
            yield from ()

        yield from redirect(self.events(process.pid, 1, False, ("output",)), take)
        result = self.outcome.of(process, printed, source)
        result.attach(self, (yield from _files.changes_if_any(self, process.pid)))
        return result

    # Traces

    def trace(self, pid: Any, first: int, limit: int) -> Steps[list[Entry]]:
        pid, start, limit = check_pid(pid), max(whole(first, "first", 0), 1), whole(limit, "limit", 0)
        entries: list[Entry] = []
        while True:
            query = {"from": start, "limit": limit - len(entries) if limit else 0}
            page = yield from self.ask("trace", "GET", f"/processes/{pid}/journal", query, pid=pid)
            entries += [Entry.from_wire(e) for e in page["entries"]]
            if not page.get("next") or limit and len(entries) >= limit:
                return entries
            start = page["next"]

    def state(self, pid: Any) -> Steps[dict[str, Any]]:
        wire = yield from self.wire_state(pid)
        return {k: from_wire(v) for k, v in wire.items()}

    def wire_state(self, pid: Any) -> Steps[dict[str, Any]]:
        pid = check_pid(pid)
        data = yield from self.ask("state", "GET", f"/processes/{pid}/state", pid=pid)
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

    def search(self, tools: Union[PathLike, Iterable[PathLike]], query: str, server: str, limit: int,
               modules: Optional[Mapping[str, str]] = None) -> Steps[list[Tool]]:  # fmt: skip
        if not isinstance(query, str):
            raise InvalidArgument(f"a query is a text, not {type(query).__name__}")
        body = {"files": files(_listed(tools)), "text": query, "server": server, "limit": whole(limit, "limit"), "modules": dict(modules or {})}
        data = yield from self.ask("search", "POST", "/tools/search", body=body, repeatable=True)
        for problem in data.get("problems") or ():
            log.warning("not searched: %s", problem)
        return [Tool.from_wire(t) for t in data["tools"]]

    # Skills

    def save_skill(self, namespace: str, name: str, code: str, description: str, tags: Iterable[str]) -> Steps[Skill]:
        if not isinstance(code, str):
            raise InvalidArgument(f"the code of a skill is a text, not {type(code).__name__}")
        body = {"namespace": namespace, "name": name, "code": dedent(code), "description": description, "tags": texts(tags, "tags")}
        data = yield from self.ask("save_skill", "POST", "/skills", body=body)
        return Skill.from_wire(data)

    def skill(self, namespace: str, name: str, version: int) -> Steps[Skill]:
        data = yield from self.ask("skill", "GET", "/skill", {"namespace": namespace, "name": name, "version": whole(version, "version", 0)})
        return Skill.from_wire(data)

    def skills(self, namespace: str, query: str, limit: int) -> Steps[list[Skill]]:
        data = yield from self.ask("skills", "GET", "/skills", {"namespace": namespace, "text": query, "limit": whole(limit, "limit", 0)})
        return [Skill.from_wire(s) for s in data["skills"]]

    def delete_skill(self, namespace: str, name: str) -> Steps[None]:
        yield from self.ask("delete_skill", "POST", "/skills/delete", body={"namespace": namespace, "name": name})

    def task_program(self, body: Mapping[str, Any]) -> Steps[Any]:
        """The program with which a model does a task. Unsupported: there is no model."""
        answer = yield from self.ask("task", "POST", "/tasks/program", body=body, repeatable=True)
        return answer

    def plan(self, task: str, tools: list[Tool]) -> Steps[Any]:
        plan = yield Call(partial(_plan, self, task, tools))
        return plan


def _plan(kernel: Kernel[Any], task: str, tools: list[Tool]) -> Any:
    # Template mode uses what needs no permission as it uses what only reads.
    given = [{**t.raw, "effect": "read"} if t.effect == "local" else t.raw for t in tools]
    return _home.make_plan(kernel.binary(), task, given)


def _listed(tools: Any) -> Any:
    return tools if isinstance(tools, (str, bytes)) or hasattr(tools, "__fspath__") else list(tools)


#: Where the answer to a request got lost: what is not known, and how to learn it.
_UNANSWERED = {
    "apply": ("whether the changes of process {pid} were applied is not known", "client.apply({pid}) again finishes what was begun; client.diff({pid}) shows how it stands"),
    "discard": ("whether the changes of process {pid} were discarded is not known", "client.diff({pid}) shows how it stands"),
    "answer": ("whether process {pid} got the answer is not known", "client.recover({pid}) continues it; it asks again if it did not"),
}


def _name_in(error: KeyboardInterrupt, pid: int) -> None:
    """Somebody stopped waiting; the process was not stopped by that."""
    if not pid:
        return
    says = f"process {pid} was not stopped, it goes on: client.result({pid}) waits for it, client.kill({pid}) ends it"
    if hasattr(error, "add_note"):  # Python 3.11
        error.add_note(says)
    else:
        log.warning(says)


def _went_away(error: Exception, before: str) -> str:
    """Why there is no answer, where the kernel went away; every other error is raised. ``before`` says that one went away
    before this, and may have done what was asked: then it matters no more why there is no other."""
    if isinstance(error, KernelError):
        if not before and not _is_ending(error):
            raise error
        return before or error.message
    return str(error)


def unanswered(op: str, pid: int, why: str, key: str = "") -> KernelGone:
    """What somebody hears whose kernel ended before it answered."""
    begin = f"the kernel ended before it answered {op} ({why})"
    if key:
        return KernelGone(
            f"{begin}: whether the process was created is not known",
            hint=f"make the same call with idempotency_key={key!r} (it is in error.idempotency_key): it continues the process that was created, "
            "or creates it. Without the key the program might run twice",
            op=op,
            idempotency_key=key,
        )
    if not pid:
        return KernelGone(begin, op=op, hint="client.ps() shows how your processes stand, client.recover() continues those that are unfinished")
    unknown, hint = _UNANSWERED.get(op, ("whether process {pid} heard of it is not known", "client.process({pid}) shows how it stands, client.recover({pid}) continues it if it is unfinished"))
    return KernelGone(f"{begin}: {unknown.format(pid=pid)}", op=op, pid=pid, hint=hint.format(pid=pid))


class Refusal(Exception):
    """The kernel would not make a process of a program: an outcome of the program, not a failure of the call."""

    #: What is wrong with a program, as against the arguments or the kernel.
    CODES = ("syntax_error", "unsupported", "not_found")

    def __init__(self, error: KernelError) -> None:
        super().__init__(str(error))
        self.error = error


def keyed(spec: Spec) -> Spec:
    """A Spec whose creation may be repeated: without a key of its own it gets one."""
    return spec if spec.idempotency_key is not None else spec.with_options(idempotency_key=f"python-{uuid.uuid4().hex}")


def _is_ending(error: KernelError) -> bool:
    return error.message.startswith("the kernel is ending")


class _Follower:
    """Reads a process's events over one connection after another, each event once."""

    def __init__(self, kernel: Kernel[Any], pid: int, seen: int, follow: bool, until_pause: bool = False, kinds: Optional[tuple[str, ...]] = None,
                 silence: Optional[float] = None, key: str = "") -> None:  # fmt: skip
        self.key = key  # of the process, where it is created by what is read; "": it is not
        self.kernel, self.pid, self.seen, self.follow = kernel, pid, seen, follow
        self.until_pause, self.kinds = until_pause, kinds
        self.process: Optional[Process] = None
        self.resumed = self.progress = self.ended = False
        self.advised = False
        self.silence = silence  # after which it is said what is waited for; None: it is not

    def request(self) -> bytes:
        return compose("GET", f"/processes/{self.pid}/events", {"from": self.seen + 1, "follow": self.follow}, None)

    def once(self, request: bytes, start: bool) -> Steps[None]:
        """One stream to its end. ConnectionCut: it was cut off."""
        connection = yield from self.kernel.connect(start)
        yield Send(connection, request)
        response, frames, whole = Response(), Frames(), b""
        while True:
            try:
                data = yield Receive(connection, self.silence)
            except TimeoutError:
                yield from self._say_wait()
                continue
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

    def _say_wait(self) -> Steps[None]:
        """Says that a model is waited for, and why, if one has been for long."""
        try:
            data = (yield from self.kernel.ask("process", "GET", f"/processes/{self.pid}", start=False)) if self.pid else {}
        except KernelError:  # the stream says what is wrong
            return
        since, waits = parse_time(data.get("waits_since")), str((data.get("waits_for") or [""])[0])
        lasted = time.time() - since.timestamp() if since is not None else 0.0
        if not waits.startswith("llm.") or self.silence is None or lasted < self.silence:
            self.silence = _SILENCE
            return
        what = waits.partition(" ")[2] if ", " in waits else waits.partition(" ")[2] + ", no answer yet"
        if _REFUSED in what and not self.advised:
            self.advised = True
            what += "; `agentkernel doctor` looks where its server should be"
        log.warning("process %d is waiting for %s", self.pid, in_python(what))
        self.silence *= 2

    def _refuse(self, response: Response, body: bytes) -> None:
        try:
            self.kernel.answer_of("events", response, body)
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
        self.silence = _SILENCE if self.silence else None
        self.process = event.process or self.process
        self.ended = self.ended or event.kind == "end"
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
        raise self.kernel.gone(self.pid, "watched", self.key) from cause
