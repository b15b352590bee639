"""What agents and task managers do, as steps. No input or output happens here."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
import warnings
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from . import _home, fileserver
from ._code import dedent, program_in, shift_traceback, with_prelude
from ._kernel import Callback, Kernel, check_pid
from ._steps import Call, Notify, Steps
from .errors import Conflict, InvalidArgument, KernelError, StorageFailed, Unsupported
from .model import Limits, PathLike, Process, Spec, Tool, ToolServer, files, local_tools
from .result import Result
from .state import MODULE, StateFile

log = logging.getLogger("agentkernel")

#: Turns a task in plain language into a program: ``planner(task, tools) -> source``. May be a coroutine function for
#: the async client.
Planner = Callable[[str, list[Tool]], Any]

PROVIDERS = ("openai", "azure_openai")


@dataclass
class Settings:
    """What ``create_agent`` was given, checked."""

    home: Optional[PathLike] = None
    binary: Optional[PathLike] = None
    start: bool = True
    tools: Union[PathLike, Sequence[PathLike]] = ()
    allow: Union[str, Sequence[str]] = ()
    deny: Union[str, Sequence[str]] = ()
    namespace: str = ""
    backend: str = ""
    priority: int = 0
    limits: Limits = field(default_factory=Limits)
    timeout: Union[float, str, None] = None
    workspace_dir: Optional[PathLike] = None
    state_enabled: bool = False
    state_file: Optional[PathLike] = None
    state_auto_save: bool = True
    planner: Optional[Planner] = None
    packages: Union[str, Sequence[str]] = ()
    llm_enabled: bool = False
    llm_provider: Optional[str] = None
    llm_api_key: Optional[str] = field(default=None, repr=False)
    llm_azure_endpoint: Optional[str] = None

    def check(self) -> None:
        """Says what cannot be done before anything is done with it."""
        if self.llm_provider is not None and self.llm_provider not in PROVIDERS:
            raise InvalidArgument(f"llm_provider={self.llm_provider!r} is not known", hint=f"one of {', '.join(PROVIDERS)}")
        if self.llm_azure_endpoint is not None and self.llm_provider not in (None, "azure_openai"):
            raise InvalidArgument("llm_azure_endpoint is for llm_provider='azure_openai'")
        if self.llm_enabled:
            raise Unsupported(
                "llm_enabled=True: this kernel makes no model calls yet, so there is nothing to configure; nothing was sent anywhere",
                hint="leave llm_enabled out: programs run as they are, and plain language goes to template mode; planner=your_function lets a model of yours write the programs",
            )
        without = [n for n in ("llm_provider", "llm_api_key", "llm_azure_endpoint") if getattr(self, n) is not None]
        if without:
            warnings.warn(f"{', '.join(without)} has no effect without llm_enabled=True", UserWarning, stacklevel=5)
        if self.state_file is not None and not self.state_enabled:
            warnings.warn("state_file has no effect without state_enabled=True", UserWarning, stacklevel=5)
        if self.state_enabled and "state" in ([self.deny] if isinstance(self.deny, str) else list(self.deny)):
            raise InvalidArgument("state_enabled=True needs the capability that deny= takes away: state")


@dataclass(frozen=True)
class Planned:
    """A program that is ready to run, and where it comes from."""

    source: str
    mode: str
    name: str = "program.py"
    title: str = ""


class Agent:
    """Runs tasks with one set of tools, permissions, limits and state."""

    def __init__(self, settings: Settings) -> None:
        settings.check()
        self.settings = settings
        self.kernel = Kernel(settings.home, settings.binary, settings.start)
        self.workspace = self._workspace()
        self.state: Optional[StateFile] = None
        if settings.state_enabled:
            self.state = StateFile(self._state_path())
        self._tools: Optional[list[Tool]] = None
        self._workspace_file = ""
        self._environment = ""

    def _workspace(self) -> Optional[Path]:
        if self.settings.workspace_dir is None:
            return None
        path = Path(self.settings.workspace_dir).expanduser().absolute()
        home = os.path.realpath(self.kernel.home)
        if os.path.realpath(path) == home or os.path.realpath(path).startswith(home + os.sep):
            raise InvalidArgument(f"workspace_dir {path} lies in the kernel's data directory", hint="choose a folder of its own")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise InvalidArgument(f"workspace_dir {path} cannot be used: {e.strerror}") from None
        return path

    def environment(self) -> Steps[str]:
        """The environment of the agent's programs, which is built before the first of them; "": they need none."""
        packages = [self.settings.packages] if isinstance(self.settings.packages, str) else list(self.settings.packages)
        if packages and not os.path.isdir(self._environment):
            self._environment = yield Call(lambda: _home.build_environment(self.kernel.binary(), self.kernel.home, packages))
        return self._environment

    def _state_path(self) -> Optional[Path]:
        if self.settings.state_file is None:
            return None
        path = Path(self.settings.state_file).expanduser()
        return path if path.is_absolute() or self.workspace is None else self.workspace / path

    # Tools

    def tool_files(self) -> Steps[list[str]]:
        """The configuration files of the agent's programs, that of the workspace included."""
        found = files(self.settings.tools)
        if self.workspace is not None:
            if not os.path.exists(self._workspace_file):
                yield from self.kernel.info()  # a kernel that starts makes the data directory
                self._workspace_file = yield Call(partial(_workspace_config, self.kernel.home, self.workspace))
            found.append(self._workspace_file)
        return found

    def known_tools(self, fresh: bool = False) -> Steps[list[Tool]]:
        """The tools that programs can import; asked once."""
        if self._tools is None or fresh:
            paths = yield from self.tool_files()
            self._tools = []
            if paths:
                self._tools = yield from self.kernel.tools(paths, "")
        return self._tools or []

    def list_tools(self, server: str) -> Steps[list[Tool]]:
        tools = yield from self.known_tools(fresh=True)
        return [t for t in tools if not server or server in (t.server, t.python_server)]

    def search_tools(self, query: str, server: str, limit: int) -> Steps[list[Tool]]:
        paths = yield from self.tool_files()
        if not paths:
            return []
        found = yield from self.kernel.search(paths, query, server, limit)
        return found

    def list_servers(self) -> Steps[list[ToolServer]]:
        paths = yield from self.tool_files()
        if not paths:
            return []
        servers = yield from self.kernel.servers(paths)
        return servers

    # Tasks

    def plan(self, task: str) -> Steps[Planned]:
        """The program for a task: the task itself if it is one, else what planner or template mode write. Raises
        Unsupported if template mode cannot do it."""
        if not isinstance(task, str):
            raise InvalidArgument(f"a task is a text, not {type(task).__name__}")
        source = program_in(task)
        if source is not None:
            return Planned(source, "code")
        if self.settings.planner is not None:
            planned = yield from self._ask_planner(task)
            return planned
        planned = yield from self._template(task)
        log.info("template mode (no model is configured): %s", planned.title)
        return planned

    def _ask_planner(self, task: str) -> Steps[Planned]:
        tools = yield from self.known_tools()
        source = yield Notify(partial(_call_planner, self.settings.planner, tools), task)
        if not isinstance(source, str) or not source.strip():
            raise InvalidArgument("the planner gave no program", hint="it returns the program as a text, or raises")
        return Planned(program_in(source) or source, "planner", title=task.strip()[:160])

    def _template(self, task: str) -> Steps[Planned]:
        # Without tools first: servers are started only for a task that needs one.
        try:
            plan = yield from self.kernel.plan(task, self._tools or [])
        except Unsupported:
            stale, tools = self._tools, (yield from self.known_tools(fresh=True))
            if not tools or stale == tools:
                raise
            plan = yield from self.kernel.plan(task, tools)
        program = plan["program"]
        return Planned(program["source"], "template", program["name"], plan["title"])

    def spec(self, planned: Planned, options: Mapping[str, Any]) -> Steps[tuple[Spec, dict[str, Any], int]]:
        """The Spec of a program of this agent, the state that it is given, and how far its lines have moved."""
        s = self.settings
        given = dict(options)
        if s.timeout is not None:
            given.setdefault("timeout", s.timeout)
        source, moved = planned.source, 0
        modules = yield Call(partial(local_tools, self.workspace or ".", source))
        modules.update(given.pop("modules", {}))
        snapshot: dict[str, Any] = {}
        if self.state is not None:
            snapshot = self.state.snapshot()
        if self.state is not None and snapshot:
            source, moved = with_prelude(source, f"import {MODULE}")
            modules[MODULE] = self.state.module(snapshot)
        paths = yield from self.tool_files()
        environment = yield from self.environment()
        spec = Spec(
            source, name=planned.name, tools=paths, allow=s.allow, deny=s.deny, modules=modules, limits=s.limits,
            namespace=s.namespace, backend=s.backend, priority=s.priority, environment=environment,
        )  # fmt: skip
        return spec.with_options(**given), snapshot, moved

    def execute(self, task: str, is_code: bool, on_output: Callback, on_event: Callback, on_ask: Callback, options: Mapping[str, Any]) -> Steps[Result]:
        """Plans, runs, takes the state over. What is wrong with the task is in the result."""
        try:
            planned = Planned(_program(task), "code") if is_code else (yield from self.plan(task))
        except Unsupported as e:
            return _refused(e)
        spec, snapshot, moved = yield from self.spec(planned, options)
        result = yield from self.kernel.run(spec, {}, on_output, on_event, on_ask)
        if result.pid is not None:
            yield from self.take_state(result.pid, snapshot)
        return finish(result, planned, spec.name, moved)

    def stream(self, task: str, options: Mapping[str, Any]) -> Steps[None]:
        """The same as events. What cannot run is raised."""
        planned = yield from self.plan(task)
        spec, snapshot, moved = yield from self.spec(planned, options)
        process = yield from self.kernel.stream(spec, {})
        yield from self.take_state(process.pid, snapshot)

    def take_state(self, pid: int, snapshot: Mapping[str, Any]) -> Steps[None]:
        """Takes over what a program set, however it ended."""
        if self.state is None:
            return
        after = yield from self.kernel.wire_state(pid)
        self.state.merge(snapshot, after)
        if self.settings.state_auto_save and self.state.path is not None:
            yield Call(self.state.save)

    def save_state(self, data: Optional[Mapping[str, Any]]) -> Steps[None]:
        if self.state is None:
            raise InvalidArgument("this agent keeps no state", hint="create_agent(state_enabled=True, state_file=...)")
        if data is not None:
            self.state.values.clear()
            self.state.values.update(data)
        if self.state.path is not None or data is None:
            yield Call(self.state.save)


def _call_planner(planner: Optional[Planner], tools: list[Tool], task: str) -> Any:
    assert planner is not None
    return planner(task, tools)


def _program(code: str) -> str:
    if not isinstance(code, str):
        raise InvalidArgument(f"a program is a text, not {type(code).__name__}")
    return dedent(code)


def _refused(error: KernelError) -> Result:
    result = Result.refused(error, "")
    result.mode = "template"
    return result


def finish(result: Result, planned: Planned, name: str, moved: int) -> Result:
    """The result as the user knows the program: without the prelude, with its origin."""
    result.mode, result.code, result.title = planned.mode, planned.source, planned.title
    if result.error is not None and moved:
        result.error.traceback = shift_traceback(result.error.traceback, name, moved)
    return result


def _workspace_config(home: str, workspace: Path) -> str:
    """Writes the configuration file that serves a workspace, below the data directory: a process that is recovered
    finds it there."""
    root = os.path.realpath(workspace)
    server = {"command": sys.executable or "python3", "args": ["-I", os.path.abspath(fileserver.__file__), root, home]}
    content = json.dumps({"mcpServers": {"workspace": server}}, indent=2) + "\n"
    folder = Path(home) / "workspaces"
    path = folder / f"{hashlib.sha256(content.encode()).hexdigest()[:16]}.json"
    try:
        if not path.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            temporary = path.with_suffix(f".{os.getpid()}")
            temporary.write_text(content, encoding="utf-8")
            os.replace(temporary, path)
    except OSError as e:
        raise StorageFailed(f"the configuration of the workspace cannot be written: {e}") from None
    return str(path)


# Background tasks


#: How a task stands, from how its process stands.
_STATUS = {"ready": "pending", "running": "running", "waiting": "running", "unfinished": "unfinished", "failed": "failed"}


@dataclass(frozen=True)
class TaskStatus:
    """How a background task stands. Its id is the PID of its process."""

    task_id: int
    status: str  #: pending, running, paused, completed, failed, cancelled or unfinished
    description: str = ""
    process: Optional[Process] = field(default=None, repr=False)

    @property
    def done(self) -> bool:
        """The task has ended, well or badly."""
        return self.status in ("completed", "failed", "cancelled")

    @property
    def error(self) -> Optional[KernelError]:
        """Why it failed or was cancelled."""
        return self.process.error if self.process else None

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


@dataclass
class _Dispatched:
    description: str
    planned: Planned
    name: str
    moved: int
    snapshot: Mapping[str, Any]
    collected: bool = False


class Tasks:
    """Background tasks of an agent: each is a process."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.kernel = agent.kernel
        self.known: dict[int, _Dispatched] = {}

    def dispatch(self, task: str, options: Mapping[str, Any]) -> Steps[int]:
        planned = yield from self.agent.plan(task)
        spec, snapshot, moved = yield from self.agent.spec(planned, options)
        process = yield from self.kernel.spawn(spec, {})
        description = planned.title or " ".join(task.split())[:100]
        self.known[process.pid] = _Dispatched(description, planned, spec.name, moved, snapshot)
        return process.pid

    def status(self, task_id: Any) -> Steps[TaskStatus]:
        process = yield from self.kernel.process(task_id)
        return TaskStatus.of(process, self._description(process.pid))

    def _description(self, pid: int) -> str:
        return self.known[pid].description if pid in self.known else ""

    def wait(self, task_id: Any, timeout: Optional[float]) -> Steps[Result]:
        process = yield from self.kernel.wait(task_id, timeout)
        task = self.known.get(process.pid)
        result = yield from self.kernel.collect(process)
        if task is None:
            return result
        if process.done and not task.collected:
            task.collected = True
            yield from self.agent.take_state(process.pid, task.snapshot)
        return finish(result, task.planned, task.name, task.moved)

    def all(self, everybody: bool) -> Steps[list[TaskStatus]]:
        if everybody:
            processes = yield from self.kernel.ps(True, self.agent.settings.namespace, 0, 0)
        else:
            processes = []
            for pid in sorted(self.known):
                process = yield from self.kernel.process(pid)
                processes.append(process)
        return [TaskStatus.of(p, self._description(p.pid)) for p in processes]

    def cancel(self, task_id: Any) -> Steps[bool]:
        pid = check_pid(task_id)
        try:
            yield from self.kernel.signal(pid, "kill")
        except Conflict:
            return False
        return True

    def recover(self) -> Steps[list[TaskStatus]]:
        processes = yield from self.kernel.recover(None)
        return [TaskStatus.of(p, self._description(p.pid)) for p in processes]
