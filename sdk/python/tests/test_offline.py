"""What needs no kernel: errors, where things are, specs, arguments of agents."""

from __future__ import annotations

import datetime
import decimal
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import support
from agentkernel import Allowance, Budget, Client, KernelError, Limits, ModelUsage, Spec, Spending, _home, _kernel, _result, _steps, changes, create_agent, errors
from agentkernel.model import Process, parse_time
from agentkernel.result import Result
from agentkernel.spec import files, local_tools, size, texts


class OldPython(unittest.TestCase):
    def test_the_import_says_which_is_needed(self) -> None:
        code = "import sys; sys.version_info = (3, 8, 18, 'final', 0); import agentkernel"
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(support.ROOT / "sdk/python/src")})
        self.assertIn("ImportError: agentkernel needs Python 3.10 or later, and this is 3.8: ", ran.stderr)
        project = (support.ROOT / "sdk/python/pyproject.toml").read_text(encoding="utf-8")
        self.assertIn('requires-python = ">=3.10"', project, "the import asks for another version")


class Errors(unittest.TestCase):
    def test_one_class_for_each_code(self) -> None:
        page = (support.ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
        table = page[page.index("## Codes") : page.index("## Exceptions")]
        codes = set(re.findall(r"(?m)^\| `(\w+)` \|", table))
        self.assertGreater(len(codes), 20)
        self.assertEqual(codes, set(errors.CLASSES), "docs/errors.md and the SDK do not have the same codes")
        for code, cls in errors.CLASSES.items():
            self.assertEqual(cls.code, code)

    def test_from_wire(self) -> None:
        e = KernelError.from_wire({"code": "not_found", "message": "no process 9", "hint": "ps", "pid": 9, "op": "wait"})
        self.assertIsInstance(e, errors.NotFound)
        self.assertIsInstance(e, LookupError)
        self.assertEqual((str(e), e.pid, e.op), ("not_found: no process 9\nhint: ps", 9, "wait"))
        new = KernelError.from_wire({"code": "brand_new", "message": "m"})
        self.assertEqual((type(new), new.code), (KernelError, "brand_new"))
        failed = KernelError.from_wire({"code": "program_error", "message": "ValueError: x", "traceback": "Traceback ...\nValueError: x\n"})
        self.assertEqual(str(failed), "Traceback ...\nValueError: x")

    def test_builtin_bases(self) -> None:
        for cls, base in [(errors.PermissionDenied, PermissionError), (errors.Timeout, TimeoutError), (errors.Unavailable, ConnectionError),
                          (errors.InvalidArgument, ValueError), (errors.Unsupported, NotImplementedError)]:  # fmt: skip
            with self.assertRaises(base):
                raise cls("m", hint="h")

    def test_pickle(self) -> None:
        e = errors.KernelGone("m", hint="h", pid=3)
        again = pickle.loads(pickle.dumps(e))
        self.assertEqual((type(again), str(again), again.pid), (errors.KernelGone, str(e), 3))


class Hints(unittest.TestCase):
    def test_passed_on(self) -> None:
        """What a program was told to pass on is its user's hint, whether there was more in the hint before it or not."""
        for text in ["no (for whoever runs agentkernel: set it)", "no (it is not set; for whoever runs agentkernel: set it)\n"]:
            found = _result._PASSED_ON.search(text)
            self.assertEqual(found and found[1], "set it", text)
        self.assertIsNone(_result._PASSED_ON.search("no (it is not set)"))

    def test_budgets_in_python(self) -> None:
        """What a hint says of budgets is in the words of the SDK, where it has any."""
        for typed, here in {
            "a budget is given when a process is started: agentkernel spawn --budget-usd 2 ...": 'a budget is given when a process is started: client.spawn(..., budget={"usd": 2})',
            "agentkernel budget add 7 --usd 0.5 while it lives; agentkernel rerun 7 --budget-usd 2": "client.add_budget(7, usd=0.5) while it lives; agentkernel rerun 7 --budget-usd 2",
            "agentkernel budget add 7 --tokens 10k": 'client.add_budget(7, tokens="10k")',
            "agentkernel budget add 7 --time N": "client.add_budget(7, time=...)",
            "agentkernel budget show 7 · agentkernel budget add 7 ... raises that": "client.budget(7) · client.add_budget(7, ...) raises that",
            "raise it with --budget-usd": 'raise it with budget={"usd": ...}',
        }.items():
            self.assertEqual(errors.in_python(typed), here)


class Connecting(unittest.TestCase):
    def test_kernels_that_end_before_they_are_met(self) -> None:
        """Another one is started each time; if none lives, the error has the key, since start=True was given."""
        with tempfile.TemporaryDirectory() as home:
            for dies, met in ((2, True), (3, True), (99, False)):
                kernel = _kernel.Kernel(home, None, True, object)
                kernel._greeted = True
                steps, started, connects = kernel.ask("spawn", "POST", "/processes", body={}, key="k"), 0, 0
                try:
                    step = next(steps)
                    while True:
                        if isinstance(step, _steps.Connect):
                            connects += 1
                            if connects > dies:
                                break
                            step = steps.throw(_steps.NobodyListens())
                        else:
                            self.assertIsInstance(step, _steps.Call)
                            started += 1
                            step = steps.send(kernel.socket)
                    self.assertTrue(met)
                    self.assertEqual(started, dies)
                except errors.KernelGone as e:
                    self.assertFalse(met)
                    self.assertEqual((e.idempotency_key, started), ("k", 3))


class Pages(unittest.TestCase):
    def test_ps_goes_from_page_to_page(self) -> None:
        asked: list[dict] = []

        def kernel(pids: int, most: int) -> mock.Mock:
            def ask(op: str, method: str, path: str, query: dict):  # type: ignore[no-untyped-def]
                asked.append(query)
                older = [p for p in range(pids, 0, -1) if not query.get("before") or p < query["before"]]
                page = older[: min(query["limit"] or most, most)]
                return {"processes": [{"pid": p, "state": "exited"} for p in page], "next": page[-1] if page and len(older) > len(page) else 0}
                yield  # it is a generator

            return mock.Mock(ask=ask)

        for pids, limit, requests in [(0, 0, 1), (3, 0, 1), (4, 0, 1), (9, 0, 3), (9, 4, 1), (9, 6, 2), (9, 20, 3)]:
            asked.clear()
            steps = _kernel.Kernel.ps(kernel(pids, 4), True, "", 0, limit)
            with self.assertRaises(StopIteration) as end:
                next(steps)
            want = list(range(pids, 0, -1))[: limit or None]
            self.assertEqual(([p.pid for p in end.exception.value], len(asked)), (want, requests), (pids, limit))


class Places(unittest.TestCase):
    def test_names_that_are_not_text(self) -> None:
        """What os.fsdecode makes of them is written as the kernel does; a name that is text is left alone."""
        for raw, written in {b"a\xff": r"a\xff", rb"a\xff" + b"\xfe": r"a\x5cxff\xfe", rb"C:\x" + b"\xff": r"C:\x\xff", "é\ufffd".encode(): "é\ufffd", rb"a\xff": r"a\xff"}.items():
            self.assertEqual(changes.file_name("/volumes/v/" + os.fsdecode(raw)), {"volume": "v", "path": written})

    def test_embeddings_reach_the_kernel_that_is_started(self) -> None:
        with tempfile.TemporaryDirectory() as d:
            binary = Path(d, "agentkernel")
            binary.write_text('#!/bin/sh\nprintf \'{"api": 1, "version": "x", "socket": "%s %s"}\' "$AGENTKERNEL_EMBEDDINGS_URL" "$AGENTKERNEL_EMBEDDINGS_KEY"\n')
            binary.chmod(0o755)
            settings = _home.embeddings_settings({"url": "http://e/v1", "model": "m", "key": "env:K"})
            self.assertEqual(_home.start_kernel(str(binary), d, settings), "http://e/v1 env:K")
        self.assertEqual(_home.embeddings_settings(None), {})
        with self.assertRaises(errors.InvalidArgument) as caught:
            _home.embeddings_settings({"token": "sk-secret"})
        self.assertNotIn("sk-secret", str(caught.exception))

    def test_data_directory(self) -> None:
        with tempfile.TemporaryDirectory() as d:
            env = {"XDG_CONFIG_HOME": d}
            default = os.path.expanduser("~/.local/state/agentkernel")
            self.assertEqual(_home.data_directory(None, env), default)
            self.assertEqual(_home.data_directory(None, {**env, "XDG_STATE_HOME": "relative"}), default)
            self.assertEqual(_home.data_directory(None, {**env, "XDG_STATE_HOME": "/s"}), "/s/agentkernel")
            Path(d, "agentkernel").mkdir()
            Path(d, "agentkernel", "config.toml").write_text('tools = ["x"]\nhome = "kept" # mine\n[limits]\nhome = "/wrong"\n')
            self.assertEqual(_home.data_directory(None, env), f"{d}/agentkernel/kept")
            self.assertEqual(_home.data_directory(None, {**env, "AGENTKERNEL_HOME": "/h"}), "/h")
            self.assertEqual(_home.data_directory("~/x", {**env, "AGENTKERNEL_HOME": "/h"}), os.path.expanduser("~/x"))
        with self.assertRaises(errors.InvalidArgument):
            _home.data_directory("")

    def test_socket_path(self) -> None:
        self.assertEqual(_home.socket_path("/short"), "/short/kernel.sock")
        long = "/" + "x" * 120
        self.assertRegex(_home.socket_path(long), rf"^/tmp/agentkernel-{os.geteuid()}/[0-9a-f]{{24}}\.sock$")

    def script(self, folder: str, text: str) -> str:
        path = os.path.join(folder, "agentkernel")
        Path(path).write_text("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        return path

    def test_find_binary(self) -> None:
        with tempfile.TemporaryDirectory() as d:
            path = self.script(d, "")
            self.assertEqual(_home.find_binary(path, {}), path)
            self.assertEqual(_home.find_binary(None, {"AGENTKERNEL_BIN": path}), path)
            self.assertEqual(_home.find_binary(None, {"PATH": d}), path)
            for explicit, env in [(d, {}), (d + "/none", {}), (None, {"AGENTKERNEL_BIN": d + "/none"})]:
                with self.assertRaises(errors.BinaryNotFound) as caught:
                    _home.find_binary(explicit, env)
                self.assertIn("make build", caught.exception.hint)
            with self.assertRaises(errors.BinaryNotFound) as caught, mock.patch.object(_home, "checkouts", lambda: [d + "/clone"]):
                _home.find_binary(None, {"PATH": "/none"})
            for words in ("binary=", "AGENTKERNEL_BIN", "PATH", f"{d}/clone/agentkernel is not built"):
                self.assertIn(words, caught.exception.message)

    def test_a_checkout_has_the_binary(self) -> None:
        """That of this package, of the script that runs, or of the folder in which a notebook or a prompt is."""
        self.assertEqual(_home.checkouts()[0], str(support.ROOT))
        with tempfile.TemporaryDirectory() as d:
            d = os.path.realpath(d)
            shutil.copytree(support.SDK / "src", os.path.join(d, "installed"), ignore=shutil.ignore_patterns("__pycache__"))
            for folder in ("clone/sdk/python", "clone/cmd/agentkernel", "clone/examples/python", "elsewhere"):
                os.makedirs(os.path.join(d, folder))
            Path(d, "clone/sdk/python/pyproject.toml").write_text("")
            source = "from agentkernel import _home, errors\ntry: print(_home.find_binary())\nexcept errors.BinaryNotFound as e: print(e.message)"
            script = Path(d, "clone/examples/python/x.py")
            script.write_text(source)
            env = {"PATH": "/none", "PYTHONPATH": os.path.join(d, "installed")}

            def run(*arguments: str, cwd: str) -> str:
                return subprocess.run([sys.executable, *arguments], env=env, cwd=os.path.join(d, cwd), capture_output=True, text=True, timeout=60).stdout.strip()

            self.assertIn("clone/agentkernel is not built", run(str(script), cwd="elsewhere"))
            binary = self.script(os.path.join(d, "clone"), "")
            self.assertEqual(run(str(script), cwd="elsewhere"), binary)
            self.assertEqual(run("-c", source, cwd="clone/examples"), binary)
            self.assertIn("neither this package nor the running script", run("-c", source, cwd="elsewhere"))

    def test_wrong_binaries_say_what_to_do(self) -> None:
        for text, kind, says in [
            ("exit 3", errors.BinaryNotFound, "ended with 3"),
            ("echo hello", errors.BinaryNotFound, "probably not AgentKernel"),
            ("""echo '{"error": {"code": "invalid_argument", "message": "agentkernel has no command \\"start\\""}}'; exit 2""", errors.VersionMismatch, "another version"),
            ("""echo '{"api": 7, "version": "9.9", "socket": "/s"}'""", errors.VersionMismatch, "version 7 of the API"),
            ("""echo '{"error": {"code": "unavailable", "message": "no room", "hint": "make some"}}'; exit 69""", errors.Unavailable, "no room"),
        ]:
            with tempfile.TemporaryDirectory() as d, self.assertRaises(kind) as caught:
                _home.start_kernel(self.script(d, text), d)
            self.assertIn(says, caught.exception.message)
            self.assertTrue(caught.exception.hint)


class Models(unittest.TestCase):
    def test_times(self) -> None:
        t = parse_time("2026-11-21T06:47:09.588315248Z")
        self.assertEqual(t, datetime.datetime(2026, 11, 21, 6, 47, 9, 588315, datetime.timezone.utc))
        self.assertEqual(parse_time("2026-11-21T06:47:09+02:00").utcoffset(), datetime.timedelta(hours=2))  # type: ignore[union-attr]
        self.assertIsNone(parse_time(None))

    def test_unknown_members_are_kept(self) -> None:
        p = Process.from_wire({"pid": 1, "state": "ready", "name": "x", "brand_new": [1]})
        self.assertEqual((p.raw["brand_new"], p.done, p.success), ([1], False, False))

    def test_limits(self) -> None:
        self.assertEqual(Limits(time=1.5, wall="5m", memory="64m", output=10, calls=3).to_wire(),
                         {"time": "1.500000s", "wall": "300.000000s", "memory": 64 << 20, "output": 10, "calls": 3})  # fmt: skip
        for bad in [Limits(time=0), Limits(time=-1), Limits(wall=float("nan")), Limits(memory="lots"), Limits(memory=0), Limits(calls=0), Limits(calls=True)]:
            with self.assertRaises(errors.InvalidArgument):
                bad.to_wire()
        self.assertEqual([size(s, "s") for s in ("1k", "2 MB", "1GiB", 7)], [1024, 2 << 20, 1 << 30, 7])

    def test_spec(self) -> None:
        wire = Spec("1", args=["a"], tools="x.json", allow="fs", priority=5).with_options(timeout=3).to_wire()
        self.assertEqual(wire, {"program": {"name": "program.py", "language": "python", "source": "1", "args": ["a"]}, "tools": [os.path.abspath("x.json")],
                                "allow": ["fs"], "priority": 5, "limits": {"wall": "3.000000s"}})  # fmt: skip
        with self.assertRaisesRegex(TypeError, "no option 'tool'"):
            Spec("1").with_options(tool=1)
        with self.assertRaises(errors.ProgramSyntaxError):
            Spec("x = '\ud800'").to_wire()
        with self.assertRaises(errors.InvalidArgument):
            Spec(b"1").to_wire()  # type: ignore[arg-type]

    def test_deadlines(self) -> None:
        at = datetime.datetime(2031, 12, 1, 10, tzinfo=datetime.timezone.utc)
        for value in (at, at.astimezone(datetime.timezone(datetime.timedelta(hours=2))), at.astimezone().replace(tzinfo=None), "2031-12-01T10:00:00Z", "2031-12-01T12:00:00+02:00"):
            self.assertEqual(Spec("1", deadline=value).to_wire()["deadline"], "2031-12-01T10:00:00+00:00")
        for value in (90, "90", "1m30s", datetime.timedelta(seconds=90)):
            ahead = datetime.datetime.fromisoformat(Spec("1").with_options(deadline=value).to_wire()["deadline"]) - datetime.datetime.now(datetime.timezone.utc)
            self.assertTrue(85 < ahead.total_seconds() <= 90, ahead)
        for wrong in (0, -5, "soon", "", "2031-13-01T10:00:00Z", "2031-12-01", "2031-12-01T10:00:00", "99999-01-01T00:00:00Z", True, [], float("nan")):
            with self.assertRaises(errors.InvalidArgument, msg=repr(wrong)):
                Spec("1", deadline=wrong).to_wire()  # type: ignore[arg-type]
        self.assertEqual(Process.from_wire({"pid": 1, "state": "ready", "deadline": "2031-12-01T10:00:00Z"}).deadline, at)
        self.assertNotIn("deadline", Spec("1").to_wire())

    def test_budgets(self) -> None:
        for given, want in (
            ({"usd": 2}, {"usd": "2"}), ({"usd": 0.1}, {"usd": "0.1"}), ({"usd": "1e-3", "calls": None}, {"usd": "0.001"}), ({"usd": decimal.Decimal("0.000000001")}, {"usd": "0.000000001"}),
            ({"turns": "2k", "time": "1m30s"}, {"turns": 2000, "time": "90.000000s"}), ({"time": 5}, {"time": "5.000000s"}),
            ({"tokens": "200k", "calls": 50}, {"tokens": 200_000, "calls": 50}), ({"tokens": "1.5M", "calls": "7"}, {"tokens": 1_500_000, "calls": 7}),
        ):  # fmt: skip
            self.assertEqual(Spec("1", budget=given).to_wire()["budget"], want)
        for wrong in ({"usd": 0}, {"usd": -1}, {"usd": "much"}, {"usd": float("nan")}, {"usd": "1k"}, {"usd": True}, {"tokens": 1.5}, {"tokens": "0k"}, {"tokens": 2**63}, {"calls": []}, {"turns": 0.5}, {"time": 0}, {"time": "soon"}, {"euro": 1}, 5, "2"):
            with self.assertRaises(errors.InvalidArgument, msg=repr(wrong)):
                Spec("1", budget=wrong).to_wire()  # type: ignore[arg-type]
        self.assertEqual(Spec("1", budget={"calls": 1}, on_budget="raise").to_wire()["on_budget"], "raise")
        for empty in (Spec("1"), Spec("1", budget={}), Spec("1", budget={"usd": None})):
            self.assertNotIn("budget", empty.to_wire())
        for more in ({}, {"usd": 0}, {"calls": -5}):
            with self.assertRaises(errors.InvalidArgument):
                Client("/nowhere", start=False).add_budget(1, **more)
        b = Budget.from_wire({"pid": 3, "limit": {"usd": 0.3}, "spent": {"usd": 0.1, "calls": 2}, "held": {}})
        self.assertEqual((b.limit.usd - b.spent.usd, b.spent.calls, b.held), (decimal.Decimal("0.2"), 2, Spending()))
        s = Spending.from_wire({"turns": 7, "time": "1m30.5s"})
        self.assertEqual((s.turns, s.time, Spending.from_wire({"time": "34.5µs"}).time), (7, 90.5, 34.5e-6))

    def test_usage_of_models(self) -> None:
        u = ModelUsage.from_wire({
            "rows": [{"agent": "a", "model": "openai:x", "tree": 7, "calls": 2, "failed": 1, "tokens": 30, "input": 20, "cached": 5, "output": 5, "usd": 0.1, "uncertain_usd": 0.02, "later": 1}],
            "total": {"calls": 2, "usd": 0.1, "held_usd": 0.3},
        })  # fmt: skip
        row = u.rows[0]
        self.assertEqual((row.agent, row.model, row.tree, row.day, row.calls, row.failed, row.input, row.cached), ("a", "openai:x", 7, "", 2, 1, 20, 5))
        self.assertEqual((row.usd - row.uncertain_usd, u.total.held_usd, u.total.tokens), (decimal.Decimal("0.08"), decimal.Decimal("0.3"), 0))
        a = Allowance.from_wire({"namespace": "n", "period": "day", "limit": {"usd": 5}, "spent": {"usd": 1.5}, "held": {}, "since": "2026-11-25T00:00:00Z", "until": "2026-11-26T00:00:00Z"})
        assert a.since is not None and a.until is not None
        self.assertEqual((a.limit.usd - a.spent.usd, a.until - a.since), (decimal.Decimal("3.5"), datetime.timedelta(days=1)))
        for wrong in ({"since": "soon"}, {"until": -1}, {"tree": 0}):
            with self.assertRaises(errors.InvalidArgument, msg=str(wrong)):
                Client("/nowhere", start=False).llm_usage("model", **wrong)

    def test_spec_from_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as d:
            Path(d, "tools", "report").mkdir(parents=True)
            Path(d, "tools", "report", "monthly.py").write_text("x = 1")
            Path(d, "tools", "report", "_hidden.py").write_text("x = 2")
            Path(d, "main.py").write_bytes(b"\xef\xbb\xbffrom tools.report import monthly")
            spec = Spec.file(os.path.join(d, "main.py"), priority=3)
            self.assertEqual((spec.name, spec.source, dict(spec.modules), spec.priority),
                             ("main.py", "from tools.report import monthly", {"tools.report.monthly": "x = 1"}, 3))  # fmt: skip
            self.assertEqual(local_tools(d, "print(1)"), {})
            os.symlink("/etc/hostname", os.path.join(d, "tools", "report", "out.py"))
            with self.assertRaises(errors.InvalidArgument):
                local_tools(d)
            for target, link in [("../.env", "tools/report/out.py"), ("../.git/logs/refs/heads", "tools/report"), (".git/logs/refs", "tools"), ("/etc", "tools")]:
                with self.subTest(target), tempfile.TemporaryDirectory() as folder:  # a stranger's
                    for name in ["tools/.env", ".git/logs/refs/heads/x.py"]:
                        Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
                        Path(folder, name).write_text("K = 1")
                    if link == "tools":
                        Path(folder, "tools", ".env").unlink()
                        Path(folder, "tools").rmdir()
                    Path(folder, link).parent.mkdir(exist_ok=True)
                    Path(folder, link).symlink_to(target)
                    with self.assertRaises(errors.InvalidArgument):
                        local_tools(folder)
            Path(d, "bad.py").write_bytes(b"\xff")
            with self.assertRaises(errors.ProgramSyntaxError):
                Spec.file(os.path.join(d, "bad.py"))
            with self.assertRaises(errors.NotFound):
                Spec.file(os.path.join(d, "none.py"))


class Plain(unittest.TestCase):
    """Numbers as text, one text for a list of one, None for nothing; and what has no plain meaning is refused."""

    def test_spans_and_sizes(self) -> None:
        for value, want in [(5, "5.000000s"), ("5", "5.000000s"), (" 2.5 ", "2.500000s"), ("1m30s", "90.000000s"), ("500ms", "0.500000s"), ("1h", "3600.000000s"),
                            (datetime.timedelta(minutes=1), "60.000000s")]:  # fmt: skip
            self.assertEqual(Limits(wall=value).to_wire(), {"wall": want})
        for wrong in (0, -1, float("nan"), float("inf"), "", "soon", "5 parsecs", True, [], "nan", "1e99"):
            with self.assertRaises(errors.InvalidArgument, msg=repr(wrong)):
                Limits(wall=wrong).to_wire()  # type: ignore[arg-type]
        self.assertEqual(Limits(memory="64m", calls="7", cpus="0.5", open_files=10).to_wire(),  # type: ignore[arg-type]
                         {"memory": 64 << 20, "calls": 7, "cpus": 0.5, "open_files": 10})  # fmt: skip
        for name in ("calls", "pids", "memory", "disk", "cpus"):
            for wrong in (0, -1, 1.5j, float("nan"), "many", True):
                with self.assertRaises(errors.InvalidArgument, msg=f"{name}={wrong!r}"):
                    Limits(**{name: wrong}).to_wire()

    def test_lists(self) -> None:
        spec = Spec("1", args=[1, "a", 2.5], allow=None, deny="state", tools=None, modules=None, priority="3")  # type: ignore[arg-type]
        self.assertEqual(spec.to_wire(), {"program": {"name": "program.py", "language": "python", "source": "1", "args": ["1", "a", "2.5"]}, "deny": ["state"], "priority": 3})
        self.assertEqual(Spec("1", args="one").to_wire()["program"]["args"], ["one"])
        self.assertEqual(Spec("x", language="javascript").to_wire()["program"]["language"], "javascript")  # the kernel knows the names
        for options in ({"allow": [1]}, {"tools": 5}, {"modules": {"a": b"x"}}, {"limits": {"time": 5}}, {"priority": "high"}, {"backend": 3}, {"name": 3}):
            with self.assertRaises((errors.InvalidArgument, TypeError), msg=repr(options)):
                Spec("1", **options).to_wire()

    def test_a_span_is_named_as_it_was_given(self) -> None:
        with self.assertRaisesRegex(errors.InvalidArgument, "timeout=-5 is not a span"):
            Spec("1").with_options(timeout=-5)
        with self.assertRaisesRegex(errors.InvalidArgument, "time=-5 is not a span"):
            Spec("1", limits=Limits(time=-5)).to_wire()

    def test_commands_in_hints_become_calls(self) -> None:
        for hint, want in [
            ("agentkernel recover 5 continues it; --time raises the limit", "client.recover(5) continues it; limits=Limits(time=...) raises the limit"),
            ("look: agentkernel diff 4 · keep: agentkernel apply 4", "look: client.diff(4) · keep: client.apply(4)"),
            ("`agentkernel shutdown`; the next command starts one", "client.shutdown(); the next command starts one"),
            ("agentkernel get 3 'a b.txt' -o c.txt", "agentkernel get 3 'a b.txt' -o c.txt"),
            ("agentkernel get 3 a.txt -o c.txt", "client.save_file(3, 'a.txt', 'c.txt')"),
            ("agentkernel tools list", "agent.search_tools(...)"),
            ("allow it with --allow 'files.write'", "allow it with allow='files.write'"),
            ("agentkernel setup; or --backend process", "agentkernel setup; or backend='process'"),
            ("agentkernel ps --all lists them", "client.ps(all=True) lists them"),
            ("agentkernel thaw", "client.thaw()"),
            ("agentkernel thaw --namespace team:a; agentkernel ps", "client.thaw(namespace='team:a'); client.ps()"),
            ("agentkernel thaw --namespace 'a b' lets it go on", "client.thaw(namespace='a b') lets it go on"),
            ("agentkernel thaw --namespace 'a'\\''b' lets it go on", "agentkernel thaw --namespace 'a'\\''b' lets it go on"),
            ("agentkernel thaw lets it go on", "client.thaw() lets it go on"),
            ("go on: agentkernel thaw --namespace 'a b'", "go on: client.thaw(namespace='a b')"),
            ("agentkernel thaw --tree 7", "client.thaw(tree=7)"),
            ("agentkernel setup", "agentkernel setup"),  # what only a terminal has
            ("agentkernel apply 4 a.txt", "agentkernel apply 4 a.txt"),
            ("agentkernel rerun 3 --tools x", "agentkernel rerun 3 --tools x"),
        ]:
            self.assertEqual(KernelError.from_wire({"code": "conflict", "message": "m", "hint": hint}).hint, want)

    def test_flags_in_hints_become_arguments(self) -> None:
        for hint, want in [("run it with --with PACKAGE", "run it with packages="), ("run it with --with no_such_module; or", 'run it with packages=["no_such_module"]; or'),
                           ("run it with --with python-docx --with Pillow", 'run it with packages=["python-docx", "Pillow"]'), ("compare with: agentkernel trace 12", "compare with: client.trace(12)"), ("--allow-host HOST names it", "allow_hosts= names it"),
                           ("a larger --memory", "a larger limits=Limits(memory=...)"), ("agentkernel resume 3 --wait", "client.resume(3)"),
                           ("--no-such-flag X", "--no-such-flag X"), ("", "")]:  # fmt: skip
            self.assertEqual(KernelError.from_wire({"code": "unsupported", "message": "m", "hint": hint}).hint, want)


class Agents(unittest.TestCase):
    def test_models(self) -> None:
        """What says which model it is becomes a declaration; the key is beside it, and in no text."""
        azure = {"llm_provider": "azure_openai", "llm_azure_endpoint": "https://x.example/", "llm_azure_deployment": "mine"}
        for arguments, declared in [
            ({"llm_model": "gpt-5-mini", "llm_api_key": "sk-secret"}, "agent openai:gpt-5-mini key=given"),
            ({"llm_model": "m", "llm_base_url": "http://h/v1", "llm_api_key": "sk-secret"}, "agent openai:m url=http://h/v1 key=given"),
            ({"llm_provider": "anthropic", "llm_model": "claude-opus-4-8", "llm_api_key": "sk-secret"}, "agent anthropic:claude-opus-4-8 key=given"),
            ({**azure, "llm_api_key": "sk-secret"}, "agent azure:mine url=https://x.example/openai/v1 deployment=mine key=given"),
            ({**azure, "llm_azure_api_key": "sk-secret", "llm_azure_api_version": "2025-04-01", "llm_model": "gpt-5"},
             "agent azure:gpt-5 url=https://x.example/ deployment=mine api_version=2025-04-01 key=given"),
            ({"llm_provider": "ollama", "llm_model": "llama3.2"}, "agent ollama:llama3.2"),
        ]:  # fmt: skip
            agent = create_agent(llm_enabled=True, models="fast openai:a key=given", keys={"fast": "sk-other"}, **arguments).agent  # type: ignore[arg-type]
            models, keys = agent.settings.model()
            self.assertEqual(models, [declared, "fast openai:a key=given"])
            self.assertEqual(keys, {"fast": "sk-other", **({"agent": "sk-secret"} if "given" in declared else {})})
            self.assertNotIn("sk-", repr(agent.settings))
        for arguments, says in [
            ({"llm_api_key": "sk-secret"}, "without a model"), ({"llm_model": "m"}, "without a key"), ({"llm_model": "m x", "llm_api_key": "sk-secret"}, "without spaces"),
            ({"llm_provider": "azure_openai", "llm_model": "m", "llm_api_key": "sk-secret"}, "without an address"),
        ]:  # fmt: skip
            with self.assertRaisesRegex(errors.InvalidArgument, says) as caught:
                create_agent(llm_enabled=True, **arguments)  # type: ignore[arg-type]
            self.assertNotIn("sk-secret", repr(caught.exception) + str(caught.exception))

    def test_keys_of_a_spec(self) -> None:
        """Keys are no part of what is sent to make a process."""
        spec = Spec("1", models=["fast openai:a key=given", "fast openai:b key=given"], keys={"fast": "sk-1", "fast#2": "sk-2"})
        self.assertEqual(spec.to_wire()["models"], ["fast openai:a key=given", "fast openai:b key=given"])
        self.assertNotIn("sk-", repr(spec) + repr(spec.to_wire()))
        for keys in ({"slow": "sk-1"}, {"fast": 1}, {"fast": ""}, ["sk-1"]):
            with self.assertRaises(errors.InvalidArgument) as caught:
                Spec("1", models="fast openai:a key=given", keys=keys).to_wire()  # type: ignore[arg-type]
            self.assertNotIn("sk-", str(caught.exception) + caught.exception.hint)

    def test_wrong_arguments(self) -> None:
        with self.assertRaisesRegex(errors.InvalidArgument, "openai, azure_openai"):
            create_agent(llm_provider="opnai")
        with self.assertRaises(errors.InvalidArgument):
            create_agent(llm_provider="openai", llm_azure_endpoint="https://x.example")
        with self.assertRaises(errors.InvalidArgument):
            create_agent(state_enabled=True, deny="state")
        with self.assertRaises(TypeError):
            create_agent(workspace="x")  # type: ignore[call-arg]

    def test_arguments_without_effect_are_not_ignored_in_silence(self) -> None:
        for arguments, says in [({"llm_api_key": "k"}, "llm_api_key"), ({"state_file": "x.json"}, "state_enabled=True")]:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                create_agent(**arguments)  # type: ignore[arg-type]
            self.assertEqual([w.category for w in caught], [UserWarning])
            self.assertIn(says, str(caught[0].message))
            self.assertEqual(caught[0].filename, __file__)

    def test_which_folder_a_workspace_may_be(self) -> None:
        with tempfile.TemporaryDirectory() as d:
            os.makedirs(os.path.join(d, "home", "ws"))
            Path(d, "file").write_text("")
            for folder, kind, says in [("home/ws", errors.InvalidArgument, "data directory"), ("file", errors.InvalidArgument, "is not a folder"),
                                       ("new/ws", errors.NotFound, "does not exist")]:  # fmt: skip
                with self.assertRaisesRegex(kind, says):
                    create_agent(home=os.path.join(d, "home"), workspace_dir=os.path.join(d, folder))
            self.assertEqual(sorted(os.listdir(d)), ["file", "home"])  # what does not exist is not made
            with self.assertRaisesRegex(errors.NotFound, "workspace .*new does not exist"):
                Spec("1", workspace=os.path.join(d, "new")).to_wire()
        with self.assertRaisesRegex(errors.InvalidArgument, "nothing to publish"):
            create_agent(publish=True)

    def test_a_tools_file_that_is_not_there(self) -> None:
        for tools in ("nope.json", ["nope.json"], Path("nope.json")):
            with self.assertRaisesRegex(errors.NotFound, "the tools file .*nope.json does not exist"):
                create_agent(tools=tools)

    def test_tools_files_are_those_that_were_there(self) -> None:
        """Whatever gave them can be asked once, and a program may go to another folder."""
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as d:
            here = os.path.realpath(d)
            file = os.path.join(here, "a.json")
            pinned = file + "#sha256=" + "0a" * 32
            Path(file).write_text('{"mcpServers": {}}')
            try:
                for given, want in [(Path(here).glob("*.json"), file), ("a.json", file), (["a.json"], file), (pinned, pinned)]:
                    os.chdir(here)
                    agent = create_agent(tools=given)  # type: ignore[arg-type]
                    os.chdir(before)
                    for _ in range(2):
                        self.assertEqual(files(agent.agent.settings.tools), [want])
            finally:
                os.chdir(before)
            for wrong in ("#sha256=" + "0a" * 31, "#sha256=" + "0A" * 32, "#sha256=" + "0a" * 32 + "\n"):
                with self.assertRaisesRegex(errors.NotFound, "does not exist"):
                    create_agent(tools=file + wrong)
            with self.assertRaisesRegex(errors.NotFound, "the tools file .*b.json does not exist\n"):
                create_agent(tools=pinned.replace("a.json", "b.json"))

    def test_lists_that_can_be_read_once(self) -> None:
        agent = create_agent(state_enabled=True, **{name: iter(["x"]) for name in ("allow", "deny", "allow_hosts", "packages")}).agent  # type: ignore[arg-type]
        for _ in range(2):
            self.assertEqual([texts(getattr(agent.settings, name), name) for name in ("allow", "deny", "allow_hosts", "packages")], [["x"]] * 4)
        agent = create_agent(models=iter(["m openai:gpt-5-mini"])).agent  # type: ignore[arg-type]
        for _ in range(2):
            self.assertEqual(agent.settings.model(), (["m openai:gpt-5-mini"], {}))

    def test_wrong_types(self) -> None:
        agent = create_agent()
        for task in (None, b"x", 3):
            with self.assertRaises(errors.InvalidArgument):
                agent.execute_task(task)  # type: ignore[arg-type]
            with self.assertRaises(errors.InvalidArgument):
                agent.execute_code(task)  # type: ignore[arg-type]


class PausedResults(unittest.TestCase):
    def test_what_lets_it_go_on(self) -> None:
        """resume alone would have a process paused again that lacks something. It is no success, whatever its exit code was to be."""
        for why, hint in [
            (None, "resume(7) lets it go on"),
            ({"kind": "hand"}, "resume(7) lets it go on"),
            ({"kind": "budget", "amount": "usd", "budget": 4}, "add_budget(4, ...) raises it, and it goes on; resume(7) alone would have it paused again"),
            ({"kind": "allowance", "amount": "turns", "namespace": "team", "until": "2026-12-01T00:00:00Z"},
             "it goes on by itself at 2026-12-01 00:00 UTC, or as soon as the setting allowances is raised; resume(7) alone would have it paused again"),
            ({"kind": "functions"}, "your program, run again, starts a new process; kill(7) ends this one, resume(7) lets it go on without its functions"),
        ]:  # fmt: skip
            process = Process.from_wire({"pid": 7, "state": "waiting", "paused": True, "pause_note": "whatever it says", "paused_for": why, "exit_code": 0})
            result = Result.of(process, {}, "")
            assert result.error is not None
            self.assertEqual(result.error.hint, hint)
            self.assertEqual((result.success, result.state, result.exit_code), (False, "paused", 130))


if __name__ == "__main__":
    unittest.main()
