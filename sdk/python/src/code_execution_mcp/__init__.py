"""The names of the earlier package ``code_execution_mcp``, from :mod:`agentkernel`: old imports work.

New programs import ``agentkernel``.
"""

from __future__ import annotations

from agentkernel import AgentHelper, KernelError, Limits, Result, TaskManager, TaskStatus, create_agent, execute_code, execute_task
from agentkernel.server import run_server

__all__ = [
    "AgentHelper", "KernelError", "Limits", "Result", "TaskManager", "TaskStatus", "create_agent", "execute_code", "execute_task", "run_server",
]  # fmt: skip
