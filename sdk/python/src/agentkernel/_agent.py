"""What agents and task managers do, as steps. No input or output happens here."""

from __future__ import annotations

import logging
import os
import warnings
import weakref
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Callable, Generic, Mapping, Optional, Sequence, Union

from . import _home
from ._bymodel import MODE, Asked, Told, explain
from ._filetools import file_tools
from ._functionserver import NAME, FunctionServer
from ._code import dedent, program_in, shift_traceback, with_prelude
from ._kernel import MOST_TOOLS, Callback, Kernel, keyed
from ._steps import Call, Loop, Notify, Steps
from .errors import InvalidArgument, KernelError, KernelGone, NotFound, Unavailable, Unsupported
from .functions import functions_of
from ._result import R
from .model import Tool, ToolServer
from .spec import Limits, PathLike, Span, Spec, files, folder, local_tools, present, texts
from .state import MODULE, StateFile, wire_of

log = logging.getLogger("agentkernel")

#: Turns a task in plain language into a program: ``planner(task, tools) -> source``. May be a coroutine function for
#: the async client.
Planner = Callable[[str, list[Tool]], Any]

#: What ``llm_provider`` may be, and what the kernel calls that kind of server.
PROVIDERS = {"openai": "openai", "azure_openai": "azure", "anthropic": "anthropic", "openrouter": "openrouter", "ollama": "ollama", "vllm": "vllm"}

#: Those that run on machines of one's own, and mostly ask for no key.
_KEYLESS = ("ollama", "vllm")

#: The alias of the model of ``llm_enabled``: the default of the agent's programs.
MODEL = "agent"


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
    timeout: Optional[Span] = None
    workspace_dir: Optional[PathLike] = None
    publish: bool = False
    volumes: Mapping[str, Any] = field(default_factory=dict)
    allow_hosts: Union[str, Sequence[str]] = ()
    state_enabled: bool = False
    state_file: Optional[PathLike] = None
    state_auto_save: bool = True
    planner: Optional[Planner] = None
    functions: Union[Callable[..., Any], Sequence[Callable[..., Any]]] = ()
    packages: Union[str, Sequence[str]] = ()
    llm_enabled: bool = False
    llm_provider: Optional[str] = None
    llm_api_key: Optional[str] = field(default=None, repr=False)
    llm_azure_endpoint: Optional[str] = None
    llm_azure_deployment: Optional[str] = None
    llm_azure_api_key: Optional[str] = field(default=None, repr=False)
    llm_azure_api_version: Optional[str] = None
    llm_model: Optional[str] = None
    llm_base_url: Optional[str] = None
    models: Union[str, Sequence[str]] = ()
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)

    def check(self) -> None:
        """Says what cannot be done before anything is done with it."""
        for name in ("allow", "deny", "allow_hosts", "models", "packages"):
            setattr(self, name, texts(getattr(self, name), name))  # each program has them, also those of what can be read once
        if self.planner is not None and not callable(self.planner):
            raise InvalidArgument(f"planner={self.planner!r} is not a function", hint="planner(task, tools) returns a program")
        if self.publish and self.workspace_dir is None:
            raise InvalidArgument("publish=True without workspace_dir: there is nothing to publish", hint="workspace_dir= names the folder")
        if self.llm_provider is not None and self.llm_provider not in PROVIDERS:
            raise InvalidArgument(f"llm_provider={self.llm_provider!r} is not known", hint=f"one of {', '.join(PROVIDERS)}")
        azure = [n for n in _OF_MODELS if n.startswith("llm_azure_") and getattr(self, n) is not None]
        if azure and self.llm_provider not in (None, "azure_openai"):
            raise InvalidArgument(f"{azure[0]} is for llm_provider='azure_openai'")
        if self.llm_enabled:
            self.model()
        without = [n for n in _OF_MODELS if getattr(self, n) is not None]
        if without and not self.llm_enabled:
            warnings.warn(f"{', '.join(without)} has no effect without llm_enabled=True", UserWarning, stacklevel=5)
        if self.state_file is not None and not self.state_enabled:
            warnings.warn("state_file has no effect without state_enabled=True", UserWarning, stacklevel=5)
        if self.state_enabled and "state" in self.deny:
            raise InvalidArgument("state_enabled=True needs the capability that deny= takes away: state")


    def model(self) -> tuple[list[str], dict[str, str]]:
        """The models that the agent's programs bring, and their keys: that of ``llm_enabled`` first."""
        models, keys = texts(self.models, "models"), dict(self.keys or {})
        if not self.llm_enabled:
            return models, keys
        provider = self.llm_provider or ("azure_openai" if self.llm_azure_endpoint else "openai")
        name = self.llm_model or self.llm_azure_deployment
        if not name:
            raise InvalidArgument("llm_enabled=True without a model: nothing says which one is to be asked", hint='llm_model="gpt-5-mini"; of Azure also llm_azure_deployment=, the name of your deployment')
        key = self.llm_api_key or (self.llm_azure_api_key if provider == "azure_openai" else None)
        if not key and provider not in _KEYLESS:
            raise InvalidArgument("llm_enabled=True without a key", hint="llm_api_key= is handed to the kernel, which keeps it in memory alone")
        options = {"url": self.llm_base_url}
        if provider == "azure_openai":
            options = self._azure(self.llm_base_url)
        if key:
            options["key"] = "given"
            keys.setdefault(MODEL, key)
        words = [MODEL, f"{PROVIDERS[provider]}:{name}", *(f"{n}={v}" for n, v in options.items() if v)]
        if any(not isinstance(w, str) or len(w.split()) != 1 for w in words):
            raise InvalidArgument("the llm_* arguments are texts without spaces")
        return [" ".join(words), *models], keys

    def _azure(self, base: Optional[str]) -> dict[str, Optional[str]]:
        """Where a model of Azure is: with a version of the API at a deployment, without one behind the address that needs none."""
        endpoint = base or self.llm_azure_endpoint
        if not endpoint:
            raise InvalidArgument("llm_provider='azure_openai' without an address", hint='llm_azure_endpoint="https://NAME.openai.azure.com"')
        if self.llm_azure_api_version:
            return {"url": endpoint, "deployment": self.llm_azure_deployment or self.llm_model, "api_version": self.llm_azure_api_version}
        endpoint = endpoint.rstrip("/")
        return {"url": endpoint if endpoint.endswith("/openai/v1") else endpoint + "/openai/v1", "deployment": self.llm_azure_deployment}


#: The arguments of ``create_agent`` that say what model its programs have.
_OF_MODELS = (
    "llm_provider", "llm_api_key", "llm_azure_endpoint", "llm_azure_deployment", "llm_azure_api_key", "llm_azure_api_version", "llm_model", "llm_base_url",
)  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """A program that is ready to run, and where it comes from."""

    source: str
    mode: str
    name: str = "program.py"
    title: str = ""
    args: tuple[str, ...] = ()
    turns: int = 0  #: how many answers of models it may take where nobody says; 0: it asks none


class Agent(Generic[R]):
    """Runs tasks with one set of tools, permissions, limits and state."""

    def __init__(self, settings: Settings, outcome: type[R]) -> None:
        settings.check()
        self.settings = settings
        self.kernel = Kernel(settings.home, settings.binary, settings.start, outcome)
        self.workspace = self._workspace()
        settings.tools = files(settings.tools)  # once: they stay those that were looked at, wherever the program goes
        present(settings.tools)
        self.state: Optional[StateFile] = None
        if settings.state_enabled:
            self.state = StateFile(self._state_path())
        self._tools: Optional[list[Tool]] = None
        self._environment = ""
        self._server: Optional[FunctionServer] = None
        if functions := functions_of(settings.functions):
            self._server = FunctionServer(functions, self.kernel.home)
            weakref.finalize(self, self._server.close)  # also when the program ends

    def _workspace(self) -> Optional[Path]:
        if self.settings.workspace_dir is None:
            return None
        path = Path(folder(self.settings.workspace_dir, "workspace_dir"))
        home = os.path.realpath(self.kernel.home)
        if os.path.realpath(path) == home or os.path.realpath(path).startswith(home + os.sep):
            raise InvalidArgument(f"workspace_dir {path} lies in the kernel's data directory", hint="choose a folder of its own")
        return path

    def close(self) -> None:
        """Serves the agent's functions no more."""
        if self._server is not None:
            self._server.close()

    def environment(self) -> Steps[str]:
        """The environment of the agent's programs, which is built before the first of them; "": they need none."""
        packages = texts(self.settings.packages, "packages")
        if packages and not os.path.isdir(self._environment):
            self._environment = yield Call(lambda: _home.build_environment(self.kernel.binary(), self.kernel.home, packages))
        return self._environment

    def _state_path(self) -> Optional[Path]:
        if self.settings.state_file is None:
            return None
        path = Path(self.settings.state_file).expanduser()
        return path if path.is_absolute() or self.workspace is None else self.workspace / path

    # Tools

    def modules(self, source: str = "tools") -> dict[str, str]:
        """The local tools of a program: those of the workspace, else of the working directory, and the functions that make
        the workspace's files tools."""
        found: dict[str, str] = {}
        if self.workspace is not None:
            found.update(file_tools(source))
        beside = self.workspace if self.workspace is not None and (self.workspace / "tools").is_dir() else Path(".")
        found.update(local_tools(beside, source))
        self._named_once(found)
        return found

    def _named_once(self, modules: Mapping[str, str]) -> None:
        """Refuses local tools that have the name of the agent's functions."""
        for module in modules:
            if self._server is not None and module.startswith(f"tools.{NAME}."):
                raise InvalidArgument(f"the local tool {module.replace('.', '/')}.py and functions= have one name: a program that imports tools.{NAME} could mean either", hint=f"rename the folder tools/{NAME}")

    def served(self, tools: Union[PathLike, Sequence[PathLike]]) -> Steps[list[str]]:
        """Configuration files with that of the agent's functions, which are served from then on."""
        paths = files(tools)
        if self._server is None:
            return paths
        self._server.loop = yield Loop()
        if not self._server.listens():
            yield from self.kernel.info()  # the data directory is the kernel's to make
        own = yield Call(self._server.start)
        try:
            servers = (yield from self.kernel.servers(paths)) if paths else []
        except (NotFound, InvalidArgument):
            servers = []  # whoever uses the files is told
        for server in servers:
            if NAME in (server.name, server.python_name):
                raise InvalidArgument(f"the server {server.name!r} of {server.source} and functions= have one name: a program that imports tools.{NAME} could mean either", hint=f"give the server in {server.source} another name")
        return [*paths, own]

    def known_tools(self, fresh: bool = False) -> Steps[list[Tool]]:
        """The tools that programs can import; asked once."""
        if self._tools is None or fresh:
            paths, modules = (yield from self.served(self.settings.tools)), (yield Call(self.modules))
            local = yield from self.kernel.search([], "", "", MOST_TOOLS, modules) if modules else _none()
            served = yield from self.kernel.tools(paths, "") if paths else _none()
            self._tools = [*local, *served]
        return self._tools

    def list_tools(self, server: str) -> Steps[list[Tool]]:
        tools = yield from self.known_tools(fresh=True)
        found = [t for t in tools if not server or server in (t.server, t.python_server)]
        if server and not found:
            names = ", ".join(sorted({t.python_server for t in tools})) or "there is none"
            raise NotFound(f"there is no tool server {server!r}", op="tools", hint=f"the servers: {names}")
        return found

    def search_tools(self, query: str, server: str, limit: int) -> Steps[list[Tool]]:
        modules = yield Call(self.modules)
        paths = yield from self.served(self.settings.tools)
        found = yield from self.kernel.search(paths, query, server, limit, modules)
        return found

    def list_servers(self) -> Steps[list[ToolServer]]:
        paths, modules = (yield from self.served(self.settings.tools)), (yield Call(self.modules))
        names = sorted({m.split(".")[1] for m in modules})
        servers = yield from self.kernel.servers(paths) if paths else _none()
        return [*(ToolServer(n, n, "local", trusted=True, running=True) for n in names), *servers]

    # Tasks

    def plan(self, task: str, asked: Asked = Asked(), options: Optional[Mapping[str, Any]] = None) -> Steps[Planned]:
        """The program for a task: the task itself if it is one, else what does it: what the planner writes; the loop in which
        a model does it, if there is one; or what template mode writes. Raises Unsupported if that cannot do it."""
        if not isinstance(task, str):
            raise InvalidArgument(f"a task is a text, not {type(task).__name__}")
        source = program_in(task)
        if asked.of_results() and (source is not None or self.settings.planner is not None):
            raise InvalidArgument(f"{asked.of_results()[0]} is for a task in plain language that a model of the kernel does", hint="leave it out for a program, and with planner=")
        if source is not None:
            return Planned(source, "code")
        if self.settings.planner is not None:
            planned = yield from self._ask_planner(task)
            return planned
        try:
            planned = yield from self._by_model(task, asked, options or {})
            return planned
        except Unsupported as e:
            none = e
        if asked.of_results():
            raise Unsupported(f"{none.message}, and a recipe takes no {asked.of_results()[0]}", op=none.op, hint=_models(none))
        planned = yield from self._template(task, none)
        log.info("template mode (no model is asked): %s", planned.title)
        return planned

    def _by_model(self, task: str, asked: Asked, options: Mapping[str, Any]) -> Steps[Planned]:
        """The loop in which a model does a task. Unsupported: there is no model."""
        if options.get("args"):
            raise InvalidArgument("args= is for programs", hint="put it into the task")
        spec, _, _ = yield from self._spec(Planned("tools", MODE), options, "")
        made = yield from self.kernel.task_program(asked.wire(task, spec.to_wire()))
        program = made["program"]
        return Planned(program["source"], MODE, program["name"], task.strip()[:160], tuple(program["args"]), made["turns"])

    def _ask_planner(self, task: str) -> Steps[Planned]:
        tools = yield from self.known_tools()
        source = yield Notify(partial(_call_planner, self.settings.planner, tools), task)
        if not isinstance(source, str) or not source.strip():
            raise InvalidArgument("the planner gave no program", hint="it returns the program as a text, or raises")
        return Planned(program_in(source) or source, "planner", title=task.strip()[:160])

    def _template(self, task: str, none: Unsupported) -> Steps[Planned]:
        # Without tools first: servers are started only for a task that needs one.
        try:
            plan = yield from self.kernel.plan(task, self._tools or [])
        except Unsupported as e:
            stale, tools = self._tools, (yield from self.known_tools(fresh=True))
            if not tools or stale == tools:
                raise _needs_model(e, none) from None
            try:
                plan = yield from self.kernel.plan(task, tools)
            except Unsupported as again:
                raise _needs_model(again, none) from None
        program = plan["program"]
        return Planned(program["source"], "template", program["name"], plan["title"])

    def spec(self, planned: Planned, options: Mapping[str, Any]) -> Steps[tuple[Spec, dict[str, Any], int]]:
        """The Spec of a program of this agent, the state that it is given, and how far its lines have moved."""
        environment = yield from self.environment()
        made = yield from self._spec(planned, options, environment)
        return made

    def _spec(self, planned: Planned, options: Mapping[str, Any], environment: str) -> Steps[tuple[Spec, dict[str, Any], int]]:
        s = self.settings
        given = dict(options)
        if s.timeout is not None:
            given.setdefault("timeout", s.timeout)
        source, moved = planned.source, 0
        modules = yield Call(partial(self.modules, source))
        modules.update(given.pop("modules", None) or {})
        snapshot: dict[str, Any] = {}
        if self.state is not None:
            snapshot = self.state.snapshot()
        if self.state is not None and snapshot:
            source, moved = with_prelude(source, f"import {MODULE}")
            modules[MODULE] = self.state.module(snapshot)
        models, keys = s.model()
        spec = Spec(
            source, name=planned.name, args=planned.args, tools=s.tools, allow=s.allow, allow_hosts=s.allow_hosts, deny=s.deny, modules=modules, limits=s.limits,
            workspace=self.workspace, publish=s.publish, volumes=s.volumes,
            namespace=s.namespace, backend=s.backend, priority=s.priority, environment=environment, models=models, keys=keys,
        )  # fmt: skip
        spec = spec.with_options(**given)
        if self._server is not None:
            self._named_once(modules)
            # Whoever hands a function over wants it called: that is the permission, for the programs of this agent.
            paths = yield from self.served(spec.tools)
            spec = spec.with_options(tools=paths, allow=[*texts(spec.allow, "allow"), NAME])
        return spec, snapshot, moved

    def execute(self, task: str, is_code: bool, on_output: Callback, on_event: Callback, on_ask: Callback, options: Mapping[str, Any]) -> Steps[R]:
        """Plans, runs, takes the state over. What is wrong with the task is in the result."""
        asked = Asked()
        if not is_code:
            asked, options = Asked.take(options)
        try:
            planned = Planned(_program(task), "code") if is_code else (yield from self.plan(task, asked, options))
        except Unsupported as e:
            return self.refused(e)
        spec, snapshot, moved = yield from self.spec(planned, asked.bounded(options, planned.turns))
        spec = keyed(spec)
        told = Told(self.kernel, asked.of(planned.mode))
        result = yield from self.kernel.run(spec, {}, on_output, on_event, on_ask, told.heard if told else None)
        if result.pid is not None:
            yield from self.take_state(result.pid, snapshot, spec.idempotency_key)
        return finish(result, planned, spec.name, moved)

    def stream(self, task: str, options: Mapping[str, Any]) -> Steps[None]:
        """The same as events. What cannot run is raised."""
        asked, options = Asked.take(options)
        if Told(self.kernel, asked):
            raise InvalidArgument("check= and on_step= are for execute_task and dispatch_task: here the events are yours")
        planned = yield from self.plan(task, asked, options)
        spec, snapshot, moved = yield from self.spec(planned, asked.bounded(options, planned.turns))
        spec = keyed(spec)
        process = yield from self.kernel.stream(spec, {})
        yield from self.take_state(process.pid, snapshot, spec.idempotency_key)

    def take_state(self, pid: int, snapshot: Mapping[str, Any], key: Optional[str]) -> Steps[None]:
        """Takes over what a program set, however it ended."""
        if self.state is None:
            return
        try:
            after = yield from self.kernel.wire_state(pid)
        except Unavailable as e:
            raise KernelGone(
                f"process {pid} has run, and its kernel ended before the state that it left could be read: {e.message}", op="state", pid=pid, idempotency_key=key or "",
                hint=f"client.result({pid}) has its result, client.state({pid}) its state, once a kernel runs again",
            ) from None
        self.state.merge(snapshot, after)
        if self.settings.state_auto_save and self.state.path is not None:
            yield Call(self.state.save)

    def refused(self, error: KernelError) -> R:
        """The result of a task for which there is no program."""
        result = self.kernel.outcome.refused(error, "")
        result.mode = "template"
        return result

    def save_state(self, data: Optional[Mapping[str, Any]]) -> Steps[None]:
        if self.state is None:
            raise InvalidArgument("this agent keeps no state", hint="create_agent(state_enabled=True, state_file=...)")
        if data is not None:
            if not isinstance(data, Mapping):
                raise InvalidArgument(f"a state is a dict, not {type(data).__name__}")
            wire_of(data)  # what cannot be kept is refused before anything is replaced
            self.state.values.clear()
            self.state.values.update(data)
        if self.state.path is not None or data is None:
            yield Call(self.state.save)


def _none() -> Steps[list[Any]]:
    yield from ()
    return []


def _models(none: Unsupported) -> str:
    """How there comes to be a model."""
    return f"{none.hint}; or bring one: llm_enabled=True of create_agent"


def _needs_model(error: Unsupported, none: Unsupported) -> Unsupported:
    """What template mode cannot do needs a model that writes the program, and there is none."""
    hint = f"this task needs a model to write its program, and {none.message}: {_models(none)}. Or give the program itself, or planner=your_function"
    return Unsupported(error.message, op=error.op, hint=f"{hint}. Without a model: {error.hint}" if error.hint else hint)


def _call_planner(planner: Optional[Planner], tools: list[Tool], task: str) -> Any:
    assert planner is not None
    return planner(task, tools)


def _program(code: str) -> str:
    if not isinstance(code, str):
        raise InvalidArgument(f"a program is a text, not {type(code).__name__}")
    return dedent(code)


def finish(result: R, planned: Planned, name: str, moved: int) -> R:
    """The result as the user knows the program: without the prelude, with its origin."""
    result.mode, result.code, result.title = planned.mode, planned.source, planned.title
    if planned.mode == MODE:
        result.code = ""  # of the programs that the model wrote there are several
        explain(result.error, result.stderr)
    if result.error is not None and moved:
        result.error.traceback = shift_traceback(result.error.traceback, name, moved)
    return result
