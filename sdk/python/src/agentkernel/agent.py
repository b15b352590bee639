"""Agents: an object that runs code and tasks with one set of tools, permissions, limits and state."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

from . import _sync
from ._agent import Agent, Planned, Planner, Settings
from .client import Client
from .model import Ask, Event, Skill, Step, Tool, ToolServer
from .result import Result
from .spec import Limits, PathLike, Span, Volume


class AgentHelper:
    """Runs code and tasks. Made by :func:`create_agent`."""

    def __init__(self, settings: Settings) -> None:
        self.agent = Agent(settings, Result)

    def __enter__(self) -> "AgentHelper":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"AgentHelper(home={self.agent.kernel.home!r})"

    def close(self) -> None:
        """Ends what the agent holds open: with ``functions`` their calls, which fail from then on; else nothing. Background tasks go on."""
        self.agent.close()

    @property
    def client(self) -> Client:
        """The client of the agent's kernel: ps, wait, kill, logs, trace and the rest."""
        s = self.agent.settings
        return Client(s.home, binary=s.binary, start=s.start)

    def execute_task(
        self,
        task: str,
        *,
        on_output: Optional[Callable[[Event], Any]] = None,
        on_event: Optional[Callable[[Event], Any]] = None,
        on_ask: Optional[Callable[[Ask], Any]] = None,
        on_step: Optional[Callable[[Step], Any]] = None,
        schema: Optional[Mapping[str, Any]] = None,
        check: Optional[Callable[[Any], Any]] = None,
        turns: Optional[int] = None,
        agents: Optional[int] = None,
        model: str = "",
        **options: Any,
    ) -> Result:
        """Does a task. Code is recognised, dedented and run as it is. Plain language goes to the planner; without one, to the model
        that the agent brings or that the kernel declares; without that, to template mode. ``timeout=`` and the fields of
        :class:`Spec` are options. A task that fails or cannot be done is a Result with an error; raised is what is wrong with the
        call or the kernel.

        For a task that a model does: ``on_step`` sees each :class:`Step`. The result has to fit the JSON Schema ``schema``, and
        ``check(result)`` has to accept it: True or None do, a text says what is wrong. The model is told, and mends it. ``turns`` is how
        many answers of models the task may take (default 20), those that its programs ask for included; ``budget=`` bounds the rest.
        Up to ``agents`` sub-agents may do parts of it (default none). ``model`` is the alias of the one that is asked (default: the first)."""
        options.update(on_step=on_step, schema=schema, check=check, turns=turns, agents=agents, model=model)
        return _sync.run(self.agent.execute(task, False, on_output, on_event, on_ask, options))

    def execute_code(
        self,
        code: str,
        *,
        on_output: Optional[Callable[[Event], Any]] = None,
        on_event: Optional[Callable[[Event], Any]] = None,
        on_ask: Optional[Callable[[Ask], Any]] = None,
        **options: Any,
    ) -> Result:
        """Runs a program, whatever it looks like; it is dedented."""
        return _sync.run(self.agent.execute(code, True, on_output, on_event, on_ask, options))

    def stream(self, task: str, **options: Any) -> Iterator[Event]:
        """Does a task and gives its events as they come. What cannot run is raised; how it ended is in the last event."""
        return _sync.iterate(self.agent.stream(task, options))

    def plan(self, task: str) -> Planned:
        """The program that would run for a task, without running it: ``source``, ``mode``, ``title``."""
        return _sync.run(self.agent.plan(task))

    def list_servers(self) -> list[ToolServer]:
        """The tool servers that programs of this agent can import from."""
        return _sync.run(self.agent.list_servers())

    def list_available_tools(self) -> list[Tool]:
        """All tools that programs of this agent can import; servers are started if needed."""
        return _sync.run(self.agent.list_tools(""))

    def get_server_tools(self, server_name: str) -> list[Tool]:
        """The tools of one server."""
        return _sync.run(self.agent.list_tools(server_name))

    def search_tools(self, query: str, max_results: int = 10, *, server: str = "") -> list[Tool]:
        """The tools that fit what one wants to do, best first. Servers whose tools are known are not started for it."""
        return _sync.run(self.agent.search_tools(query, server, max_results))

    def save_skill(self, name: str, code: str, description: str = "", tags: Sequence[str] = ()) -> Skill:
        """Saves functions that programs of this agent import from ``skills.<name>``, as a new version. The code is checked first."""
        return _sync.run(self.agent.kernel.save_skill(self.agent.settings.namespace, name, code, description, tags))

    def get_skill(self, name: str, version: int = 0) -> Skill:
        """A skill with its code; without ``version`` the newest."""
        return _sync.run(self.agent.kernel.skill(self.agent.settings.namespace, name, version))

    def list_skills(self) -> list[Skill]:
        """All skills that programs of this agent can import, without their code."""
        return _sync.run(self.agent.kernel.skills(self.agent.settings.namespace, "", 0))

    def search_skills(self, query: str, max_results: int = 20) -> list[Skill]:
        """The skills whose names, descriptions and tags fit, best first."""
        return _sync.run(self.agent.kernel.skills(self.agent.settings.namespace, query, max_results))

    def delete_skill(self, name: str) -> None:
        """Deletes a skill and its versions; programs that have begun keep their copy."""
        return _sync.run(self.agent.kernel.delete_skill(self.agent.settings.namespace, name))

    @property
    def state(self) -> dict[str, Any]:
        """What programs of this agent have kept with ``kernel.state``; changes are seen by the next program. Empty without
        ``state_enabled``."""
        return self.agent.state.values if self.agent.state is not None else {}

    def get_state(self) -> dict[str, Any]:
        """A copy of the state."""
        return dict(self.state)

    def save_state(self, data: Optional[Mapping[str, Any]] = None) -> None:
        """Writes the state to its file, or first replaces it by ``data``."""
        return _sync.run(self.agent.save_state(data))


def create_agent(
    *,
    tools: Union[PathLike, Sequence[PathLike]] = (),
    allow: Union[str, Sequence[str]] = (),
    deny: Union[str, Sequence[str]] = (),
    workspace_dir: Optional[PathLike] = None,
    publish: bool = False,
    volumes: Optional[Mapping[str, Union[PathLike, Volume]]] = None,
    allow_hosts: Union[str, Sequence[str]] = (),
    state_enabled: bool = False,
    state_file: Optional[PathLike] = None,
    state_auto_save: bool = True,
    timeout: Optional[Span] = None,
    limits: Optional[Limits] = None,
    namespace: str = "",
    backend: str = "",
    priority: int = 0,
    planner: Optional[Planner] = None,
    functions: Union[Callable[..., Any], Sequence[Callable[..., Any]]] = (),
    packages: Union[str, Sequence[str]] = (),
    home: Optional[PathLike] = None,
    binary: Optional[PathLike] = None,
    start: bool = True,
    llm_enabled: bool = False,
    llm_provider: Optional[str] = None,
    llm_api_key: Optional[str] = None,
    llm_azure_endpoint: Optional[str] = None,
    llm_azure_deployment: Optional[str] = None,
    llm_azure_api_key: Optional[str] = None,
    llm_azure_api_version: Optional[str] = None,
    llm_model: Optional[str] = None,
    llm_base_url: Optional[str] = None,
    models: Union[str, Sequence[str]] = (),
    keys: Optional[Mapping[str, str]] = None,
) -> AgentHelper:
    """Makes an agent. Nothing is started until it is used.

    ``tools`` are MCP configuration files whose servers programs may import, ``allow`` patterns of calls that may change
    things ("filesystem.write_*"), ``allow_hosts`` hosts that ``http.fetch`` reaches, ``deny`` capabilities that are taken
    away. ``workspace_dir`` is the folder that programs work in, and where local tools (``tools/``) and a relative
    ``state_file`` are sought. What a program changes there is kept apart until :meth:`Result.apply`; with ``publish`` it is
    applied when the program exits with 0. ``volumes`` are further folders by name, seen as ``/volumes/NAME``. With ``state_enabled`` each program begins with the ``kernel.state`` that the one before left; ``state_file``
    keeps it beyond this object, written after each program unless ``state_auto_save`` is off. ``timeout`` ends a program
    after so many seconds, ``backend`` says where programs run (default: the kernel chooses). ``planner`` writes programs for tasks in plain language, instead of a model or template mode.
    ``functions`` are functions of your program, sync or async, that programs import from ``tools.host``: they run where you call this, as long as the agent lives, and
    need no further permission; :func:`effect` says what they do.
    ``packages`` are those that programs may import ("polars>=1"): with your pip, wheels only, built once and kept. ``home``,
    ``binary`` and ``start`` are those of :class:`Client`. With ``llm_enabled=True`` a model of the agent's own
    does tasks in plain language, and programs ask it (``from kernel import llm``): ``llm_provider`` ("openai", "azure_openai", "anthropic", "openrouter", "ollama", "vllm"), ``llm_model`` and
    ``llm_base_url`` or ``llm_azure_endpoint`` say which, and ``llm_api_key`` is handed to the kernel, which keeps it in memory alone. ``models`` and ``keys`` are those of :class:`Spec`.
    """
    return AgentHelper(
        Settings(
            home=home, binary=binary, start=start, tools=tools, allow=allow, deny=deny, namespace=namespace, backend=backend, priority=priority,
            limits=limits or Limits(), timeout=timeout, workspace_dir=workspace_dir, publish=publish, volumes=volumes or {}, allow_hosts=allow_hosts, state_enabled=state_enabled,
            state_file=state_file, state_auto_save=state_auto_save, planner=planner, functions=functions, packages=packages, llm_enabled=llm_enabled,
            llm_provider=llm_provider, llm_api_key=llm_api_key, llm_azure_endpoint=llm_azure_endpoint, llm_azure_deployment=llm_azure_deployment,
            llm_azure_api_key=llm_azure_api_key, llm_azure_api_version=llm_azure_api_version, llm_model=llm_model, llm_base_url=llm_base_url, models=models, keys=keys or {},
        )
    )  # fmt: skip


def execute_task(
    task: str,
    *,
    on_step: Optional[Callable[[Step], Any]] = None,
    schema: Optional[Mapping[str, Any]] = None,
    check: Optional[Callable[[Any], Any]] = None,
    turns: Optional[int] = None,
    agents: Optional[int] = None,
    budget: Optional[Mapping[str, Any]] = None,
    model: str = "",
    **agent: Any,
) -> Result:
    """Does one task with an agent of its own; the other keyword arguments are those of :func:`create_agent`."""
    with create_agent(**agent) as helper:
        return helper.execute_task(task, on_step=on_step, schema=schema, check=check, turns=turns, agents=agents, budget=budget, model=model)


def execute_code(code: str, **agent: Any) -> Result:
    """Runs one program with an agent of its own; the keyword arguments are those of :func:`create_agent`."""
    with create_agent(**agent) as helper:
        return helper.execute_code(code)
