"""The names of a small agent kernel for asyncio, as scripts have them that were written before there was this one. Such a script
changes its imports and nothing else, and each of its agents is a process of the kernel: ``agentkernel ps`` shows it, ``agentkernel
kill`` ends it.

    from agentkernel.compat import AgentKernel

    async def worker(pid):
        print(await kernel.syscall_llm(pid, "Summarize the data"))

    kernel = AgentKernel()
    asyncio.run(kernel.spawn("Summarizer", worker))

A script that is started again runs its agents anew. One that is to go on where it died has a name for its run:
``AgentKernel(run="nightly")``, or AGENTKERNEL_RUN=nightly in its environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import logging
import os
from dataclasses import dataclass, field
from typing import Any, Awaitable, Callable, Optional

from . import errors
from .aio import Client, HostedProcess

__all__ = ["CONTEXT_TOKENS", "AgentKernel", "AgentProcess", "PrioritizedItem", "SignalBus", "get_active_kernel"]

log = logging.getLogger("agentkernel.compat")

#: How many tokens an agent may use, prompts and answers together.
CONTEXT_TOKENS = 8000
_TOKENS_A_WORD = 1.3
_ANSWER_TOKENS = 4096  # what an answer may have where nothing is said
_USED = "memory_usage"
_NO_MODEL = "no model is configured"
_CLASSES = ("input", "cache_read", "cache_write", "output", "reasoning")

_active: "contextvars.ContextVar[Optional[AgentKernel]]" = contextvars.ContextVar("agentkernel_active", default=None)
_last: "Optional[AgentKernel]" = None


@dataclass
class _Run:
    """An agent that runs. One that begins again makes its calls again, so it counts anew."""

    process: HostedProcess
    used: int = 0
    asked: int = 0  # tokens of prompts that have no answer yet, about


@dataclass
class AgentProcess:
    """One agent. ``memory_usage`` is what it has used, in tokens; ``status`` is "idle", "running", "terminated" or "crashed"."""

    pid: str
    name: str
    memory_usage: int = 0
    status: str = "idle"


class AgentKernel:
    """Runs agents as processes of the kernel, which is started if none runs. ``run`` names a run of the script that goes on after a
    crash: the agents of a name are then the same ones, in the order in which they are spawned."""

    def __init__(self, client: Optional[Client] = None, *, run: Optional[str] = None) -> None:
        global _last
        self.processes: dict[str, AgentProcess] = {}
        self.message_bus: asyncio.Queue[Any] = asyncio.Queue()
        self.client = client or Client()
        self.run = os.environ.get("AGENTKERNEL_RUN", "") if run is None else run
        self._runs: dict[str, _Run] = {}
        self._alone = False  # it was said that there is no model
        self._spawned: dict[str, int] = {}
        _last = self

    async def spawn(self, name: str, agent_coro: Callable[[str], Awaitable[Any]]) -> AgentProcess:
        """Runs ``agent_coro(pid)`` as a process, to its end. One that raises has crashed, which is logged, and not raised here."""
        self._spawned[name] = count = self._spawned.get(name, 0) + 1

        async def agent(p: HostedProcess) -> None:
            process = self._process(p.pid, name)
            process.status = "running"
            self._runs[process.pid] = _Run(p)
            _active.set(self)
            await agent_coro(process.pid)

        task = await self.client.host(name, agent, key=f"compat {self.run} {name} {count}" if self.run else "")
        process = self._process(task.pid, name)
        if task.done():  # in an earlier run of the script
            process.memory_usage = (await self.client.state(task.pid)).get(_USED, 0)
        try:
            await task
        except errors.KernelError as e:
            process.status = "crashed"
            log.warning("agent %s (pid %d) crashed: %s", name, task.pid, e.message)
        finally:
            if process.status != "crashed":
                process.status = "terminated"
        return process

    def _process(self, pid: int, name: str) -> AgentProcess:
        return self.processes.setdefault(str(pid), AgentProcess(str(pid), name))

    async def syscall_llm(self, pid: str, prompt: str) -> str:
        """Asks the model, for an agent that runs: the first one that the setting ``models`` declares (docs/llm.md), by a call of the
        process, which is in its journal and counts for its budget. After a crash an answer that came is not asked for again.

        Raises MemoryError when an agent would use more than CONTEXT_TOKENS, prompts and answers together, and what ``llm.complete``
        raises. What it has used is ``memory_usage``, and in the working set of the process (``agentkernel inspect PID``). Without a
        model the answer is a stand-in that says so, and the log says it once.
        """
        process, run = self.processes.get(pid), self._runs.get(pid)
        if process is None or run is None:
            raise RuntimeError(f"there is no agent with the pid {pid}")
        p, about = run.process, len(prompt.split()) * _TOKENS_A_WORD
        left = CONTEXT_TOKENS - run.used - run.asked - about
        if left < 0:
            await p.log(f"context full: {run.used + run.asked} tokens, and a prompt of {int(about)}; at most {CONTEXT_TOKENS}", "error")
            raise MemoryError(f"agent {process.name} (pid {pid}) would use more than {CONTEXT_TOKENS} tokens")
        run.asked += int(about)
        try:
            answer, tokens = await self._ask(p, prompt, max(int(left), 1))
        finally:
            run.asked -= int(about)
        run.used += int(about) if tokens is None else tokens
        process.memory_usage = run.used
        await p.call("state.set", key=_USED, value=run.used)
        return answer

    async def _ask(self, p: HostedProcess, prompt: str, left: int) -> "tuple[str, Optional[int]]":
        """The answer, and how many tokens it took with its question; None if there is no model."""
        try:  # each time: what was made at first is made when the agent begins again
            said = await p.call(
                "llm.complete", messages=[{"role": "user", "content": prompt}], max_tokens=left if left < _ANSWER_TOKENS else None
            )
        except errors.Unavailable as e:
            if _NO_MODEL not in e.message:
                raise
            if not self._alone:
                self._alone = True
                log.warning("no model is declared, so answers are a stand-in; the setting models declares one (docs/llm.md)")
            return f"[no model is connected] {prompt}", None
        return said["text"], sum(said["usage"][name] for name in _CLASSES)


def get_active_kernel() -> AgentKernel:
    """The AgentKernel whose agent asks, else the one that was made last."""
    kernel = _active.get() or _last
    if kernel is None:
        raise RuntimeError("there is no AgentKernel yet")
    return kernel


@dataclass(order=True)
class PrioritizedItem:
    """Something with a priority: the lower the number, the sooner."""

    priority: int
    data: Any = field(compare=False)


class SignalBus:
    """Hands messages on by their priority, and those of the same priority in the order in which they came. It lives in the program;
    with the ``pid`` of an agent, it is what the kernel keeps for that process: ``push`` from outside of agents, and ``agentkernel signal
    PID user``, put something in, the agent takes it out, and a message that was taken is taken again when the agent begins again."""

    def __init__(self, pid: Optional[str] = None, kernel: Optional[AgentKernel] = None) -> None:
        self._pid, self._kernel = pid, kernel
        self._items: list[tuple[PrioritizedItem, int]] = []
        self._count = itertools.count()
        self._news = asyncio.Condition()

    async def push(self, data: Any, priority: int = 10) -> None:
        """Puts a message in. The lower the number, the sooner it is taken."""
        if self._pid is not None:
            await self._of().client.tell(int(self._pid), {"priority": priority, "data": data})
            return
        self._add(PrioritizedItem(priority, data))
        async with self._news:
            self._news.notify()

    async def pop(self) -> Any:
        """Takes the most urgent message, waiting if there is none."""
        if self._pid is not None:
            await self._take_in(self._of()._runs[self._pid].process)
        async with self._news:
            await self._news.wait_for(lambda: self._items)
            return heapq.heappop(self._items)[0].data

    async def _take_in(self, p: HostedProcess) -> None:
        """Takes in what the kernel has, and waits if that is nothing and there is nothing here."""
        with contextlib.suppress(errors.Timeout):
            while True:
                self._add(_item(await p.call("signals.wait", timeout=0)))
        if not self._items:
            self._add(_item(await p.call("signals.wait")))

    def _add(self, item: PrioritizedItem) -> None:
        heapq.heappush(self._items, (item, next(self._count)))

    def _of(self) -> AgentKernel:
        return self._kernel or get_active_kernel()


def _item(payload: Any) -> PrioritizedItem:
    """A message from what the kernel has; one that somebody else sent has no priority."""
    if isinstance(payload, dict) and set(payload) == {"priority", "data"} and isinstance(payload["priority"], int):
        return PrioritizedItem(payload["priority"], payload["data"])
    return PrioritizedItem(10, payload)
