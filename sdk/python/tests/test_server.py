"""The MCP server by way of Python, and the distribution itself."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Any
from unittest import mock

import support
from agentkernel import errors, run_server, server

HELLO = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize",
     "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "execute_code", "arguments": {"code": "print(6 * 7)"}}},
]  # fmt: skip


class Server(support.KernelTest):
    def converse(self, command: list[str], cwd: str = ".") -> dict[Any, Any]:
        """Sends each request when the one before is answered."""
        env = {**os.environ, "PYTHONPATH": str(support.SDK / "src")}
        p = subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert p.stdin is not None and p.stdout is not None
        answers = {}
        for request in HELLO:
            p.stdin.write(json.dumps(request) + "\n")
            p.stdin.flush()
            while "id" in request and request["id"] not in answers:
                line = p.stdout.readline()
                self.assertTrue(line, "the server went away")
                answer = json.loads(line)
                answers[answer.get("id")] = answer
        p.stdin.close()
        p.stdout.close()
        self.assertEqual(p.wait(timeout=30), 0)
        return answers

    def test_as_a_module(self) -> None:
        for module in ("agentkernel.server", "code_execution_mcp.server"):
            answers = self.converse([sys.executable, "-m", module, "stdio"])
            self.assertEqual(answers[1]["result"]["serverInfo"]["name"], "agentkernel")
            self.assertIn("42", json.dumps(answers[2]["result"]))

    def test_run_server(self) -> None:
        answers = self.converse([sys.executable, "-c", "import sys; from agentkernel import run_server; sys.exit(run_server(transport='stdio'))"])
        self.assertIn("42", json.dumps(answers[2]["result"]))

    def test_local_tools(self) -> None:
        """Those of the folder in which the server is started."""
        self.write("srv/tools/maths/double.py", "def double(x):\n    return 2 * x\n")
        with mock.patch(f"{__name__}.HELLO", [*HELLO[:2], {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_available_tools", "arguments": {}}}]):
            answers = self.converse([sys.executable, "-m", "agentkernel.server", "stdio"], cwd=self.path("srv"))
        self.assertIn("double", json.dumps(answers[2]["result"]))

    def test_flags(self) -> None:
        called: list[list[str]] = []
        with mock.patch("subprocess.call", lambda line: called.append(line) or 0):
            self.assertEqual(run_server(tools=["a.json", "/b.json"], allow="fs", home=self.home), 0)
        self.assertEqual(called[0][1:], ["mcp", "--tools", os.path.abspath("a.json"), "--tools", "/b.json", "--allow", "fs", "--home", self.home])

    def test_transports(self) -> None:
        with self.assertRaises(errors.InvalidArgument):
            run_server("carrier pigeon")
        with self.assertRaises(errors.InvalidArgument):
            run_server("http")
        offered = subprocess.run([support.binary(), "mcp", "--help"], capture_output=True, text=True).stdout
        if "--http" in offered:
            self.assertEqual(server.command("http", ["--allow", "x"], address="127.0.0.1:0")[1:], ["mcp", "--http", "127.0.0.1:0", "--allow", "x"])
        else:
            with self.assertRaisesRegex(errors.Unsupported, "stdio only"):
                run_server("http", address="127.0.0.1:0")

    def test_main(self) -> None:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.assertEqual(server.main(["--help"]), 0)
            self.assertEqual(server.main(["smoke-signals"]), 2)
            with mock.patch.dict(os.environ, {"AGENTKERNEL_BIN": "/none"}):
                self.assertEqual(server.main(["stdio"]), 2)
        self.assertIn("usage: python -m agentkernel.server", out.getvalue())
        self.assertIn("smoke-signals", err.getvalue())
        self.assertIn("AGENTKERNEL_BIN names /none", err.getvalue())


class Distribution(unittest.TestCase):
    def backend(self) -> Any:
        spec = importlib.util.spec_from_file_location("agentkernel_build", support.SDK / "backend" / "agentkernel_build.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def test_wheel(self) -> None:
        backend = self.backend()
        with tempfile.TemporaryDirectory() as d:
            wheel = Path(d, backend.build_wheel(d))
            self.assertEqual(wheel.name, "agentkernel_runtime-0.1.0-py3-none-any.whl")
            with zipfile.ZipFile(wheel) as z:
                names = set(z.namelist())
                metadata = z.read("agentkernel_runtime-0.1.0.dist-info/METADATA").decode()
            self.assertLessEqual({"agentkernel/__init__.py", "agentkernel/py.typed", "agentkernel/aio/client.py", "code_execution_mcp/py.typed"}, names)
            self.assertFalse([n for n in names if "pycache" in n or n.startswith("tests")])
            self.assertIn("Name: agentkernel-runtime\n", metadata)
            self.assertIn("Requires-Python: >=3.10\n", metadata)
            self.assertNotIn("Requires-Dist", metadata)
            again = Path(d, "again")
            again.mkdir()
            self.assertEqual(Path(again, backend.build_wheel(str(again))).read_bytes(), wheel.read_bytes())

    def test_metadata_without_a_toml_reader(self) -> None:
        backend = self.backend()
        text = (support.SDK / "pyproject.toml").read_text(encoding="utf-8")
        self.assertEqual(backend._read_project(text), backend.project())
        self.assertEqual(backend.project()["license"], {"text": "MIT"})

    def test_versions_agree(self) -> None:
        import agentkernel

        self.assertEqual(self.backend().project()["version"], agentkernel.__version__)

    def test_sdist(self) -> None:
        import tarfile

        backend = self.backend()
        with tempfile.TemporaryDirectory() as d:
            with tarfile.open(os.path.join(d, backend.build_sdist(d))) as tar:
                names = tar.getnames()
        self.assertIn("agentkernel_runtime-0.1.0/pyproject.toml", names)
        self.assertIn("agentkernel_runtime-0.1.0/PKG-INFO", names)
        self.assertIn("agentkernel_runtime-0.1.0/src/agentkernel/client.py", names)

    def test_pip_install(self) -> None:
        if importlib.util.find_spec("pip") is None:
            support.skip("this Python has no pip: `pip install ./sdk/python` is not tried, its wheel is built without it")
        for flags in ([], ["--no-build-isolation"], ["--no-build-isolation", "--editable"]):
            with self.subTest(flags=flags), tempfile.TemporaryDirectory() as d:
                made = subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", d], capture_output=True, text=True)
                self.assertEqual(made.returncode, 0, made.stderr)
                python = os.path.join(d, "bin", "python")
                command = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-warn-script-location", *flags, str(support.SDK)]
                env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
                done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=180, cwd="/")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                code = "import agentkernel, code_execution_mcp, importlib.metadata as m; print(agentkernel.__file__, m.version('agentkernel-runtime'))"
                out = subprocess.run([python, "-c", code], env=env, capture_output=True, text=True, timeout=60, cwd="/").stdout
                self.assertIn("0.1.0", out)
                self.assertTrue(out.startswith(str(support.SDK) if "--editable" in flags else d), out)


if __name__ == "__main__":
    unittest.main()
