"""The client: processes of a kernel from Python. :mod:`agentkernel.aio` has the same with ``await``."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

from . import _files, _sync
from ._kernel import Kernel, Program, check_pid
from .changes import Applied, Change, Changes
from .model import Allowance, Ask, Budget, Entry, Event, Inspection, KernelInfo, ModelUsage, Process, Skill, Tool, ToolServer
from .result import Result
from .spec import PathLike, Span


class Client:
    """The kernel of a data directory. Safe for use by several threads.

    ``home`` is the data directory (default: $AGENTKERNEL_HOME, else the one that the command line uses), ``binary``
    the ``agentkernel`` executable (default: $AGENTKERNEL_BIN, PATH, the checkout). With ``start`` a kernel is started
    in the background when none runs; it ends by itself when it has been idle. ``embeddings`` is where that kernel finds
    vectors for its tool search: ``{"url": "http://127.0.0.1:11434/v1", "model": "...", "key": "env:VARIABLE"}``.

    Options of a program (``tools=``, ``allow=``, ``limits=`` ...) are the fields of :class:`Spec`.
    """

    def __init__(
        self,
        home: Optional[PathLike] = None,
        *,
        binary: Optional[PathLike] = None,
        start: bool = True,
        embeddings: Optional[Mapping[str, str]] = None,
    ) -> None:
        self.kernel = Kernel(home, binary, start, Result, embeddings)

    @property
    def home(self) -> str:
        """The data directory."""
        return self.kernel.home

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client(home={self.home!r})"

    def close(self) -> None:
        """Nothing is held open between calls, and processes go on; it is there for ``with``."""

    def info(self) -> KernelInfo:
        """Which kernel this is, how many processes run and how many wait for recover."""
        return _sync.run(self.kernel.info())

    def shutdown(self) -> bool:
        """Ends the kernel; processes stay where their journals say. False if none runs."""
        return _sync.run(self.kernel.shutdown())

    def run(
        self,
        program: Program,
        *,
        on_output: Optional[Callable[[Event], Any]] = None,
        on_event: Optional[Callable[[Event], Any]] = None,
        on_ask: Optional[Callable[[Ask], Any]] = None,
        **options: Any,
    ) -> Result:
        """Runs a program and waits for its end. ``on_output`` sees what it prints as it comes, ``on_event`` every event;
        ``on_ask`` answers whether a call that changes things may run: True, False or "always". A program that fails,
        or is refused before it runs, is a Result with an error; raised is what is wrong with the call or the kernel."""
        return _sync.run(self.kernel.run(program, options, on_output, on_event, on_ask))

    def stream(self, program: Program, **options: Any) -> Iterator[Event]:
        """Starts a program and gives its events as they come; the last one is "end", or "state" with a paused process.
        If you stop reading, the process goes on."""
        return _sync.iterate(self.kernel.stream(program, options))

    def spawn(self, program: Program, **options: Any) -> Process:
        """Starts a program in the background; it is durable when this returns."""
        return _sync.run(self.kernel.spawn(program, options))

    def ps(self, *, all: bool = False, namespace: str = "", parent: int = 0, limit: int = 0) -> list[Process]:
        """Processes, newest first; with ``all`` those that have ended, too."""
        return _sync.run(self.kernel.ps(all, namespace, parent, limit))

    def process(self, pid: int) -> Process:
        """One process as it stands."""
        return _sync.run(self.kernel.process(pid))

    def wait(self, pid: int, timeout: Optional[Span] = None) -> Process:
        """Waits until a process has ended or is paused. Raises Timeout after so many seconds, and KernelGone if the kernel
        ends meanwhile: its hint says how to go on."""
        return _sync.run(self.kernel.wait(pid, timeout))

    def result(self, pid: int, timeout: Optional[Span] = None) -> Result:
        """Waits for a process and gives its result, with everything that it printed."""
        return _sync.run(self.kernel.result(pid, timeout))

    def kill(self, pid: int, signal: str = "kill") -> None:
        """Ends a process and its children, or sends another signal: "interrupt", "pause", "resume"."""
        _sync.run(self.kernel.signal(pid, signal))

    def stop(self, pid: int, *, grace: float = 10, tree: bool = False) -> Process:
        """Asks a process and its children to end, and waits for that; what has not ended after ``grace`` seconds is killed.

        The program is interrupted, as by ``KernelInterrupt``. With ``tree`` also the children that were detached.
        """
        return _sync.run(self.kernel.stop(pid, grace, tree))

    def tell(self, pid: int, payload: Any = None) -> None:
        """Puts a payload before a program, which takes it with ``signals.wait()``; what JSON has."""
        _sync.run(self.kernel.signal(pid, "user", payload=payload))

    def halt(self, *, namespace: Optional[str] = None, tree: Optional[int] = None, why: str = "") -> None:
        """Lets everything stand still until :meth:`thaw`, or a namespace, or a process with all below it."""
        _sync.run(self.kernel.hold("halt", namespace, tree, why=why))

    def thaw(self, *, namespace: Optional[str] = None, tree: Optional[int] = None) -> None:
        """Ends what the same :meth:`halt` has begun."""
        _sync.run(self.kernel.hold("thaw", namespace, tree))

    def pause(self, pid: int) -> None:
        """Stops a process with its children, at once also where they compute."""
        _sync.run(self.kernel.signal(pid, "pause"))

    def resume(self, pid: int) -> None:
        """Lets a paused process go on, with the children that were paused with it."""
        _sync.run(self.kernel.signal(pid, "resume"))

    def budget(self, pid: int) -> Budget:
        """What a process with all below it may spend, and has spent. Raises NotFound if it has no budget of its own."""
        return _sync.run(self.kernel.budget(pid))

    def add_budget(
        self, pid: int, usd: Union[int, float, str, Decimal, None] = None, tokens: Union[int, str, None] = None, calls: Union[int, str, None] = None,
        turns: Union[int, str, None] = None, time: Optional[Span] = None,
    ) -> Budget:  # fmt: skip
        """Raises the budget of a process; what was paused for it goes on. If the connection breaks, look with :meth:`budget` before you repeat it."""
        return _sync.run(self.kernel.add_budget(pid, {"usd": usd, "tokens": tokens, "calls": calls, "turns": turns, "time": time}))

    def allowances(self, namespace: Optional[str] = None) -> list[Allowance]:
        """What namespaces may spend in the day and the month that it is, and have spent; without ``namespace`` those with an allowance of their own."""
        return _sync.run(self.kernel.allowances(namespace))

    def llm_usage(
        self, *by: str, since: Union[datetime.datetime, Span, None] = None, until: Union[datetime.datetime, Span, None] = None, namespace: Optional[str] = None, tree: Optional[int] = None
    ) -> ModelUsage:
        """What calls to models have used, by "agent", "model", "day", "namespace" or "tree". ``since`` and ``until`` are datetimes, or how long ago."""
        return _sync.run(self.kernel.llm_usage(by, since, until, namespace, tree))

    def llm_limits(self) -> dict[str, Any]:
        """What the kernel knows of the limits of providers, what is left of them, and what waits: as ``GET /models/limits`` has it."""
        return _sync.run(self.kernel.llm_limits())

    def give_key(self, model: str, key: str, pid: Optional[int] = None) -> None:
        """Hands over the key of a model that is declared with ``key=given``, in place of the one before: by the kernel, or by the process ``pid``
        (``models=``). It is in the memory of the kernel alone, and has to be given to the next one again. Calls that wait for it go on."""
        _sync.run(self.kernel.give_key(model, key, pid))

    def answer(self, pid: int, ask: int, answer: str) -> None:
        """Answers an event of kind "ask" by its id: "yes", "always" or "no"."""
        _sync.run(self.kernel.answer(pid, ask, answer))

    def recover(self, pid: Optional[int] = None) -> list[Process]:
        """Continues unfinished processes, one or all. What they did is read from the journal, not repeated."""
        return _sync.run(self.kernel.recover(pid))

    def logs(self, pid: int, *, follow: bool = False) -> Iterator[Event]:
        """What a process printed, as events of kind "output"; with ``follow`` until it ends."""
        return _sync.iterate(self.kernel.events(pid, 1, follow, ("output",)))

    def events(self, pid: int, *, first: int = 1, follow: bool = False) -> Iterator[Event]:
        """All events of a process from a journal position on; with ``follow`` until it ends."""
        return _sync.iterate(self.kernel.events(pid, first, follow))

    def trace(self, pid: int, *, first: int = 1, limit: int = 0) -> list[Entry]:
        """The journal of a process: each call with its arguments and its result."""
        return _sync.run(self.kernel.trace(pid, first, limit))

    def state(self, pid: int) -> dict[str, Any]:
        """The working set of a process, also after its end."""
        return _sync.run(self.kernel.state(pid))

    def diff(self, pid: int) -> Changes:
        """What a process did to the files of its workspace and volumes, also while it runs."""
        return _sync.run(_files.changes(self.kernel, check_pid(pid)))

    def patch(self, pid: int) -> str:
        """The same as a unified diff, as ``patch`` reads it."""
        return _sync.run(_files.patch(self.kernel, check_pid(pid)))

    def apply(self, pid: int, paths: Union[str, Sequence[str]] = (), *, force: bool = False) -> Applied:
        """Writes the changes of a process that has ended to its folder: all, or those at ``paths``. Raises Conflict, and writes
        nothing, if the folder has changed at such a place since the process began; ``force`` replaces."""
        return _sync.run(_files.apply(self.kernel, check_pid(pid), paths, force))

    def discard(self, pid: int) -> None:
        """Throws the changes of a process away for good."""
        return _sync.run(_files.discard(self.kernel, check_pid(pid)))

    def artifacts(self, pid: int) -> list[Change]:
        """The files that a process made or changed, with size and type; also while it runs."""
        return _sync.run(_files.artifacts(self.kernel, check_pid(pid)))

    def get_file(self, pid: int, path: PathLike, *, before: bool = False) -> bytes:
        """One file as a process left it ("out/report.csv"), or as it was ``before``."""
        return _sync.run(_files.read(self.kernel, check_pid(pid), path, before))

    def save_file(self, pid: int, path: PathLike, to: Optional[PathLike] = None, *, before: bool = False) -> Path:
        """Copies one file of a process out, however large, to a path or into a folder (default: here), and gives its path."""
        return _sync.run(_files.save(self.kernel, check_pid(pid), path, to, before))

    def inspect(self, pid: int) -> Inspection:
        """Everything that is known of a process."""
        return _sync.run(self.kernel.inspect(pid))

    def servers(self, tools: Union[PathLike, Iterable[PathLike]]) -> list[ToolServer]:
        """The tool servers of MCP configuration files."""
        return _sync.run(self.kernel.servers(tools))

    def tools(self, tools: Union[PathLike, Iterable[PathLike]], server: str = "") -> list[Tool]:
        """The tools of one server of MCP configuration files, or of all; servers are started if needed."""
        return _sync.run(self.kernel.tools(tools, server))

    def search_tools(self, tools: Union[PathLike, Iterable[PathLike]], query: str, *, server: str = "", limit: int = 10) -> list[Tool]:
        """The tools that fit what one wants to do, best first; with an empty query the first ones. A server whose tools are
        known is not started for it; one that cannot be asked is a warning in the log ``agentkernel``."""
        return _sync.run(self.kernel.search(tools, query, server, limit))

    def save_skill(self, name: str, code: str, *, description: str = "", tags: Iterable[str] = (), namespace: str = "") -> Skill:
        """Saves functions that programs import from ``skills.<name>``, as a new version. The code is checked first, and dedented."""
        return _sync.run(self.kernel.save_skill(namespace, name, code, description, tags))

    def get_skill(self, name: str, *, version: int = 0, namespace: str = "") -> Skill:
        """A skill with its code; without ``version`` the newest."""
        return _sync.run(self.kernel.skill(namespace, name, version))

    def list_skills(self, *, namespace: str = "") -> list[Skill]:
        """All skills, without their code."""
        return _sync.run(self.kernel.skills(namespace, "", 0))

    def search_skills(self, query: str, *, limit: int = 20, namespace: str = "") -> list[Skill]:
        """The skills whose names, descriptions and tags fit, best first."""
        return _sync.run(self.kernel.skills(namespace, query, limit))

    def delete_skill(self, name: str, *, namespace: str = "") -> None:
        """Deletes a skill and its versions; programs that have begun keep their copy."""
        return _sync.run(self.kernel.delete_skill(namespace, name))
