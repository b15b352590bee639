"""AgentKernel for Python: run agent programs in sandboxes, with tools, journalled.

    from agentkernel import create_agent

    agent = create_agent()
    ok, output, error = agent.execute_task("Calculate fibonacci(30)")

Processes directly: :class:`Client`. Background tasks: :class:`TaskManager`. The same for asyncio:
:mod:`agentkernel.aio`. In notebooks: ``%load_ext agentkernel``. The guide is docs/sdk-python.md.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 10):  # before what an older one cannot import; with a path as PYTHONPATH pip has not checked it
    raise ImportError("agentkernel needs Python 3.10 or later, and this is %d.%d: %s" % (*sys.version_info[:2], sys.executable))

from typing import TYPE_CHECKING, Any

from . import errors
from ._agent import Planned
from ._tasks import TaskStatus
from .agent import AgentHelper, create_agent, execute_code, execute_task
from .changes import Applied, Change, Changes
from .client import Client
from .errors import KernelError, KernelGone
from .functions import effect
from .model import Allowance, Ask, Budget, Entry, Event, Inspection, KernelInfo, ModelUsage, ModelUse, Pause, Process, Skill, Spending, Step, Tool, ToolServer, Usage
from .result import Result
from .spec import Limits, Spec, Volume
from .tasks import TaskManager

if TYPE_CHECKING:
    from .server import run_server as run_server

__version__ = "0.1.0"

__all__ = [
    "AgentHelper", "Allowance", "Applied", "Ask", "Budget", "Change", "Changes", "Client", "Entry", "Event", "Inspection", "KernelError", "KernelGone", "KernelInfo", "Limits",
    "ModelUsage", "ModelUse", "Pause", "Planned", "Process", "Result", "Skill", "Spec", "Spending", "Step", "TaskManager", "TaskStatus", "Tool", "ToolServer", "Usage", "Volume", "create_agent", "effect", "errors", "execute_code",
    "execute_task", "run_server",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Only when it is asked for, so that `python -m agentkernel.server` does not find its module imported already.
    if name == "run_server":
        from .server import run_server

        return run_server
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext agentkernel``: registers the cell magic ``%%agentkernel``."""
    from .notebook import register

    register(ipython)
