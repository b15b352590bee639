"""Functions of this program as tools of programs: calls, permission, what becomes of them when one of the two ends."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import unittest
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional
from unittest import mock

import support
from agentkernel import Limits, TaskManager, aio, create_agent, effect, errors, execute_code
from agentkernel._functionserver import FunctionServer
from agentkernel.agent import AgentHelper
from agentkernel.functions import functions_of

CATCH = """
    try:
        print({call})
    except Exception as e:
        print(type(e).__name__, e)
"""


@dataclass
class Line:
    item: str
    count: int = 1


def function_one() -> Any:
    def one() -> int:
        return 1

    return one


@dataclass
class Strict:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("below zero")
        if self.n > 9:
            raise GeneratorExit


class Shop:
    """What was called, in a list."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    @effect("read")
    def stock(self, item: str, warehouse: str = "north") -> dict[str, Any]:
        """How many pieces of an item are in a warehouse."""
        self.calls.append(("stock", item, warehouse))
        return {"item": item, "pieces": [{"at": warehouse, "n": 3}], "note": None}

    def order(self, lines: list[Line], note: Optional[str] = None) -> int:
        """Orders some items."""
        self.calls.append(("order", lines, note))
        return sum(line.count for line in lines)

    async def later(self, n: int) -> list[int]:
        await asyncio.sleep(0)
        self.calls.append(("later", n))
        return [n, n + 1]

    def fails(self, how: str) -> None:
        self.calls.append(("fails", how))
        if how == "path":
            open("/etc/of/the/host")
        if how == "exit":
            sys.exit(3)
        raise KeyError(how)

    @effect("read")
    def strange(self) -> Any:
        return {"data": b"x"}

    def all(self) -> list[Any]:
        return [self.stock, self.order, self.later, self.fails, self.strange]


def token_of(agent: Any) -> str:
    return str(agent.agent._server.token)


def address_of(agent: Any) -> str:
    return str(agent.agent._server.host)


class Calls(support.KernelTest):
    def agent(self, *functions: Any, **options: Any) -> AgentHelper:
        agent = create_agent(functions=functions, **options)
        self.addCleanup(agent.close)
        return agent

    def test_values(self) -> None:
        shop = Shop()
        result = self.agent(*shop.all()).execute_code("""
            from tools.host import stock, order, later
            print(stock("a"), stock(item="b", warehouse="south")["pieces"])
            print(order([{"item": "a"}, {"item": "b", "count": 4}]), order([], note="none"), later(7))
        """)
        self.assertEqual(result.output, "{'item': 'a', 'pieces': [{'at': 'north', 'n': 3}], 'note': None} [{'at': 'south', 'n': 3}]\n5 0 [7, 8]\n", result.error)
        self.assertEqual(shop.calls, [("stock", "a", "north"), ("stock", "b", "south"), ("order", [Line("a"), Line("b", 4)], None), ("order", [], "none"), ("later", 7)])
        assert result.pid is not None
        called = [(e.args["tool"], e.effect) for e in self.client.trace(result.pid) if e.op == "tool.call" and e.args]
        self.assertEqual(called, [("stock", "read"), ("stock", "read"), ("order", "write"), ("order", "write"), ("later", "write")])

    def test_what_is_listed(self) -> None:
        agent = self.agent(*Shop().all())
        tools = {t.name: t for t in agent.list_available_tools()}
        self.assertEqual((tools["stock"].effect, tools["order"].effect), ("read", "write"))
        self.assertEqual(tools["stock"].signature, "stock(item: str, warehouse: str = 'north') -> dict[str, Any]")
        self.assertEqual(tools["stock"].doc, "How many pieces of an item are in a warehouse.")
        self.assertEqual(tools["order"].cost_usd, 0)
        self.assertEqual([t.import_line for t in agent.search_tools("pieces in a warehouse", 1)], ["from tools.host import stock"])
        self.assertEqual([s.name for s in agent.list_servers()], ["host"])

    def test_how_long_a_call_may_take(self) -> None:
        """The limits of the process say it, and nothing else does."""
        done = threading.Event()
        self.addCleanup(done.set)

        @effect("read")
        def endless() -> None:
            done.wait(support.PATIENCE)

        agent = self.agent(endless)
        result = agent.execute_code("from tools.host import endless\nendless()", limits=Limits(call_wait=1))
        self.assertIn("did not answer endless within 1s", str(result.error))
        (entry,) = json.loads(Path(agent.agent._server.start()).read_text())["mcpServers"].values()  # type: ignore[union-attr]
        self.assertEqual(entry["timeout"], "24h")

    def test_exceptions(self) -> None:
        shop = Shop()
        agent = self.agent(*shop.all())
        for call, says in [
            ("fails('x')", "KeyError: 'x'"), ("fails('path')", "FileNotFoundError: No such file or directory"), ("fails('exit')", "SystemExit: 3"),
            ("strange()", "strange() has run, and its result cannot be given to a program: the result['data'] is of type bytes"),
        ]:  # fmt: skip
            with self.subTest(call), self.assertLogs("agentkernel", logging.INFO) if "fails" in call else contextlib.nullcontext():
                result = agent.execute_code("from tools.host import fails, strange\n" + CATCH.format(call=call).replace("\n    ", "\n"))
                self.assertIn(says, result.output)
                for secret in ("Traceback", "/etc/of", __file__, token_of(agent)):
                    self.assertNotIn(secret, result.output)
        before = len(shop.calls)
        self.assertIn("item", agent.execute_code("from tools.host import stock\nstock(5)").error.message)  # type: ignore[union-attr]
        self.assertEqual(len(shop.calls), before)

    def test_what_a_function_raises_never_breaks_its_call(self) -> None:
        """An outcome that is known is told, whatever is raised, and where."""
        called: list[Any] = []

        def strict(value: Strict) -> int:
            called.append(value)
            return value.n

        def leaves() -> None:
            raise GeneratorExit

        async def later(kind: str) -> None:
            raise {"generator": GeneratorExit, "exit": SystemExit, "keyboard": KeyboardInterrupt}[kind]

        def digits() -> int:
            return 10**5000

        def takes(n: Any) -> Any:
            called.append(n)
            return n

        def copies(kind: str) -> None:
            if kind == "tree":
                raise shutil.Error([("/etc/secret/a", "/etc/secret/b", "[Errno 13] Permission denied: '/etc/secret/a'")])
            if kind == "same":
                raise shutil.SameFileError("'/etc/secret/a' and '/etc/secret/a' are the same file")
            raise OSError("nothing is left")

        agent, escaped = self.agent(strict, leaves, later, digits, takes, copies), mock.Mock()
        with mock.patch.object(threading, "excepthook", escaped), self.assertLogs("agentkernel", logging.INFO):
            for call, says in [
                ("strict({'n': -1})", "RuntimeError tool_error: strict() was not called: ValueError: below zero"), ("strict({'n': 10})", "tool_error: strict() was not called: GeneratorExit"), ("strict({'n': 3})", "3"),
                ("leaves()", "RuntimeError tool_error: GeneratorExit"), ("later('generator')", "tool_error: GeneratorExit"), ("later('exit')", "tool_error: SystemExit"), ("later('keyboard')", "tool_error: KeyboardInterrupt"),
                ("digits()", "tool_error: the function has run, and its result cannot be given to a program: a number in it has more digits"),
                ("takes(10**5000)", "invalid_argument: takes: a number of 5001 digits is larger than tools can read; send it as a text"),
                ("copies('tree')", "tool_error: Error"), ("copies('same')", "tool_error: SameFileError"), ("copies('')", "tool_error: OSError: nothing is left"),
            ]:  # fmt: skip
                with self.subTest(call):
                    result = agent.execute_code("from tools.host import strict, leaves, later, digits, takes, copies\n" + CATCH.format(call=call).replace("\n    ", "\n"))
                    self.assertIn(says, result.output)
                    self.assertNotIn("/etc/secret", result.output)
        self.assertEqual([c for c in called if not isinstance(c, Strict)], [])
        self.assertEqual(len(called), 1)
        escaped.assert_not_called()

    def test_strangers_are_bounded(self) -> None:
        """Another user of the machine cannot have a thread of this program for each connection that he opens, nor keep those that there are."""
        agent = self.agent(function_one())
        self.assertEqual(agent.execute_code("from tools.host import one\none()").result, 1)
        server = agent.agent._server  # type: ignore[union-attr]
        assert server is not None
        where = server.host.rsplit(":", 1)
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(socket.create_connection((where[0], int(where[1])), support.PATIENCE)) for _ in range(100)]
            for connection in opened[:60]:  # the oldest are cut
                connection.settimeout(support.PATIENCE)
                self.assertEqual(connection.recv(1), b"")
            self.assertLess(sum("process_request_thread" in t.name for t in threading.enumerate()), 60)
            self.assertEqual(agent.execute_code("from tools.host import one\none()").result, 1)
            with mock.patch("agentkernel._functionserver.time.monotonic", return_value=time.monotonic() + 60):
                self.assertEqual(agent.execute_code("from tools.host import one\none()").result, 1)
            for connection in opened:  # and at last all
                connection.settimeout(support.PATIENCE)
                self.assertEqual(connection.recv(1), b"")

    def test_at_the_same_time(self) -> None:
        """Ten calls meet in the functions: none waits for another."""
        there = threading.Barrier(10)

        @effect("read")
        def meet(n: int) -> int:
            there.wait(support.PATIENCE)
            return n * n

        result = self.agent(meet).execute_code("""
            import asyncio
            from tools.host.aio import meet
            async def main():
                return await asyncio.gather(*[meet(n) for n in range(10)])
            asyncio.run(main())
        """)
        self.assertEqual(result.result, [n * n for n in range(10)], result.error)

    def test_async_functions_have_one_loop(self) -> None:
        loops = []

        async def which() -> None:
            loops.append((asyncio.get_running_loop(), threading.current_thread()))

        self.agent(which).execute_code("from tools.host import which\nwhich()\nwhich()").check()
        self.assertEqual(loops[0], loops[1])
        self.assertIsNot(loops[0][1], threading.current_thread())

    def test_permission_is_that_of_the_agent(self) -> None:
        shop, asked = Shop(), []
        agent = self.agent(shop.order)
        code = "from tools.host import order\norder([])"
        agent.execute_code(code, allow="other.*", on_ask=asked.append).check()
        self.assertEqual((len(shop.calls), asked), (1, []))
        file = agent.agent._server.start()  # type: ignore[union-attr]
        refused = self.client.run(code, tools=file)
        assert refused.error is not None
        self.assertIn("host.order may change things", str(refused.error))
        self.assertEqual(len(shop.calls), 1)

    def test_beside_other_servers(self) -> None:
        server = os.environ.get("AGENTKERNEL_TEST_SERVER") or support.missing("AGENTKERNEL_TEST_SERVER")
        tools = self.write("beside.json", json.dumps({"mcpServers": {"test": {"command": server}}}))
        code = "from tools.host import stock\nfrom tools.test import add\nprint(stock('a')['item'], add(a=2, b=3))"
        self.assertEqual(self.agent(Shop().stock, tools=tools).execute_code(code).output, "a {'sum': 5}\n")
        self.assertEqual(self.agent(Shop().stock).execute_code(code, tools=tools).output, "a {'sum': 5}\n")

    def test_a_server_of_the_same_name(self) -> None:
        tools = self.write("same.json", json.dumps({"mcpServers": {"host": {"command": "/bin/false"}}}))
        with self.assertRaises(errors.InvalidArgument) as both:
            self.agent(Shop().stock, tools=tools).execute_code("1")
        self.assertIn(f"the server 'host' of {tools} and functions= have one name", both.exception.message)
        self.write("work/tools/host/local.py", "def local(): pass\n")
        with self.assertRaises(errors.InvalidArgument) as local:
            self.agent(Shop().stock, workspace_dir=self.path("work")).execute_code("from tools.host import stock")
        self.assertIn("tools/host/local.py and functions= have one name", local.exception.message)

    def test_a_budget_of_money(self) -> None:
        result = self.agent(Shop().stock).execute_code("from tools.host import stock\nstock('a')['item']", budget={"usd": 1})
        self.assertEqual((result.result, result.error), ("a", None))

    def test_a_folder(self) -> None:
        self.write("folder/a.txt", "a")
        result = self.agent(Shop().stock, workspace_dir=self.path("folder")).execute_code("from tools.host import stock\nstock(open('a.txt').read())['item']")
        self.assertEqual((result.result, result.error), ("a", None))

    def test_background_tasks(self) -> None:
        manager = TaskManager(self.agent(Shop().stock))
        ids = [manager.dispatch_task(f"from tools.host import stock\nprint(stock('{n}')['item'])") for n in range(5)]
        self.assertEqual([r.output for r in manager.wait_for_all(ids)], [f"{n}\n" for n in range(5)])

    def test_one_shot(self) -> None:
        with mock.patch.object(FunctionServer, "close", autospec=True, side_effect=FunctionServer.close) as close:
            self.assertEqual(execute_code("from tools.host import stock\nstock('a')['item']", functions=Shop().stock).result, "a")
            self.assertGreater(close.call_count, 0)

    def test_asyncio(self) -> None:
        """Async functions run in the loop of whoever awaits, where what they use was made."""
        loops: list[Any] = []

        async def which() -> int:
            loops.append(asyncio.get_running_loop())
            return len(loops)

        async def main() -> None:
            async with aio.create_agent(functions=[which]) as agent:
                first = agent.execute_code("from tools.host import which\nwhich()")
                self.assertEqual([r.result for r in await asyncio.gather(first)], [1])
                task = aio.TaskManager(agent)
                self.assertEqual((await task.wait_for_task(await task.dispatch_task("from tools.host import which\nwhich()"))).result, 2)
                self.assertEqual(loops, [asyncio.get_running_loop()] * 2)
            self.assertEqual((await aio.execute_code("from tools.host import which\nwhich()", functions=which)).result, 3)

        asyncio.run(main())

    def test_nothing_is_served_before_it_is_needed(self) -> None:
        agent = self.agent(Shop().stock)
        self.assertIsNone(agent.agent._server._http)  # type: ignore[union-attr]
        agent.close()
        with self.assertRaises(errors.Unavailable):
            agent.execute_code("1")

    def test_a_data_directory_that_cannot_be_written(self) -> None:
        self.write("full/host", "a file is in the way")
        server = FunctionServer(functions_of(Shop().stock), self.path("full"))
        with self.assertRaisesRegex(errors.Unavailable, "the functions cannot be served: .*full/host"):
            server.start()
        server.close()

    def test_folders(self) -> None:
        """Those that are open have one each; what is closed is used again. Nobody else may read them."""
        agents = [self.agent(Shop().stock) for _ in range(2)]
        files = [Path(a.agent._server.start()) for a in agents]  # type: ignore[union-attr]
        self.assertEqual(len(set(files)), 2)
        for file in files:
            self.assertTrue(file.is_relative_to(os.path.join(self.home, "host")))
            self.assertEqual([p.stat().st_mode & 0o777 for p in (file, file.parent, file.parent.parent)], [0o600, 0o700, 0o700])
        agents[0].close()
        self.assertEqual(Path(self.agent(Shop().stock).agent._server.start()), files[0])  # type: ignore[union-attr]


class Secrecy(support.KernelTest):
    def test_the_token_is_nowhere(self) -> None:
        """In the database, the log, a recording, a trace: not as it is, and not in base64."""
        with create_agent(functions=Shop().all()) as agent:
            with self.assertLogs("agentkernel", logging.INFO):
                result = agent.execute_code("from tools.host import fails, stock\nstock('a')\nfails('x')")
            assert result.pid is not None and result.error is not None
            agent.list_available_tools()
            agent.close()
            token, file = token_of(agent), Path(self.home, "host", "1", "tools.json")
            self.assertIn(token, file.read_text())
            ended = self.client.run("from tools.host import stock\nstock('a')", tools=str(file))
            texts = [str(result), repr(result), str(ended.error), repr(agent), repr(agent.agent.settings), str([e.raw for e in self.client.trace(result.pid)])]
            texts.append(str(self.client.inspect(result.pid)))
            texts += [subprocess.run([support.binary(), *a], capture_output=True, text=True).stdout for a in (["trace", str(result.pid)], ["inspect", str(result.pid), "--json"])]
            recording = subprocess.run([support.binary(), "export", str(result.pid)], capture_output=True, check=True).stdout
        held = [p.read_bytes() for p in Path(self.home).rglob("*") if p.is_file() and p != file]
        self.assertGreater(len(held), 3)
        for form in (token, base64.b64encode(token.encode()).decode()[4:-4]):
            for text in [*(t.encode() for t in texts), recording, *held]:
                self.assertNotIn(form.encode(), text)

    def test_programs_do_not_see_it(self) -> None:
        """No folder of a program has the data directory in it, and what a tool reads there is taken out of its answer."""

        @effect("read")
        def read() -> str:
            return Path(self.home, "host", "1", "tools.json").read_text()

        with create_agent(functions=[read]) as agent:
            found = agent.execute_code("from tools.host import read\nprint(read())")
            token = token_of(agent)
        self.assertIn("[Authorization]", found.output, found.error)
        self.assertNotIn(token, found.output)
        with create_agent(functions=[read], workspace_dir=self.folder) as agent, self.assertRaisesRegex(errors.InvalidArgument, "holds the kernel's data directory"):
            agent.execute_code("1")

    def test_who_may_ask(self) -> None:
        shop = Shop()
        server = FunctionServer(functions_of(shop.all()), self.home)
        self.client.info()
        server.start()
        self.addCleanup(server.close)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "stock", "arguments": {"item": "a"}}})
        right = {"Authorization": f"Bearer {server.token}"}
        for method, path, headers, content, status in [
            ("POST", "/mcp", right, body, 200),
            ("POST", "/mcp", {}, body, 401), ("POST", "/mcp", {"Authorization": "Bearer x"}, body, 401), ("POST", "/mcp", {"Authorization": "Bearer \xe4"}, body, 401),
            ("POST", "/mcp", {**right, "Host": f"evil.example:{server.host.partition(':')[2]}"}, body, 403), ("POST", "/mcp", {**right, "Host": "localhost"}, body, 403),
            ("POST", "/mcp", {**right, "Origin": f"http://{server.host}"}, body, 403), ("GET", "/mcp", {"Origin": "https://evil.example"}, None, 403), ("OPTIONS", "/mcp", {"Origin": "null"}, None, 403),
            ("GET", "/mcp", right, None, 405), ("DELETE", "/mcp", right, None, 405), ("POST", "/other", right, body, 404),
            ("POST", "/mcp", right, "{", 400), ("POST", "/mcp", {**right, "Content-Length": str(65 << 20)}, None, 413), ("POST", "/mcp", {**right, "Content-Length": "-1"}, None, 411),
        ]:  # fmt: skip
            with self.subTest(method=method, headers=sorted(headers), status=status):
                connection = http.client.HTTPConnection(server.host, timeout=support.PATIENCE)
                with contextlib.closing(connection):
                    connection.request(method, path, content, headers)
                    answer = connection.getresponse()
                    self.assertEqual(answer.status, status)
                    self.assertNotIn(server.token.encode(), answer.read())
                    self.assertIsNone(answer.getheader("Access-Control-Allow-Origin"))
        self.assertEqual(len(shop.calls), 1)

    def test_messages(self) -> None:
        server = FunctionServer(functions_of(Shop().all()), self.home)
        for message, says in [([], "no request"), ({"id": 1, "method": "x"}, "no method x"), ({"id": 1, "method": "tools/call"}, "no function"), ({"id": 1, "method": "tools/call", "params": {"name": "__init__"}}, "no function")]:
            answer = server.answer(message)
            assert answer is not None
            self.assertIn(says, answer["error"]["message"])
        self.assertIsNone(server.answer({"method": "notifications/cancelled", "params": {"requestId": 1}}))


#: A program that is killed after its process has called a function once, and the kernel with it.
KILLED = """
import os, sys
from agentkernel import TaskManager, create_agent, effect

@effect("read")
def look() -> int:
    print("called", flush=True)
    return 1

agent = create_agent(functions=[look])
manager = TaskManager(agent)
pid = manager.dispatch_task('''
from tools.host import look
look()
print("once", flush=True)
from kernel import signals
signals.wait()
look()
''')
for event in manager.stream_task(pid):
    if event.kind == "output":
        break
print(pid, flush=True)
os.kill(agent.client.info().os_pid, 9)
os._exit(0)
"""


class Ends(support.KernelTest):
    def killing(self, effects: str) -> tuple[list[int], Any]:
        """A function in the middle of whose first call the kernel is killed."""
        calls: list[int] = []

        @effect(effects)
        def change(n: int) -> int:
            calls.append(n)
            if len(calls) == 1:
                self.kill_kernel()
            return n

        with create_agent(functions=[change]) as agent:
            with self.assertRaises(errors.KernelGone) as gone:
                agent.execute_code("""
                    from tools.host import change
                    try:
                        print("did", change(1))
                    except OSError as e:
                        print(e)
                    print(change(2))
                """)
            self.client.recover(gone.exception.pid)
            return calls, self.client.result(gone.exception.pid)

    def test_a_write_is_not_repeated(self) -> None:
        calls, result = self.killing("write")
        self.assertEqual(calls, [1, 2])
        self.assertIn("outcome_unknown: host.change may or may not have happened", result.output)
        self.assertTrue(result.output.endswith("\n2\n"), result)

    def test_what_may_be_repeated_is(self) -> None:
        for effects in ("read", "idempotent"):
            calls, result = self.killing(effects)
            self.assertEqual((calls, result.output), ([1, 1, 2], "did 1\n2\n"))

    def test_a_closed_agent(self) -> None:
        """What it has started is told that its functions are gone."""
        shop = Shop()
        agent = create_agent(functions=shop.all())
        manager = TaskManager(agent)
        pid = manager.dispatch_task("from tools.host import stock\nfrom kernel import signals\nprint(stock('a'), flush=True)\nsignals.wait()\nstock('b')")
        events = manager.stream_task(pid)
        next(e for e in events if e.kind == "output")
        agent.close()
        agent.close()
        with self.assertRaisesRegex(errors.Unavailable, "the agent is closed"):
            agent.execute_code("1")
        self.client.tell(pid)
        result = manager.wait_for_task(pid)
        self.assertIn("functions of the program that started this process, and it has ended or has closed its agent", str(result.error))
        self.assertEqual(shop.calls, [("stock", "a", "north")])

    def test_a_program_that_is_killed(self) -> None:
        """Its process is recovered, is told that the functions are gone, and never has those of another that are called the same."""
        for another in (False, True):
            said = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(support.SDK / "src")}, timeout=support.PATIENCE)
            self.assertEqual(said.stdout.split()[0], "called", said.stderr)
            pid, calls = int(said.stdout.split()[1]), []

            def look() -> int:
                calls.append(1)
                return 2

            with create_agent(functions=[look]) as agent:
                if another:
                    self.assertEqual(agent.agent._server.start(), os.path.join(self.home, "host", "1", "tools.json"))  # type: ignore[union-attr]
                self.client.recover(pid)
                process = self.client.wait(pid)
                self.assertTrue(process.paused, process)
                self.assertIn("functions of the program that started this process, and it has ended", process.pause_note)
            self.assertEqual(calls, [])
            self.client.kill(pid)

    def test_a_fork_does_not_listen(self) -> None:
        """A child that outlives the program does not keep its port open, where nobody would answer."""
        script = """
import os, sys
from agentkernel._functionserver import FunctionServer
from agentkernel.functions import functions_of
def f() -> None: ...
server = FunctionServer(functions_of(f), sys.argv[1])
server.start()
print(server.host, flush=True)
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.read()
os._exit(0)
"""
        self.client.info()
        with subprocess.Popen([sys.executable, "-W", "ignore", "-c", script, self.home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(support.SDK / "src")}) as program:
            assert program.stdout is not None
            host = program.stdout.readline().strip()
            self.assertEqual(program.stdout.readline(), "forked\n")
            program.wait(support.PATIENCE)
            with self.assertRaises(ConnectionRefusedError), contextlib.closing(http.client.HTTPConnection(host)) as connection:
                connection.request("GET", "/")


if __name__ == "__main__":
    unittest.main()
