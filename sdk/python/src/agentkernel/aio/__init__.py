"""The SDK for asyncio: the same names as in :mod:`agentkernel`, with ``await``.

    from agentkernel.aio import create_agent

    agent = create_agent()
    result = await agent.execute_task("Calculate fibonacci(30)")
    async for event in agent.stream("print(1)"):
        print(event.text, end="")
"""

from __future__ import annotations

from .agent import AgentHelper, create_agent, execute_code, execute_task
from .client import Client
from .hosted import BlockingProcess, HostedProcess, HostedTask
from .tasks import TaskManager

__all__ = [
    "AgentHelper", "BlockingProcess", "Client", "HostedProcess", "HostedTask", "TaskManager", "create_agent", "execute_code", "execute_task",
]  # fmt: skip
