"""The twin for asyncio does the same."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import inspect
import os
import tempfile
import time
import unittest
import warnings
from typing import Any
from unittest import mock

import support
import agentkernel
import agentkernel.aio
from agentkernel import Event, KernelGone, _async, errors
from agentkernel.aio import Client, TaskManager, create_agent, execute_code, execute_task


class Twin(unittest.TestCase):
    def test_the_twin_is_what_the_generator_makes(self) -> None:
        spec = importlib.util.spec_from_file_location("twin", support.SDK / "twin.py")
        assert spec is not None and spec.loader is not None
        twin = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(twin)
        for name in twin.NAMES:
            text = (twin.PACKAGE / "aio" / f"{name}.py").read_text(encoding="utf-8")
            self.assertEqual(text, twin.twin(name), f"aio/{name}.py is out of date: python3 sdk/python/twin.py")

    def test_same_names_same_arguments(self) -> None:
        hosted = {"BlockingProcess", "HostedProcess", "HostedTask"}  # asyncio only
        for name in set(agentkernel.aio.__all__) - hosted:
            ours, theirs = getattr(agentkernel, name), getattr(agentkernel.aio, name)
            if not inspect.isclass(ours):
                self.assertEqual(inspect.signature(ours).parameters, inspect.signature(theirs).parameters)
                continue
            for member, function in inspect.getmembers(ours, inspect.isfunction):
                if not member.startswith("_"):
                    self.assertEqual(list(inspect.signature(function).parameters), list(inspect.signature(getattr(theirs, member)).parameters), member)


class Async(support.KernelTest, unittest.IsolatedAsyncioTestCase):
    async def test_verbs(self) -> None:
        client = Client()
        seen: list[str] = []

        async def on_output(event: Event) -> None:
            await asyncio.sleep(0)
            seen.append(event.text)

        r = await client.run("print('x')\n6 * 7", on_output=on_output)
        self.assertEqual((r.output, r.result, seen), ("x\n", 42, ["x\n"]))
        p = await client.spawn("from kernel import state\nstate.set('a', 1)\nprint(1)")
        self.assertTrue((await client.wait(p.pid)).success)
        self.assertEqual([e.text async for e in client.logs(p.pid)], ["1\n"])
        self.assertEqual(await client.state(p.pid), {"a": 1})
        self.assertEqual((await client.inspect(p.pid)).process.pid, p.pid)
        self.assertIn(p.pid, [q.pid for q in await client.ps(all=True)])
        self.assertGreater(len(await client.trace(p.pid)), 2)
        with self.assertRaises(errors.NotFound):
            await client.wait(999_999)
        with self.assertRaises(errors.Timeout):
            q = await client.spawn("from kernel import sleep\nsleep(60)")
            await client.wait(q.pid, timeout=0.05)
        await client.kill(q.pid)
        async with client as c:
            self.assertEqual((await c.info()).home, self.home)

    async def test_many_at_once(self) -> None:
        client = Client()
        begin = time.monotonic()
        results = await asyncio.gather(*[client.run(f"from kernel import sleep\nsleep(0.3)\n{n}") for n in range(30)])
        self.assertEqual([r.result for r in results], list(range(30)))
        self.assertLess(time.monotonic() - begin, 30 * 0.3 / 2)  # together, not one after another

    async def test_agents_and_tasks(self) -> None:
        async with create_agent(state_enabled=True, state_file=self.path("a.json")) as agent:
            self.assertEqual((await agent.execute_task("Calculate fibonacci(20)")).output, "6765\n")
            self.assertEqual([e.text async for e in agent.stream("print('s')") if e.kind == "output"], ["s\n"])
            manager = TaskManager(agent)
            ids = [await manager.dispatch_task(f"from kernel import state\nstate.set('k{n}', {n})") for n in range(3)]
            await manager.wait_for_all(ids)
            self.assertEqual(agent.state, {"k0": 0, "k1": 1, "k2": 2})
            self.assertEqual({t.status for t in await manager.list_tasks()}, {"completed"})
            self.assertFalse(await manager.cancel_task(ids[0]))
        self.assertEqual((await execute_task("Calculate fibonacci(5)")).output, "5\n")
        self.assertEqual((await execute_code("2 + 3")).result, 5)

    async def test_planner_may_be_a_coroutine_function(self) -> None:
        async def planner(task: str, tools: Any) -> str:
            await asyncio.sleep(0)
            return "print('planned')"

        self.assertEqual((await create_agent(planner=planner).execute_task("write a poem")).output, "planned\n")

    async def test_cancelling_a_wait_leaves_the_process(self) -> None:
        client = Client()
        p = await client.spawn("from kernel import sleep\nsleep(0.3)\n'done'")
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(client.wait(p.pid), 0.05)
        self.assertEqual((await client.wait(p.pid)).result, "done")

    async def test_a_stream_that_is_left(self) -> None:
        client = Client()
        async for event in client.stream("from kernel import sleep\nprint('a')\nsleep(0.1)\nprint('b')"):
            if event.kind == "output":
                break
        self.assertEqual((await client.result(event.pid)).output, "a\nb\n")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gc.collect()
            await asyncio.sleep(0)
        self.assertEqual([str(w.message) for w in caught], [])

    async def test_every_verb_when_the_kernel_dies_early(self) -> None:
        home = tempfile.mkdtemp(dir=self.folder)
        for greets in (False, True):
            with support.cutting(home, greets):
                for name, args in support.VERBS:
                    with self.subTest(name=name, args=args, greets=greets), self.assertRaises(KernelGone) as caught:
                        given = getattr(Client(home), name)(*args)
                        if inspect.isawaitable(given):
                            await given
                        else:
                            async for _ in given:
                                pass
                    self.assertEqual(caught.exception.pid, 7 if 7 in args else 0)
                    self.assertEqual(bool(caught.exception.idempotency_key), name in support.CREATES)

    async def test_kernel_killed_while_waiting(self) -> None:
        client = Client()
        p = await client.spawn("from kernel import sleep\nprint('begin')\nsleep(0.5)\n'done'")
        os_pid = (await client.info()).os_pid
        real, asked = _async.Run._receive, asyncio.Event()

        async def receive(run: Any, step: Any) -> bytes:
            asked.set()
            return await real(run, step)

        with mock.patch.object(_async.Run, "_receive", receive):
            waiting = asyncio.ensure_future(client.wait(p.pid))
            await asked.wait()
            os.kill(os_pid, 9)
            with self.assertRaises(KernelGone) as caught:
                await waiting
        self.assertIn(f"recover({p.pid})", caught.exception.hint)
        support.eventually("the killed kernel is gone", lambda: support.gone(os_pid))
        self.assertEqual([q.pid for q in await client.recover()], [p.pid])
        self.assertEqual((await client.wait(p.pid)).result, "done")


if __name__ == "__main__":
    unittest.main()
