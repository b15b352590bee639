"""Scripts that were written for a small kernel of their own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import typing
import unittest
import urllib.request

import support
from agentkernel import aio, compat, create_agent, errors

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
        self.assertEqual(done.stderr.count("answers are a stand-in"), 1)
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


#: What the made-up provider answers.
ANSWERS = """
rules:
  - when: {user: long}
    answer: {tokens: 3000}
  - when: {user: '/(?P<word>\\w+)/'}
    answer: {text: "It is {{word}}."}
"""


class Models(support.KernelTest, unittest.IsolatedAsyncioTestCase):
    """With a model: that of `agentkernel devllm`."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        script = os.path.join(cls.folder, "answers.yaml")
        with open(script, "w", encoding="utf-8") as f:
            f.write(ANSWERS)
        command = [support.binary(), "devllm", "--json", "--listen", "127.0.0.1:0", "--script", script]
        cls.provider = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert cls.provider.stdout is not None
        cls.url = json.loads(cls.provider.stdout.readline())["url"]
        os.environ.update(AGENTKERNEL_MODELS=f"fast openai:gpt-dev-mini url={cls.url}/v1 price=0.25/2", OPENAI_API_KEY="made-up")

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        cls.provider.terminate()
        cls.provider.wait()
        assert cls.provider.stdout is not None
        cls.provider.stdout.close()

    def charged(self) -> "list[int]":
        """The tokens of each request that was answered, as the provider has charged them."""
        with urllib.request.urlopen(f"{self.url}/devllm/log") as answer:
            entries = json.load(answer)
        return [sum(e["tokens"].values()) for e in entries if e["status"] == 200]

    async def test_a_model(self) -> None:
        kernel = compat.AgentKernel(aio.Client())
        before = len(self.charged())
        got: "list[str]" = []

        async def agent(pid: str) -> None:
            got.append(await kernel.syscall_llm(pid, "red"))
            got.extend(await asyncio.gather(kernel.syscall_llm(pid, "green"), kernel.syscall_llm(pid, "blue")))

        process = await kernel.spawn("painter", agent)
        self.assertEqual((got, process.status), (["It is red.", "It is green.", "It is blue."], "terminated"))
        used = sum(self.charged()[before:])
        self.assertGreater(used, 0)
        self.assertEqual(process.memory_usage, used)
        self.assertEqual(self.client.state(int(process.pid)), {"memory_usage": used})
        self.assertEqual(len([e for e in self.client.trace(int(process.pid)) if e.op == "llm.complete" and e.args]), 3)

    async def test_a_coroutine_of_the_guide_asks(self) -> None:
        """The example of docs/sdk-python.md that asks a model: `reviewer`."""
        guide = (support.ROOT / "docs" / "sdk-python.md").read_text(encoding="utf-8")
        (block,) = re.findall(r"(?ms)^```python\n(async def reviewer.*?)^```", guide)
        scope: "dict[str, typing.Any]" = {}
        exec(compile(block, "docs/sdk-python.md", "exec"), scope)
        async with aio.Client() as client:
            task = await client.host("reviewer", scope["reviewer"], "red")
            self.assertEqual(await task, "It is What.")

    def test_models_that_are_brought(self) -> None:
        """Their keys are handed over when the process is made, and to the next kernel when it is waited for."""
        key = "sk-Brought4f1c7d0a9e5b"
        own = f"mine openai:gpt-dev-mini url={self.url}/v1 price=0.25/2 key=given"
        ask = 'from kernel import llm\nprint(llm("red"), llm("blue", model="fast"))'
        with self.assertRaises(errors.InvalidArgument):
            self.client.run(ask, models=[own.replace(" key=given", "")])
        r = self.client.run(ask, models=[own], keys={"mine": key})
        self.assertEqual(r.output, "It is red. It is blue.\n")
        self.assertEqual(create_agent(models=own, keys={"mine": key}).execute_code(ask).check().output, "It is red. It is blue.\n")
        agent = create_agent(llm_enabled=True, llm_model="gpt-dev-mini", llm_base_url=f"{self.url}/v1", llm_api_key=key)
        self.assertEqual(agent.execute_code("from kernel import llm\nprint(llm('green'))").check().output, "It is green.\n")

        late = self.client.spawn("from kernel import llm, signals\nprint(llm('red'))\nsignals.wait()\nprint(llm('blue'))", models=[own], keys={"mine": key})
        while "red" not in "".join(e.text for e in self.client.logs(late.pid)):
            pass
        self.kill_kernel()
        self.client.recover(late.pid)
        self.client.tell(late.pid)
        self.assertEqual(self.client.result(late.pid, timeout=60).output, "It is red.\nIt is blue.\n")

        bare = self.client.spawn(ask, models=[own])
        while "key" not in str(self.client.process(bare.pid).waits_for):
            pass
        self.client.give_key("mine", key, bare.pid)
        self.assertEqual(self.client.result(bare.pid, timeout=60).output, "It is red. It is blue.\n")
        for folder, _, names in os.walk(self.client.home):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path):
                    with open(path, "rb") as f:
                        self.assertNotIn(key.encode(), f.read(), path)

    def test_usage(self) -> None:
        """What is counted is what the provider has charged, and what the budget has."""
        before = len(self.charged())
        r = self.client.run('from kernel import llm\nllm("red")\nllm("green")', name="painter.py", budget={"usd": 1})
        pid = r.pid or 0
        u = self.client.llm_usage("agent", "model", tree=pid, since="1h")
        self.assertEqual([(row.agent, row.model, row.calls, row.tokens) for row in u.rows], [("painter.py", "openai:gpt-dev-mini", 2, sum(self.charged()[before:]))])
        self.assertEqual((u.total.usd, u.total.failed), (self.client.budget(pid).spent.usd, 0))
        self.assertGreater(u.total.usd, 0)
        self.assertEqual(self.client.llm_usage("day", tree=pid, until="1h").rows, ())
        limits = self.client.llm_limits()
        self.assertEqual([(d["name"], d["state"]) for d in limits["deployments"]], [("fast", "up")])
        self.assertEqual({m["what"]: (m["source"], m["amount"]) for m in limits["keys"][0]["limits"]}, {"requests": ("headers", 500), "tokens": ("headers", 200_000)})
        self.assertEqual(self.client.allowances(), [])

    async def test_the_context_is_full(self) -> None:
        kernel = compat.AgentKernel(aio.Client())
        before = len(self.charged())
        answers: "list[str]" = []

        async def agent(pid: str) -> None:
            while True:
                answers.append(await kernel.syscall_llm(pid, "long"))

        with self.assertLogs("agentkernel.compat", "WARNING") as logged:
            process = await kernel.spawn("glutton", agent)
        charged = self.charged()[before:]
        self.assertEqual((process.status, len(answers), len(charged)), ("crashed", 3, 3))
        self.assertEqual(process.memory_usage, sum(charged))
        self.assertLess(charged[2], 2100)  # it was asked for what was left, and not for 3000
        self.assertIn("would use more than 8000 tokens", logged.output[0])
        found = self.client.process(int(process.pid)).error
        assert found is not None
        self.assertEqual(found.exception, "MemoryError")

    async def test_a_run_that_goes_on(self) -> None:
        """What was answered is not asked again."""
        for part in (1, 2):
            kernel = compat.AgentKernel(aio.Client(), run="twice")
            before = len(self.charged())
            used: "list[int]" = []

            async def agent(pid: str) -> None:
                for word in ("one", "two")[:part]:
                    await kernel.syscall_llm(pid, word)
                    used.append(kernel.processes[pid].memory_usage)
                if part == 1:
                    stop.set_result(None)
                    await asyncio.Event().wait()

            stop = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(kernel.spawn("counter", agent))
            if part == 1:
                await stop
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual(len(used), 1)
            else:
                await task
                self.assertEqual(len(used), 2)
            self.assertEqual(len(self.charged()) - before, 1)


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
