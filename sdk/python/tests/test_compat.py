"""Scripts that were written for a small kernel of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

import support
from agentkernel import aio, compat

#: A script of the usual shape, of which its first line was changed.
SCRIPT = """
from agentkernel.compat import AgentKernel, SignalBus
import asyncio, os, sys

bus = SignalBus()

async def miner(pid):
    kernel = get_active_kernel()
    for n in range(3):
        answer = await kernel.syscall_llm(pid, "dig for data " + str(n))
        assert "dig for data" in answer
    await bus.push("log " + pid)
    await bus.push("halt", priority=0)
    print(await bus.pop(), (await bus.pop()).split()[0])
    print("mined", kernel.processes[pid].memory_usage, flush=True)
    if "stop" in sys.argv:
        os.kill(os.getpid(), 9)

async def glutton(pid):
    kernel = get_active_kernel()
    while True:
        await kernel.syscall_llm(pid, "word " * 1000)

async def main():
    kernel = AgentKernel()
    global get_active_kernel
    get_active_kernel = lambda: kernel
    tasks = [asyncio.create_task(kernel.spawn(name, agent)) for name, agent in (("Miner", miner), ("Glutton", glutton))]
    await asyncio.gather(*tasks)
    for process in sorted(kernel.processes.values(), key=lambda p: p.memory_usage):
        print(process.name, process.memory_usage, process.status)

if __name__ == "__main__":
    asyncio.run(main())
"""

PRINTED = ["halt log", "mined 15", "Miner 15 terminated", "Glutton 7800 crashed"]


class Scripts(support.KernelTest):
    def run_script(self, *args: str, run: str = "") -> "subprocess.CompletedProcess[str]":
        script = self.write("script.py", SCRIPT)
        env = {**os.environ, "PYTHONPATH": str(support.SDK / "src"), "AGENTKERNEL_RUN": run}
        return subprocess.run([sys.executable, script, *args], capture_output=True, text=True, timeout=60, env=env)

    def test_a_script(self) -> None:
        before = {p.pid for p in self.client.ps(all=True)}
        done = self.run_script()
        self.assertEqual((done.returncode, done.stdout.splitlines()), (0, PRINTED), done.stderr)
        self.assertIn("more than 8000 tokens", done.stderr)
        found = {p.name: p for p in self.client.ps(all=True) if p.pid not in before}
        self.assertEqual({n: (p.backend, p.state) for n, p in found.items()}, {"Miner": ("hosted", "exited"), "Glutton": ("hosted", "failed")})
        self.assertEqual(self.client.state(found["Glutton"].pid), {"memory_usage": 7800})
        assert found["Glutton"].error is not None
        self.assertEqual(found["Glutton"].error.exception, "MemoryError")

    def test_a_script_that_dies(self) -> None:
        """With a name for its run it goes on with the same agents, which have used what they have used."""
        before = {p.pid for p in self.client.ps(all=True)}
        self.assertEqual(self.run_script("stop", run="nightly").returncode, -9)
        self.kill_kernel()
        for again in (False, True):  # the second time all have ended before
            done = self.run_script(run="nightly")
            self.assertEqual(done.stdout.splitlines()[-2:], PRINTED[-2:], done.stderr)
            if not again:
                self.assertEqual(done.stdout.splitlines(), PRINTED)
        found = [p for p in self.client.ps(all=True) if p.pid not in before]
        self.assertEqual(sorted(p.name for p in found), ["Glutton", "Miner"])
        sets = [e.args["value"] for p in found if p.name == "Miner" for e in self.client.trace(p.pid) if e.op == "state.set"]
        self.assertEqual(sets, [5, 10, 15])


class Bus(support.KernelTest, unittest.IsolatedAsyncioTestCase):
    async def test_a_bus_of_the_kernel(self) -> None:
        client = aio.Client()
        kernel = compat.AgentKernel(client, run="bus")
        got: list[object] = []

        async def agent(pid: str) -> None:
            self.assertIs(compat.get_active_kernel(), kernel)
            bus = compat.SignalBus(pid)
            await bus.push("low")
            await bus.push("urgent", priority=0)
            await client.tell(int(pid), "from a terminal")
            got.extend([await bus.pop() for _ in range(3)])
            await client.tell(int(pid), [1])
            got.append(await bus.pop())

        process = await kernel.spawn("listener", agent)
        self.assertEqual((got, process.status), (["urgent", "low", "from a terminal", [1]], "terminated"))

    async def test_who_does_not_run(self) -> None:
        with self.assertRaises(RuntimeError):
            await compat.AgentKernel(aio.Client()).syscall_llm("7", "hello")


if __name__ == "__main__":
    unittest.main()
