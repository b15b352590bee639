"""Coroutines of your own program as processes of the kernel. From the root of the repository:

    make build                             # once; no engine is needed, since nothing runs in a sandbox
    PYTHONPATH=sdk/python/src python3 examples/python/my_agents.py

`./agentkernel ps` in another terminal shows the three while they run, `./agentkernel kill PID` ends one. With a name for the run, as in
`my_agents.py monday`, kill the program or the kernel and start it again with the same name: it goes on where it was.
"""

import asyncio
import sys

from agentkernel import aio

run = sys.argv[1] if len(sys.argv) > 1 else ""


async def researcher(p, pages):
    async def read(n):
        await p.sleep(0.1 * n)
        return f"page {n}"

    # Each task has its own place in the journal, in whatever order they come to their ends.
    return await asyncio.gather(*[read(n) for n in range(1, pages + 1)])


async def writer(p, lines):
    for n in range(1, lines + 1):
        await p.call("state.set", key="line", value=n)
        await p.sleep(0.1)
    return f"{lines} lines"


async def reviewer(p, rounds):
    for n in range(1, rounds + 1):
        await p.log(f"round {n}")  # `./agentkernel trace PID` shows it
        await p.sleep(0.2)
    return f"{rounds} rounds"


async def main():
    async with aio.Client() as client:

        async def start(function, *args):
            name = function.__name__
            return await client.host(name, function, *args, key=run and f"{run} {name}")

        tasks = [await start(researcher, 3), await start(writer, 4), await start(reviewer, 2)]
        for process in reversed(await client.ps(limit=3)):
            print(f"{process.name:10} {process.backend}")
        for task in tasks:
            print(task.name, "->", await task)


asyncio.run(main())
