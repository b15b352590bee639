"""What the tests share: a data directory and a kernel of their own, the real binary and the real engine.

By hand: make build engine, then: python3 -m unittest discover -s sdk/python/tests
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import socketserver
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Callable, Iterator, NoReturn

ROOT = Path(__file__).resolve().parents[3]
SDK = ROOT / "sdk" / "python"
sys.path.insert(0, str(SDK / "src"))

from agentkernel import Client  # noqa: E402
from agentkernel._home import find_binary  # noqa: E402
from agentkernel.errors import KernelError  # noqa: E402

PATIENCE = 30.0


def missing(what: str) -> NoReturn:
    """Skips, saying so loudly; in CI nothing may be missing."""
    if os.environ.get("CI") == "true":
        raise AssertionError(f"missing in CI: {what}")
    print(f"\nSKIPPED, NOTHING PROVED: {what}", file=sys.stderr, flush=True)
    raise unittest.SkipTest(what)


def binary() -> str:
    try:
        return find_binary()
    except KernelError as e:
        missing(e.message)


def engine() -> str:
    found = [os.environ.get("AGENTKERNEL_ENGINE", ""), os.environ.get("AGENTKERNEL_MONTY", "")]
    found += glob.glob(str(ROOT / ".cache/monty/node_modules/@pydantic/monty-*/monty")) + [shutil.which("monty") or ""]
    for path in found:
        if path and os.access(path, os.X_OK):
            return path
    missing("the Monty engine; run: make engine")


def eventually(what: str, condition: Callable[[], object]) -> None:
    """Waits until a condition of another process holds."""
    pause = threading.Event()
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return
        pause.wait(0.005)
    raise AssertionError(f"waited in vain until {what}")


def gone(pid: int) -> bool:
    """Whether an operating system's process has ended (a zombie counts as ended)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


class KernelTest(unittest.TestCase):
    """Tests with a kernel: each class has a data directory, and its kernel ends with the class."""

    home = ""
    folder = ""

    @classmethod
    def setUpClass(cls) -> None:
        cls._env = dict(os.environ)
        os.environ.update(AGENTKERNEL_BIN=binary(), AGENTKERNEL_ENGINE=engine(), AGENTKERNEL_IDLE_AFTER="1m")
        for name in ("AGENTKERNEL_TOOLS", "AGENTKERNEL_ALLOW", "XDG_STATE_HOME"):
            os.environ.pop(name, None)
        cls.folder = os.path.realpath(tempfile.mkdtemp(prefix="aks"))
        cls.home = os.path.join(cls.folder, "h")
        os.environ["AGENTKERNEL_HOME"] = cls.home
        os.environ["XDG_CONFIG_HOME"] = os.path.join(cls.folder, "config")

    @classmethod
    def tearDownClass(cls) -> None:
        client = Client(cls.home, start=False)
        try:
            pid = client.info().os_pid
            client.shutdown()
            eventually("the kernel has ended", lambda: gone(pid))
        except KernelError:
            pass  # none runs
        os.environ.clear()
        os.environ.update(cls._env)
        shutil.rmtree(cls.folder, ignore_errors=True)

    def setUp(self) -> None:
        self.client = Client()

    def path(self, *parts: str) -> str:
        return os.path.join(self.folder, *parts)

    def write(self, name: str, text: str) -> str:
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
        return path

    def kill_kernel(self) -> None:
        """kill -9, and wait until it is gone."""
        pid = self.client.info().os_pid
        os.kill(pid, 9)
        eventually("the killed kernel is gone", lambda: gone(pid))


@contextlib.contextmanager
def cutting(home: str, greets: bool) -> Iterator[None]:
    """A kernel that dies before it answers, time and again: with ``greets`` it says its version first."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            body = b'{"version": "0.0.0", "api": 1}'
            if self.request.recv(1 << 16).startswith(b"GET /version") and greets:
                self.request.sendall(b"HTTP/1.1 200 OK\r\nAgentkernel-Api: 1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    server = socketserver.ThreadingUnixStreamServer(os.path.join(home, "kernel.sock"), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        os.unlink(os.path.join(home, "kernel.sock"))


#: Each verb that asks a kernel for something, on process 7 where it is about one.
VERBS: list[tuple[str, tuple[Any, ...]]] = [
    ("info", ()), ("run", ("1",)), ("stream", ("1",)), ("spawn", ("1",)), ("ps", ()), ("process", (7,)), ("wait", (7,)), ("result", (7,)), ("kill", (7,)), ("pause", (7,)),
    ("resume", (7,)), ("answer", (7, 1, "yes")), ("budget", (7,)), ("add_budget", (7, 1)), ("allowances", ()), ("llm_usage", ("model",)), ("llm_limits", ()), ("give_key", ("fast", "sk-1")), ("recover", ()), ("recover", (7,)), ("logs", (7,)), ("events", (7,)), ("trace", (7,)), ("state", (7,)), ("diff", (7,)),
    ("patch", (7,)), ("apply", (7,)), ("discard", (7,)), ("artifacts", (7,)), ("get_file", (7, "a")), ("save_file", (7, "a")), ("inspect", (7,)), ("servers", ([],)),
    ("stop", (7,)), ("tell", (7, 2)), ("halt", ()), ("thaw", ()),
    ("tools", ([],)), ("search_tools", ([], "a")), ("save_skill", ("a", "def f(): pass")), ("get_skill", ("a",)), ("list_skills", ()), ("search_skills", ("a",)), ("delete_skill", ("a",)),
]  # fmt: skip

CREATES = ("run", "stream", "spawn")


def skip(why: str) -> NoReturn:
    """Skips what does not belong to the gate, saying so."""
    print(f"\nskipped: {why}", file=sys.stderr, flush=True)
    raise unittest.SkipTest(why)
