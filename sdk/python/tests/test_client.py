"""The verbs, against the real kernel."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Iterator
from unittest import mock

import support
from agentkernel import Client, Event, Limits, Pause, Spec, Spending, _kernel, _steps, _sync, errors

SLEEPER = "from kernel import sleep\nprint('up', flush=True)\nsleep(60)\nprint('never')"


LISTENER = """
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
if os.fork() == 0:
    sys.stdin.read()
"""


class Heirs(support.KernelTest):
    def test_socket_of_a_dead_kernel(self) -> None:
        """A kernel is killed while it starts a program: the child still has the socket."""
        client = Client(self.home, start=False)
        os.makedirs(os.path.dirname(client.kernel.socket), mode=0o700, exist_ok=True)
        with subprocess.Popen([sys.executable, "-c", LISTENER, client.kernel.socket], stdin=subprocess.PIPE) as dead:
            support.eventually("it has ended", lambda: support.gone(dead.pid))
            with self.assertRaises(errors.Unavailable) as caught:
                client.info()
            self.assertIn("no kernel runs", caught.exception.message)
            os.unlink(client.kernel.socket)


class Verbs(support.KernelTest):
    def test_run(self) -> None:
        seen: list[Event] = []
        r = self.client.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n(1, {2}, b'x')", on_output=seen.append, name="three.py")
        self.assertEqual((r.output, r.stderr, r.result, r.state, r.exit_code, r.error), ("out\n", "err\n", (1, {2}, b"x"), "exited", 0, None))
        self.assertEqual([(e.stream, e.text) for e in seen], [("stdout", "out\n"), ("stderr", "err\n")])
        ok, output, error = r
        self.assertEqual((ok, output, error, bool(r)), (True, "out\n", None, True))
        self.assertIs(r.check(), r)
        p = self.client.process(r.pid or 0)
        self.assertEqual((p.name, p.done, p.success, p.usage.output), ("three.py", True, True, 8))
        self.assertGreater(r.duration, 0)

    def test_error_table(self) -> None:
        """What a program can do wrong is in the result, with the kernel's code."""
        for source, options, state, code, exit_code, says in [
            ("def f():\n    return 1 / 0\nf()", {}, "failed", "program_error", 1, "line 2, in f"),
            ("import sys\nsys.exit(3)", {}, "exited", "program_error", 3, "exit code 3"),
            ("x = = 1", {}, "failed", "syntax_error", 2, "SyntaxError"),
            ("import no_such_module", {}, "refused", "unsupported", 2, "no_such_module"),
            ("from tools.none import x", {}, "failed", "not_found", 1, "none"),
            ("x = '\ud800'", {}, "refused", "syntax_error", 2, "UTF-8"),
            ("while True: pass", {"limits": Limits(time=0.2)}, "killed", "limit_exceeded", 0, "time limit"),
            ("from kernel import sleep\nsleep(60)", {"timeout": 0.2}, "killed", "limit_exceeded", 0, "wall limit"),
            ("x = []\nwhile True: x.append('y' * 100000)", {"limits": Limits(memory="16m")}, "killed", "limit_exceeded", 0, "memory limit"),
            ("while True: print('x' * 1000)", {"limits": Limits(output="64k")}, "killed", "limit_exceeded", 0, "output limit"),
            ("def f(n): return f(n + 1)\nf(0)", {}, "killed", "limit_exceeded", 0, "recursion limit"),
            ("from kernel import state\nstate.set('a', 1)", {"deny": ["state"]}, "failed", "program_error", 1, "permission_denied"),
            ("raise ValueError('no good')", {}, "failed", "program_error", 1, "no good"),
        ]:
            with self.subTest(source=source):
                r = self.client.run(source, **options)  # type: ignore[arg-type]
                assert r.error is not None
                self.assertEqual((r.state, r.error.code, r.success), (state, code, False))
                self.assertIn(says, str(r.error))
                self.assertEqual(r.pid is None, state == "refused")
                if state != "killed":
                    self.assertEqual(r.exit_code, exit_code)
                self.assertIs(type(r.error), errors.CLASSES[code] if state != "exited" else errors.KernelError)
                with self.assertRaises(errors.KernelError):
                    r.check()

    def test_wrong_calls_raise(self) -> None:
        for call, kind in [
            (lambda: self.client.run("1", priority=5000), errors.InvalidArgument),
            (lambda: self.client.run("1", on_unknown="maybe"), errors.InvalidArgument),
            (lambda: self.client.run("1", no_such_option=1), TypeError),
            (lambda: self.client.spawn("import no_such_module"), errors.Unsupported),
            (lambda: self.client.spawn("\ud800"), errors.ProgramSyntaxError),
            (lambda: list(self.client.stream("import no_such_module")), errors.Unsupported),
            (lambda: self.client.wait(999_999), errors.NotFound),
            (lambda: self.client.process(0), errors.InvalidArgument),
            (lambda: self.client.wait("twelve"), errors.InvalidArgument),  # type: ignore[arg-type]
            (lambda: self.client.wait(True), errors.InvalidArgument),
            (lambda: self.client.kill(999_999), errors.NotFound),
            (lambda: self.client.kill(1, "SIGTERM"), errors.InvalidArgument),
            (lambda: self.client.stop(999_999), errors.NotFound),
            (lambda: self.client.stop(1, grace=0), errors.InvalidArgument),
            (lambda: self.client.tell(999_999), errors.NotFound),
            (lambda: self.client.halt(tree=999_999), errors.NotFound),
            (lambda: self.client.halt(namespace=""), errors.InvalidArgument),
            (lambda: self.client.thaw(), errors.Conflict),
            (lambda: list(self.client.logs(999_999)), errors.NotFound),
            (lambda: self.client.trace(999_999), errors.NotFound),
            (lambda: self.client.answer(999_999, 1, "yes"), errors.NotFound),
            (lambda: self.client.recover(999_999), errors.NotFound),
        ]:
            with self.assertRaises(kind):
                call()

    def test_callbacks_that_are_none(self) -> None:
        before = len(self.client.ps(all=True))
        for name in ("on_output", "on_event", "on_ask"):
            with self.assertRaisesRegex(errors.InvalidArgument, name):
                self.client.run("print(1)", **{name: "x"})  # type: ignore[arg-type]
        self.assertEqual(len(self.client.ps(all=True)), before)  # refused before anything ran

    def test_an_interrupt_names_the_process(self) -> None:
        """Ctrl-C stops the waiting. The process goes on, and whoever pressed it knows which."""
        with self.assertRaises(KeyboardInterrupt) as caught:
            self.client.run(SLEEPER, on_output=lambda event: _thread_interrupt())
        (pid,) = [p.pid for p in self.client.ps()]
        said = "".join(getattr(caught.exception, "__notes__", [f"client.kill({pid})"]))
        self.assertIn(f"client.kill({pid})", said)
        self.client.kill(pid)

    def test_after_a_fork(self) -> None:
        """The child of a fork may go on with the client that it has."""
        self.client.info()
        program = "import os\nfrom agentkernel import Client\nc = Client()\nc.info()\npid = os.fork()\nout = c.run('6 * 7').result\n" \
                  "os._exit(0 if out == 42 else 1) if pid == 0 else print(out, os.waitpid(pid, 0)[1])"  # fmt: skip
        env = {**os.environ, "PYTHONPATH": str(support.SDK / "src")}
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.stdout, done.stderr), ("42 0\n", ""))

    def test_streaming(self) -> None:
        events = self.client.stream(SLEEPER)
        first = list(itertools.islice(events, 2))  # it prints while it runs
        self.assertEqual([e.kind for e in first], ["created", "output"])
        self.client.kill(first[0].pid)
        rest = list(events)
        self.assertEqual(rest[-1].kind, "end")
        assert rest[-1].process is not None
        self.assertEqual(rest[-1].process.state, "killed")

    def test_a_reader_that_leaves_does_not_stop_the_process(self) -> None:
        events = self.client.stream("from kernel import sleep\nprint('a')\nsleep(0.1)\nprint('b')")
        pid = next(events).pid
        events.close()  # type: ignore[attr-defined]
        self.assertEqual(self.client.result(pid).output, "a\nb\n")

    def test_an_error_in_a_callback_is_the_callers(self) -> None:
        def broken(event: Event) -> None:
            raise ZeroDivisionError("mine")

        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            self.client.run("print(1)", on_output=broken)

    def test_spawn_wait_logs(self) -> None:
        p = self.client.spawn("print('x')\n6 * 7", args=["a"])
        end = self.client.wait(p.pid, timeout=20)
        self.assertEqual((end.state, end.result), ("exited", 42))
        self.assertEqual([e.text for e in self.client.logs(p.pid)], ["x\n"])
        self.assertEqual([e.kind for e in self.client.events(p.pid)], ["created", "output", "end"])
        self.assertEqual(self.client.result(p.pid).output, "x\n")

    def test_idempotency(self) -> None:
        a = self.client.spawn("print(1)", idempotency_key="k")
        b = self.client.spawn("print(1)", idempotency_key="k")
        c = self.client.spawn("print(1)")
        self.assertEqual(a.pid, b.pid)
        self.assertNotEqual(a.pid, c.pid)

    def test_signals(self) -> None:
        p = self.client.spawn("from kernel import sleep\nfor i in range(1000):\n    sleep(0.01)")
        self.client.pause(p.pid)
        paused = self.client.wait(p.pid, timeout=20)
        self.assertTrue(paused.paused)
        self.assertFalse(self.client.result(p.pid).success)
        self.assertEqual(paused.paused_for, Pause("hand"))
        self.client.resume(p.pid)
        support.eventually("it goes on", lambda: not self.client.process(p.pid).paused)
        with self.assertRaises(errors.Timeout) as caught:
            self.client.wait(p.pid, timeout=0.05)
        self.assertEqual(caught.exception.pid, p.pid)
        with self.assertRaises(TimeoutError):
            self.client.wait(p.pid, timeout=0)
        self.client.kill(p.pid, "interrupt")
        end = self.client.wait(p.pid)
        assert end.error is not None
        self.assertEqual((end.error.code, end.error.exception), ("program_error", "KeyboardInterrupt"))
        with self.assertRaises(errors.Conflict):
            self.client.kill(p.pid)

    def test_stop_tell_and_halt(self) -> None:
        polite = "from kernel import sleep\ntry:\n    sleep(60)\nexcept KeyboardInterrupt:\n    print('clean')"
        p = self.client.spawn(polite)
        support.eventually("it sleeps", lambda: self.client.process(p.pid).waits_for)
        end = self.client.stop(p.pid)
        self.assertEqual((end.state, end.exit_code), ("exited", 0))
        self.assertEqual(self.client.stop(self.client.spawn("while True:\n    pass").pid, grace=0.2).state, "killed")
        begun = time.monotonic()  # less than a millisecond is not the default of ten seconds
        self.assertEqual(self.client.stop(self.client.spawn("while True:\n    pass").pid, grace=1e-6).state, "killed")
        self.assertLess(time.monotonic() - begun, 8)
        p = self.client.spawn("from kernel import signals\nsignals.wait()")
        self.client.halt(why="a drill")
        self.client.tell(p.pid, {"n": [1, None]})
        with self.assertRaises(errors.Unavailable) as caught:
            self.client.run("1")
        self.assertIn("a drill", str(caught.exception))
        self.client.thaw()
        self.assertEqual(self.client.wait(p.pid).result, {"n": [1, None]})

    def test_ps_and_inspect(self) -> None:
        p = self.client.spawn("from kernel import state, spawn, sleep\nstate.set('k', (1, 2))\nspawn('1')\nsleep(60)", name="parent.py")
        support.eventually("it has a child", lambda: self.client.inspect(p.pid).children)
        found = self.client.inspect(p.pid)
        self.assertEqual((found.process.name, found.state, found.spec["program"]["name"]), ("parent.py", {"k": (1, 2)}, "parent.py"))
        self.assertEqual(self.client.state(p.pid), {"k": (1, 2)})
        self.assertIn(p.pid, [q.pid for q in self.client.ps()])
        self.assertEqual([q.parent for q in self.client.ps(all=True, parent=p.pid)], [p.pid])
        self.client.kill(p.pid)
        self.assertNotIn(p.pid, [q.pid for q in self.client.ps()])
        self.assertIn(p.pid, [q.pid for q in self.client.ps(all=True)])
        self.assertEqual(len(self.client.ps(all=True, limit=1)), 1)

    def test_trace(self) -> None:
        r = self.client.run("from kernel import state\nstate.set('a', {'b': (1,)})\nstate.get('none')")
        entries = self.client.trace(r.pid or 0)
        calls = [e for e in entries if e.kind == "call"]
        self.assertEqual([(e.op, e.call, e.done) for e in calls], [("state.set", 1, True), ("state.get", 2, True)])
        self.assertEqual(calls[0].args, {"key": "a", "value": {"b": (1,)}})
        self.assertEqual([e.seq for e in entries], list(range(1, len(entries) + 1)))
        self.assertEqual([e.seq for e in self.client.trace(r.pid or 0, first=2, limit=2)], [2, 3])

    def test_a_long_journal_comes_in_pages(self) -> None:
        r = self.client.run("from kernel import state\nfor i in range(6000):\n    state.set('n', i)")
        self.assertEqual(len([e for e in self.client.trace(r.pid or 0) if e.kind == "call"]), 6000)

    def test_large_output_arrives_whole(self) -> None:
        r = self.client.run("for i in range(20000):\n    print(str(i) * 20)")
        self.assertEqual(r.output, "".join(str(i) * 20 + "\n" for i in range(20000)))
        self.assertEqual(self.client.result(r.pid or 0).output, r.output)

    def test_threads(self) -> None:
        results: list[Any] = []
        threads = [threading.Thread(target=lambda n=n: results.append(self.client.run(f"print({n} ** 2)").output)) for n in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(int(r) for r in results), [n**2 for n in range(20)])

    def test_a_program_from_a_file(self) -> None:
        path = self.write("prog/main.py", "from tools.maths import double\nimport sys\nprint(double(int(sys.argv[1])))")
        self.write("prog/tools/maths/double.py", "def double(x):\n    return 2 * x\n")
        self.assertEqual(self.client.run(Spec.file(path), args=["21"]).check().output, "42\n")

    def test_info(self) -> None:
        info = self.client.info()
        self.assertEqual((info.api, info.home, info.mode), (1, self.home, "background"))
        self.assertIn("monty", [b["name"] for b in info.raw["backends"]])


def _thread_interrupt() -> None:
    raise KeyboardInterrupt


class Tools(support.KernelTest):
    """With a real MCP server."""

    def setUp(self) -> None:
        super().setUp()
        server = os.environ.get("AGENTKERNEL_TEST_SERVER")
        if not server:
            support.missing("the MCP test server: AGENTKERNEL_TEST_SERVER (the Go test builds it)")
        self.config = self.write("mcp.json", '{"mcpServers": {"test": {"command": "%s"}}}' % server)
        self.file = self.path("lines.txt")

    def test_list(self) -> None:
        servers = self.client.servers(self.config)
        self.assertEqual([(s.name, s.transport) for s in servers], [("test", "stdio")])
        tools = {t.name: t for t in self.client.tools([self.config], "test")}
        self.assertEqual(tools["add"].signature, "add(a: int, b: int) -> dict[str, Any]")
        self.assertEqual(tools["add"].import_line, "from tools.test import add")
        self.assertEqual((tools["add"].effect, tools["append_line"].effect), ("read", "write"))
        with self.assertRaises(errors.NotFound):
            self.client.tools(self.path("none.json"))

    def test_call(self) -> None:
        self.assertEqual(self.client.run("from tools.test import add\nadd(a=2, b=3)", tools=self.config).result, {"sum": 5})

    def test_budgets(self) -> None:
        priced = self.write("priced.json", Path(self.config).read_text().replace('"command"', '"cost_usd": 0.05, "command"'))
        source = "from tools.test import add\nfor n in range(3):\n    print(add(a=n, b=n)['sum'])"
        self.assertEqual(self.client.tools(priced)[0].cost_usd, 0.05)
        p = self.client.wait(self.client.spawn(source, tools=priced, budget={"usd": 0.1, "calls": 9}).pid)
        self.assertTrue(p.paused, p)
        self.assertIn("budget: the call costs $0.05", p.pause_note)
        assert p.paused_for is not None
        self.assertEqual((p.paused_for.kind, p.paused_for.budget, p.paused_for.amount), ("budget", p.pid, "usd"))
        result = self.client.result(p.pid)
        self.assertEqual((result.success, result.exit_code), (False, 130))
        b = self.client.budget(p.pid)
        self.assertEqual((str(b.limit.usd), b.limit.calls, str(b.spent.usd), b.spent.calls, b.held), ("0.1", 9, "0.1", 2, Spending()))
        b = self.client.add_budget(p.pid, usd="0.05")
        self.assertEqual((str(b.limit.usd), b.limit.tokens), ("0.15", 0))
        self.assertEqual(self.client.result(p.pid).output, "0\n2\n4\n")
        with self.assertRaises(errors.Conflict):
            self.client.add_budget(p.pid, calls=1)
        with self.assertRaises(errors.NotFound):
            self.client.budget(self.client.run("1").pid or 0)
        r = self.client.run(source, tools=priced, budget={"calls": 1}, on_budget="raise")
        self.assertIn("the budget of process %d is 1 call" % (r.pid or 0), str(r.error))
        self.assertEqual(self.client.run(source, tools=priced, budget={"calls": 1}, on_budget="kill").state, "killed")

    def test_permission(self) -> None:
        source = f"from tools.test import append_line\nappend_line(path={self.file!r}, text='x')"
        r = self.client.run(source, tools=self.config)
        assert r.error is not None
        self.assertIn("permission_denied", str(r.error))
        self.assertIn("in Python: allow='test.append_line'", r.error.hint)
        self.assertFalse(os.path.exists(self.file))
        self.client.run(source, tools=self.config, allow="test.append_line").check()
        self.assertEqual(Path(self.file).read_text(), "x\n")

    def test_ask(self) -> None:
        source = f"from tools.test import append_line\nfor i in range(3):\n    try:\n        append_line(path={self.file!r}, text=str(i))\n    except PermissionError:\n        print('no', i)"
        answers = iter([True, False, "always"])
        asked: list[Any] = []
        r = self.client.run(source, tools=self.config, on_ask=lambda ask: asked.append(ask) or next(answers))
        self.assertEqual(r.check().output, "no 1\n")
        self.assertEqual([(a.call, a.effect) for a in asked], [("test.append_line", "write")] * 3)
        self.assertEqual(asked[0].args, {"path": self.file, "text": "0"})
        os.unlink(self.file)


ECHO = """
import json, sys

OPTIONAL = {"text": {"type": ["string", "null"]}, "number": {"anyOf": [{"type": "number"}, {"type": "null"}]}, "plain": {"type": "string"}, "any": {}}
TOOL = {"name": "echo", "description": "Gives its arguments.", "annotations": {"readOnlyHint": True}, "inputSchema": {"type": "object", "properties": OPTIONAL}}
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result = {}
    if request["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}}
    elif request["method"] == "tools/list":
        result = {"tools": [TOOL]}
    elif request["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": json.dumps(request["params"].get("arguments"))}]}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


class Arguments(support.KernelTest):
    """What of a program's arguments reaches a tool, from either backend."""

    def test_what_is_sent(self) -> None:
        server = self.write("echo.py", ECHO)
        config = self.write("echo.json", '{"mcpServers": {"echo": {"command": "%s", "args": ["%s"]}}}' % (sys.executable, server))
        calls = {
            "echo()": "{}",
            "echo(text=None)": '{"text": null}',  # null is a value of its schema
            "echo(None, None)": '{"text": null, "number": null}',
            "echo(plain=None)": "{}",  # it is not: None means that it is not given
            "echo(any=None)": '{"any": null}',
            "echo(any=[None, 1])": '{"any": [null, 1]}',
        }
        refused = ["echo(number=float('nan'))", "echo(any=float('inf'))", "echo(any=[1, {'x': float('-inf')}])", "echo(any=10 ** 400)"]
        for backend in ("monty", "process"):
            for call, want in calls.items():
                r = self.client.run(f"from tools.echo import echo\nprint({call})", tools=config, backend=backend)
                self.assertEqual((r.output, r.error), (want + "\n", None), f"{call} on {backend}")
            for call in refused:
                r = self.client.run(f"from tools.echo import echo\ntry:\n    print({call})\nexcept TypeError as e:\n    print('refused', e)", tools=config, backend=backend)
                self.assertRegex(r.output, r"refused .*(NaN and infinite numbers cannot be written as JSON|a number of 401 digits)", f"{call} on {backend}")
                self.assertLess(len(r.output), 500)


class Strangers(support.KernelTest):
    """What listens, or does not, and is no kernel of ours."""

    def setUp(self) -> None:
        super().setUp()
        self.other = tempfile.mkdtemp(dir=self.folder)

    @contextlib.contextmanager
    def listen(self, reply: bytes) -> Iterator[None]:
        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                self.request.recv(65536)
                if reply:
                    self.request.sendall(reply)
                else:
                    self.request.recv(65536)  # until the caller has gone

        path = os.path.join(self.other, "kernel.sock")
        server = socketserver.ThreadingUnixStreamServer(path, Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            os.unlink(path)

    def http(self, body: str, headers: str = "Agentkernel-Api: 1\r\n", status: str = "200 OK") -> bytes:
        return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    def test_nobody(self) -> None:
        client = Client(self.path("empty"), start=False)
        for call in (client.info, lambda: client.run("1"), lambda: client.wait(1), lambda: list(client.stream("1"))):
            with self.assertRaises(errors.Unavailable) as caught:
                call()  # type: ignore[operator]
            self.assertIn("agentkernel start", caught.exception.hint)
        self.assertFalse(client.shutdown())
        self.assertFalse(os.path.exists(self.path("empty")))

    def test_a_socket_that_nobody_serves(self) -> None:
        s = socket.socket(socket.AF_UNIX)
        s.bind(os.path.join(self.other, "kernel.sock"))
        s.close()
        client = Client(self.other)
        self.addCleanup(client.shutdown)
        self.assertEqual(client.run("print(1)").output, "1\n")  # a kernel takes its place

    def test_another_api_version(self) -> None:
        with self.listen(self.http('{"version": "9.9.9", "api": 2}', "Agentkernel-Api: 2\r\n")):
            with self.assertRaises(errors.VersionMismatch) as caught:
                Client(self.other).run("1")
            self.assertIn("9.9.9", caught.exception.message)
            self.assertIn("agentkernel shutdown", caught.exception.hint)

    def test_a_refusal_of_our_version(self) -> None:
        body = '{"code": "version_mismatch", "message": "this is API 1", "hint": "shutdown"}'
        with self.listen(self.http(body, status="426 Upgrade Required")):
            with self.assertRaises(errors.VersionMismatch):
                Client(self.other).info()

    def test_no_kernel_at_all(self) -> None:
        for reply in (b"SSH-2.0\r\n\r\n", self.http("{}", ""), self.http("<html>", status="500 Oops")):
            with self.subTest(reply=reply), self.listen(reply), self.assertRaises(errors.Unavailable):
                Client(self.other).info()

    def test_every_verb_names_what_it_was_about_when_the_kernel_dies_early(self) -> None:
        public = {n for n, f in vars(Client).items() if callable(f) and not n.startswith("_")} - {"close", "shutdown"}
        self.assertEqual({n for n, _ in support.VERBS}, public)
        for greets in (False, True):
            with support.cutting(self.other, greets):
                for name, args in support.VERBS:
                    with self.subTest(name=name, args=args, greets=greets), self.assertRaises(errors.KernelGone) as caught:
                        given = getattr(Client(self.other), name)(*args)
                        list(given)
                    e = caught.exception
                    self.assertEqual(e.pid, 7 if 7 in args else 0)
                    self.assertTrue(e.hint)
                    self.assertEqual(bool(e.idempotency_key), name in support.CREATES)
                    self.assertIn(e.idempotency_key, e.hint)

    def test_the_key_of_a_process_whose_pid_was_lost(self) -> None:
        """The same call with the key gives the process that was created, and no second one."""
        cut = mock.patch.object(_sync.Run, "_receive", side_effect=_steps.ConnectionCut("cut"))
        client = Client()
        client.info()
        for name in ("spawn", "run"):
            before = {p.pid for p in client.ps(all=True)}
            with cut, self.assertRaises(errors.KernelGone) as caught:
                getattr(client, name)("print(1)", name=name)
            key = caught.exception.idempotency_key
            self.assertIn(repr(key), caught.exception.hint)
            self.assertEqual(pickle.loads(pickle.dumps(caught.exception)).idempotency_key, key)
            result = client.run("print(1)", name=name, idempotency_key=key)
            self.assertEqual({p.pid for p in client.ps(all=True)} - before, {result.pid})
            with self.assertRaises(errors.Conflict):
                client.run("print(2)", idempotency_key=key)

    def test_advice_names_the_data_directory(self) -> None:
        """A command that is typed as it is advised must not act on the processes of another directory."""
        kernel = Client(home="a b", start=False).kernel
        for error in (kernel.gone(7, "watched"), kernel.unfinished(None, 7)):
            self.assertRegex(error.hint, r"agentkernel --home '/.*/a b' recover 7 --wait")

    def test_the_kernel_does_not_come_back(self) -> None:
        """Once a request may have been heard, it is no plain Unavailable that there is no other kernel to ask."""
        for name in support.CREATES:
            os_pid = Client().info().os_pid
            client = Client(start=False)
            client.info()

            def die(run: Any, step: Any, os_pid: int = os_pid) -> bytes:
                os.kill(os_pid, 9)
                support.eventually("the killed kernel is gone", lambda: support.gone(os_pid))
                raise _steps.ConnectionCut("cut")

            with mock.patch.object(_sync.Run, "_receive", die), self.assertRaises(errors.KernelGone) as caught:
                list(getattr(client, name)("print(1)"))
            self.assertTrue(caught.exception.idempotency_key)

    def test_a_kernel_that_hangs(self) -> None:
        with self.listen(b""):
            with mock.patch.object(_kernel, "_PATIENCE", 0.2), self.assertRaises(errors.Unavailable) as caught:
                Client(self.other).info()
            self.assertIn("does not answer", caught.exception.message)

    def test_a_missing_engine_says_how_to_install_it(self) -> None:
        with mock.patch.dict(os.environ, {"AGENTKERNEL_ENGINE": "/none/monty"}):
            client = Client(self.path("noengine"))
            self.addCleanup(client.shutdown)
            with self.assertRaises(errors.Unavailable) as caught:
                client.run("1", backend="monty")
        self.assertIn("agentkernel setup", caught.exception.hint)

    def test_a_long_data_directory(self) -> None:
        home = self.path("x" * 60, "y" * 60)
        client = Client(home)
        self.addCleanup(client.shutdown)
        self.assertEqual(client.run("print(1)").output, "1\n")
        self.assertEqual(Client(home, start=False).run("print(2)").output, "2\n")


if __name__ == "__main__":
    unittest.main()
