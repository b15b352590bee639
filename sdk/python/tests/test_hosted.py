"""Coroutines as processes."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import unittest
from typing import Any, Callable
from unittest import mock

import support
from agentkernel import _hosted, errors
from agentkernel._http import Response
from agentkernel.aio import Client as AsyncClient
from agentkernel.aio import HostedProcess, hosted


class Turns:
    """Lets tasks come to a point in the order that a test wants."""

    def __init__(self) -> None:
        self._events: dict[Any, asyncio.Event] = {}

    def of(self, name: Any) -> asyncio.Event:
        return self._events.setdefault(name, asyncio.Event())


class Lines(unittest.TestCase):
    def test_a_line_in_any_pieces(self) -> None:
        text = b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: agentkernel-host\r\n\r\n{"attached":{"pid":1}}\n{}\n{"lane":"","n":1,"result":"\xc3\xbc"}\n'
        want = [{"attached": {"pid": 1}}, {"lane": "", "n": 1, "result": "ü"}]
        for size in (1, 2, 7, 50, len(text)):
            reader, got = _hosted.Reader(), []
            for at in range(0, len(text), size):
                got += reader.feed(text[at : at + size])
            self.assertEqual(got, want, size)

    def test_a_refusal(self) -> None:
        text = b"HTTP/1.1 409 Conflict\r\nAgentkernel-Api: 1\r\nContent-Length: 20\r\n\r\n" + b'{"code": "conflict"}'
        for size in (1, 30, len(text)):
            reader, got = _hosted.Reader(), []
            for at in range(0, len(text), size):
                got += reader.feed(text[at : at + size])
            self.assertEqual([(m.status, m.take()) for m in got if isinstance(m, Response)], [(409, b'{"code": "conflict"}')])

    def test_what_cannot_be_sent(self) -> None:
        with self.assertRaises(errors.InvalidArgument):
            _hosted.call("", 1, "state.set", {"key": "a", "value": object()})
        with self.assertRaises(errors.InvalidArgument):
            _hosted.call("", 1, "state.set", {"key": "\ud800"})
        with mock.patch.object(_hosted, "MAX_BODY", 100), self.assertRaises(errors.LimitExceeded):
            _hosted.call("", 1, "state.set", {"key": "a" * 100})
        line, error = _hosted.ended(object(), None)
        self.assertIn(b'"exception":"InvalidArgument"', line)
        self.assertIsInstance(error, errors.InvalidArgument)


class Hosted(support.KernelTest, unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.k = AsyncClient()

    async def calls(self, pid: int) -> dict[str, str]:
        """The operation of each call by its place: "2@1.1" is the second one of the lane 1.1."""
        return {e.stream: e.op for e in await self.k.trace(pid) if e.kind == "call"}

    async def waiting(self, pid: int, for_: str) -> None:
        """Waits until a process waits for something."""
        while not any(w.startswith(for_) for w in (await self.k.process(pid)).waits_for):
            await asyncio.sleep(0.002)

    async def test_why_it_waits(self) -> None:
        path = os.environ.get("AGENTKERNEL_TEST_SERVER") or support.missing("the tool server of the tests")
        tools = self.write("mcp.json", '{"mcpServers": {"t": {"command": "%s"}}}' % path)

        async def spender(p: HostedProcess) -> None:
            for n in range(2):
                await p.tool("t.add", a=n, b=2)

        with mock.patch.object(hosted, "_TELLS", 0.02), self.assertLogs("agentkernel", "WARNING") as logs:
            task = await self.k.host("spender", spender, tools=tools, budget={"calls": 1})
            while not logs.output:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            self.assertEqual(len(logs.output), 1, logs.output)
            self.assertRegex(logs.output[0], rf"process {task.pid}: it is paused: budget: .*; agentkernel why {task.pid} says what helps")
            await self.k.kill(task.pid)
            with self.assertRaises(errors.Killed):
                await task

    async def test_a_coroutine_is_a_process(self) -> None:
        async def researcher(p: HostedProcess, topic: str) -> Any:
            self.assertIn((p.pid, "researcher", "hosted"), [(q.pid, q.name, q.backend) for q in await self.k.ps()])
            await p.call("state.set", key="topic", value=(topic, 1))
            await p.sleep(0)
            await p.log("found it")
            self.assertGreater(await p.now(), 1.7e9)
            me = await p.call("proc.self")
            return {"topic": await p.call("state.get", key="topic"), "me": me["pid"] == p.pid}

        h = await self.k.host("researcher", researcher, "tides", namespace="lab")
        self.assertEqual(await h, {"topic": ("tides", 1), "me": True})
        self.assertEqual(await h.result(), {"topic": ("tides", 1), "me": True})
        self.assertEqual(((await h.process()).namespace, h.name, h.done()), ("lab", "researcher", True))
        self.assertEqual(await self.k.state(h.pid), {"topic": ("tides", 1)})
        self.assertEqual(list((await self.calls(h.pid)).values()), ["state.set", "time.sleep", "log.write", "time.now", "proc.self", "state.get"])

    async def test_lanes(self) -> None:
        turns = Turns()

        async def late(p: HostedProcess, n: int) -> None:
            """The third task is the first to make a call."""
            if n < 3:
                await turns.of(n + 1).wait()
            await p.call("state.get", key=f"late {n}")
            turns.of(n).set()

        async def nested(p: HostedProcess) -> None:
            await asyncio.create_task(late(p, 3))
            await p.call("proc.self")

        def thread(p: HostedProcess) -> None:
            p.blocking.call("state.get", key="thread")
            p.blocking.log("in a thread")

        async def program(p: HostedProcess) -> None:
            await asyncio.gather(late(p, 1), late(p, 2), late(p, 3))  # 1, 2, 3
            await asyncio.create_task(nested(p))  # 4, 4.1
            await asyncio.to_thread(thread, p)
            await asyncio.gather(asyncio.to_thread(thread, p))  # 5
            with p.lane("by name"):
                await p.now()
                await asyncio.create_task(p.now())
            with p.lane("by name"):
                await p.now()
            await self.k.info()  # what the client does is no lane
            await asyncio.create_task(p.now())  # 6

        h = await self.k.host("lanes", program)
        await h
        self.assertEqual(
            await self.calls(h.pid),
            {
                "1@1": "state.get", "1@2": "state.get", "1@3": "state.get", "1@4": "proc.self", "1@4.1": "state.get", "1@": "state.get", "2@": "log.write",
                "1@5": "state.get", "2@5": "log.write", "1@by name": "time.now", "1@by name.1": "time.now", "2@by name": "time.now", "1@6": "time.now",
            },
        )  # fmt: skip

    @unittest.skipIf(sys.version_info < (3, 11), "TaskGroup is of Python 3.11")
    async def test_task_group_and_a_context_of_the_user(self) -> None:
        async def program(p: HostedProcess) -> None:
            import contextvars

            async with asyncio.TaskGroup() as group:
                for _ in range(2):
                    group.create_task(p.now())
            context = contextvars.copy_context()
            await asyncio.gather(*[asyncio.create_task(p.now(), context=context) for _ in range(2)])

        h = await self.k.host("group", program)
        await h
        self.assertEqual(set(await self.calls(h.pid)), {"1@1", "1@2", "1@3", "1@4"})

    async def test_deep_tasks_have_short_names(self) -> None:
        async def deep(p: HostedProcess, n: int) -> None:
            if n:
                await asyncio.create_task(deep(p, n - 1))
            else:
                await p.now()

        h = await self.k.host("deep", deep, 120)
        await h
        ((place, _),) = (await self.calls(h.pid)).items()
        self.assertRegex(place, r"^1@~[0-9a-f]{32}[.1]*$")

    async def test_it_begins_again(self) -> None:
        """The second run has other speeds, and the same calls."""
        drawn: list[dict[int, Any]] = []

        async def draw(p: HostedProcess, n: int, first: bool, into: dict[int, Any], turns: Turns) -> None:
            before = n - 1 if first else n + 1
            if 0 <= before < 4:
                await turns.of(before).wait()
            into[n] = [await p.call("rand.bytes", n=8)]
            turns.of(n).set()
            into[n].append(await p.call("rand.bytes", n=8))

        async def program(p: HostedProcess, first: bool) -> str:
            drawn.append({})
            turns = Turns()
            await asyncio.gather(*[draw(p, n, first, drawn[-1], turns) for n in range(4)])
            if first:
                await p.sleep(3600)
            return "done"

        h = await self.k.host("again", program, True, key="again")
        await self.waiting(h.pid, "time.sleep")
        self.assertTrue(h.cancel())
        with self.assertRaises(asyncio.CancelledError):
            await h
        await self.waiting(h.pid, "its host")
        again = await self.k.host("again", program, False, key="again")
        self.assertEqual((await again, again.pid), ("done", h.pid))
        self.assertEqual(drawn[0], drawn[1])
        self.assertEqual(len({b for two in drawn[0].values() for b in two}), 8)

        async def never(p: HostedProcess) -> None:
            self.fail("a process that has ended is run again")

        ended = await self.k.host("again", never, key="again")
        self.assertEqual((await ended, ended.pid, ended.done(), ended.cancel()), ("done", h.pid, True, False))

    async def test_another_call_than_before(self) -> None:
        async def program(p: HostedProcess, key: str) -> None:
            await p.call("state.get", key=key)
            await p.sleep(3600)

        h = await self.k.host("other", program, "a", key="other")
        await self.waiting(h.pid, "time.sleep")
        h.cancel()
        await self.waiting(h.pid, "its host")
        with self.assertRaises(errors.Diverged):
            await (await self.k.host("other", program, "b", key="other"))

    async def test_an_exception_ends_it(self) -> None:
        async def bad(p: HostedProcess) -> None:
            {}["page 13"]

        for _ in range(2):  # the second time it has ended before
            h = await self.k.host("bad", bad, key="bad")
            with self.assertRaises(errors.ProgramError) as caught:
                await h
            self.assertEqual((caught.exception.exception, caught.exception.message, caught.exception.pid), ("KeyError", "KeyError: 'page 13'", h.pid))
            self.assertTrue(caught.exception.traceback.startswith("Traceback"))
            self.assertIn('{}["page 13"]', caught.exception.traceback)
            self.assertEqual(caught.exception.traceback.count("File "), 1)  # of the program, and none of the library
        self.assertEqual((await h.process()).state, "failed")

        async def raises(p: HostedProcess) -> None:
            raise ValueError

        with self.assertRaises(errors.ProgramError) as caught:
            await (await self.k.host("raises", raises))
        self.assertIsInstance(caught.exception.__cause__, ValueError)

        async def unwritable(p: HostedProcess) -> object:
            return object()

        with self.assertRaisesRegex(errors.ProgramError, "type object"):
            await (await self.k.host("unwritable", unwritable))

    async def test_proc_exit(self) -> None:
        async def program(p: HostedProcess, code: int) -> None:
            await p.call("proc.exit", code=code)
            self.fail("nothing after it runs")

        self.assertIsNone(await (await self.k.host("exits", program, 0)))
        h = await self.k.host("exits", program, 3)
        with self.assertRaisesRegex(errors.ProgramError, "exit code 3"):
            await h
        self.assertEqual((await h.process()).exit_code, 3)

    async def test_it_is_killed(self) -> None:
        seen: list[Any] = []

        async def lane(p: HostedProcess) -> None:
            try:
                await p.sleep(3600)
            except errors.KernelError as e:
                seen.append(e.code)

        async def program(p: HostedProcess) -> None:
            seen.append(asyncio.create_task(lane(p)))
            try:
                await p.sleep(3600)
            except asyncio.CancelledError:
                seen.append("cancelled")
                with self.assertRaises(errors.Killed):
                    await p.now()
                raise

        h = await self.k.host("victim", program)
        await self.waiting(h.pid, "time.sleep")
        await self.k.kill(h.pid)
        with self.assertRaises(errors.Killed) as caught:
            await h
        self.assertEqual(caught.exception.pid, h.pid)
        await seen.pop(0)
        self.assertEqual(seen, ["cancelled", "killed"])

    async def test_it_is_interrupted(self) -> None:
        async def program(p: HostedProcess) -> str:
            try:
                await p.sleep(3600)
            except errors.KernelInterrupt:
                return "cleaned up"
            return "slept"

        h = await self.k.host("polite", program)
        await self.waiting(h.pid, "time.sleep")
        await self.k.stop(h.pid)
        self.assertEqual(await h, "cleaned up")

    async def test_a_tool_and_a_budget(self) -> None:
        path = os.environ.get("AGENTKERNEL_TEST_SERVER") or support.missing("the tool server of the tests")
        tools = self.write("mcp.json", '{"mcpServers": {"t": {"command": "%s"}}}' % path)

        async def program(p: HostedProcess) -> Any:
            total = (await p.tool("t.add", a=40, b=2))["sum"]
            with self.assertRaises(errors.InvalidArgument):
                await p.tool("add", a=40, b=2)
            with self.assertRaises(errors.ToolFailed):
                await p.tool("t.fail", message="no")
            with self.assertRaises(errors.PermissionDenied):
                await p.tool("t.append_idempotent", path=self.path("lines"), text="x")
            await p.tool("t.append_line", path=self.path("lines"), text="x")
            return total

        h = await self.k.host("tools", program, tools=tools, budget={"calls": 5}, allow="t.append_line")
        self.assertEqual(await h, 42)
        self.assertEqual((await self.k.budget(h.pid)).spent.calls, 3)

    async def test_one_host_at_a_time(self) -> None:
        async def program(p: HostedProcess, sleep: float) -> float:
            await p.call("state.set", key="a", value=1)
            if sleep:
                await p.sleep(sleep)
            return sleep

        first = await self.k.host("one", program, 3600, key="one")
        await self.waiting(first.pid, "time.sleep")
        with mock.patch.object(hosted, "_GOING", 0.05), self.assertRaisesRegex(errors.Conflict, "has a host"):
            await self.k.host("one", program, 0, key="one")
        second = await self.k.host("one", program, 0, key="one", takeover=True)
        self.assertEqual(await second, 0)
        with self.assertRaises(errors.Fenced):
            await first

    async def goes_on(self, end: Callable[[AsyncClient], Any]) -> None:
        """A program whose kernel is replaced notices nothing."""
        turns, drawn = Turns(), []  # type: ignore[var-annotated]

        async def lane(p: HostedProcess) -> None:
            for _ in range(5):
                drawn.append(await p.call("rand.bytes", n=4))

        async def program(p: HostedProcess) -> str:
            await lane(p)
            sleeper = asyncio.create_task(p.sleep(0.2))
            await p.now()
            turns.of("kill").set()
            await turns.of("killed").wait()
            await asyncio.gather(lane(p), lane(p), sleeper)
            return "done"

        h = await self.k.host("survivor", program)
        await turns.of("kill").wait()
        await end(self.k)
        turns.of("killed").set()
        self.assertEqual(await h, "done")
        self.assertEqual(len(set(drawn)), 15)
        self.assertEqual((await self.k.process(h.pid)).usage.syscalls, 17)
        self.assertGreaterEqual([e.kind for e in await self.k.trace(h.pid)].count("attached"), 2)

    async def test_the_kernel_is_killed(self) -> None:
        async def kill(k: AsyncClient) -> None:
            await asyncio.to_thread(self.kill_kernel)

        await self.goes_on(kill)

    async def test_the_kernel_is_shut_down(self) -> None:
        """Somebody wanted it to end: another is waited for, and not started."""

        async def shutdown(k: AsyncClient) -> None:
            pid = (await k.info()).os_pid
            await k.shutdown()
            await asyncio.to_thread(support.eventually, "the kernel has ended", lambda: support.gone(pid))
            looked = asyncio.Event()
            dial = hosted._Host._look

            async def look(host: Any) -> Any:
                try:
                    return await dial(host)
                finally:
                    looked.set()

            with mock.patch.object(hosted._Host, "_look", look):
                await looked.wait()
            with self.assertRaises(errors.Unavailable):
                await AsyncClient(start=False).info()
            await k.info()  # starts one

        await self.goes_on(shutdown)

    async def test_patience(self) -> None:
        async def program(p: HostedProcess) -> None:
            await p.sleep(3600)

        h = await AsyncClient(start=False).host("hasty", program, patience=0.05) if await self.k.info() else None
        assert h is not None
        await self.k.shutdown()
        with self.assertRaisesRegex(errors.Unavailable, f"no kernel that has process {h.pid}"):
            await h

    async def test_a_call_outside_of_the_coroutine(self) -> None:
        async def program(p: HostedProcess, given: "asyncio.Future[HostedProcess]") -> str:
            given.set_result(p)
            await p.sleep(0.05)
            return "done"

        given: "asyncio.Future[HostedProcess]" = asyncio.get_running_loop().create_future()
        h = await self.k.host("inside", program, given)
        p = await given
        with self.assertRaisesRegex(errors.InvalidArgument, "outside"):
            await p.now()
        with p.lane("outside"):
            await p.now()
            with self.assertRaisesRegex(errors.InvalidArgument, "in use"), p.lane("outside"):
                pass
        for name in ("", "1", "1.2", "~a", "a\nb", "x" * 151, 7):
            with self.assertRaises(errors.InvalidArgument):
                p.lane(name)  # type: ignore[arg-type]
        await h
        for _ in range(2):
            with self.assertRaises(errors.KernelError), p.lane("outside"):
                await p.now()

    async def test_task_factories(self) -> None:
        loop = asyncio.get_running_loop()
        made: list[Any] = []

        def own(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> "asyncio.Task[Any]":
            task = asyncio.Task(coroutine, loop=loop, **options)
            made.append(task)
            return task

        self.addCleanup(loop.set_task_factory, loop.get_task_factory())
        loop.set_task_factory(own)

        async def program(p: HostedProcess) -> None:
            before = len(made)
            await asyncio.gather(p.now(), p.now())
            self.assertEqual(len(made), before + 2)
            loop.set_task_factory(own)  # without that of the SDK
            await p.now()
            with self.assertRaisesRegex(errors.InvalidArgument, "two tasks"):
                await asyncio.create_task(p.now())

        h = await self.k.host("factory", program)
        await h
        self.assertEqual(set(await self.calls(h.pid)), {"1@1", "1@2", "1@"})

    @unittest.skipIf(sys.version_info < (3, 12), "eager tasks are of Python 3.12")
    async def test_eager_tasks(self) -> None:
        loop = asyncio.get_running_loop()
        self.addCleanup(loop.set_task_factory, loop.get_task_factory())
        loop.set_task_factory(getattr(asyncio, "eager_task_factory"))

        async def program(p: HostedProcess) -> str:
            await asyncio.gather(p.now(), p.now())
            await p.now()
            return "done"

        h = await self.k.host("eager", program)
        self.assertEqual(await h, "done")
        self.assertEqual(set(await self.calls(h.pid)), {"1@1", "1@2", "1@"})

    async def test_options(self) -> None:
        async def program(p: HostedProcess) -> None:
            pass

        for options in ({"name": "x"}, {"backend": "monty"}, {"nonsense": 1}):
            with self.assertRaises(TypeError):
                await self.k.host("a", program, **options)
        for args in (("", program), ("a", 7)):
            with self.assertRaises(errors.InvalidArgument):
                await self.k.host(*args)
        with self.assertRaises(errors.ProgramError):
            await (await self.k.host("a", lambda p: 7))  # type: ignore[arg-type, return-value]


class Beats(unittest.IsolatedAsyncioTestCase):
    async def test_a_kernel_that_falls_silent(self) -> None:
        """The SDK says something each beat, and attaches again when it has heard nothing for three."""
        home = os.path.realpath(tempfile.mkdtemp(prefix="aks"))
        self.addCleanup(os.rmdir, home)
        requests: list[str] = []
        beats: list[int] = []
        answered = asyncio.Event()

        def answer(body: str) -> bytes:
            return f"HTTP/1.1 200 OK\r\nAgentkernel-Api: 1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split()[1].removeprefix("/api/v1")
            if path.startswith("/version"):
                writer.write(answer('{"version": "0.0.0", "api": 1}'))
            elif "/host" not in path:
                writer.write(answer('{"pid": 7, "name": "a", "state": "waiting"}'))
            else:
                requests.append(path)
                epoch = len(requests)
                writer.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + b'{"attached": {"pid": 7, "epoch": %d, "calls": 0, "beat": 0.01}}\n' % epoch)
                lines = []
                while line := await reader.readline():
                    lines.append(line)
                    if epoch == 2 and b"time.now" in line:
                        writer.write(b'{"lane": "", "n": 1, "result": 1.5}\n')
                    if b"end" in line:
                        writer.write(b'{"ended": {"pid": 7, "name": "a", "state": "exited", "result": 1.5}}\n')
                        break
                beats.append(lines.count(b"{}\n"))
            writer.close()
            answered.set()

        server = await asyncio.start_unix_server(serve, os.path.join(home, "kernel.sock"))

        async def program(p: HostedProcess) -> float:
            return await p.now()

        h = await AsyncClient(home, start=False).host("a", program)
        self.assertEqual(await h, 1.5)
        self.assertEqual(requests, ["/processes/7/host", "/processes/7/host?epoch=1"])
        self.assertGreaterEqual(beats[0], 2)
        server.close()
        await server.wait_closed()
        os.path.exists(os.path.join(home, "kernel.sock")) and os.unlink(os.path.join(home, "kernel.sock"))


if __name__ == "__main__":
    unittest.main()
