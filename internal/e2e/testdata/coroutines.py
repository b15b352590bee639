"""Fifty coroutines, or as many as are asked for, each a process: the program of a test, which kills it and its kernel.

Each writes lines by a tool, some of them in tasks beside each other, and returns those of which nobody knows whether they were written.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agentkernel import aio, errors


async def write(p: aio.HostedProcess, path: str, text: str) -> list[str]:
    try:
        await p.tool("lines.append_line", path=path, text=text)
    except errors.OutcomeUnknown:
        return [text]
    return []


async def writer(p: aio.HostedProcess, name: str, given: Any) -> list[str]:
    unknown = []
    for n in range(given["rounds"]):
        await p.call("signals.wait")
        unknown += await write(p, given["path"], f"{name} line {2 * n}")
        found, drawn = await asyncio.gather(write(p, given["path"], f"{name} line {2 * n + 1}"), p.call("rand.bytes", n=4))
        unknown += found
        assert await p.call("state.get", key=f"drawn {n}", default=drawn) == drawn, "another number than before"
        await p.call("state.set", key=f"drawn {n}", value=drawn)
    return unknown


async def main(given: Any) -> None:
    client = aio.Client(given["home"], start=False)

    async def one(name: str) -> list[str]:
        while True:
            try:
                task = await client.host(name, writer, name, given, key=name, tools=given["tools"], allow="lines.*")
                break
            except errors.Unavailable:  # there is no kernel at this moment
                await asyncio.sleep(0.01)
        unknown: list[str] = await task
        return unknown

    found = await asyncio.gather(*[one(f"coroutine {n}") for n in range(given["coroutines"])])
    print(json.dumps([text for texts in found for text in texts]))


asyncio.run(main(json.loads(sys.argv[1])))
