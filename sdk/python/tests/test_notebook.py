"""The cell magic, with a shell that only remembers, and with no IPython at all."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import types
import unittest
from typing import Any, Callable
from unittest import mock

import support
import agentkernel
from agentkernel import notebook
from agentkernel.errors import InvalidArgument

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 8


class Shell:
    def __init__(self) -> None:
        self.magics: dict[tuple[str, str], Callable[..., Any]] = {}
        self.names: dict[str, Any] = {}

    def register_magic_function(self, function: Callable[..., Any], magic_kind: str, magic_name: str) -> None:
        self.magics[magic_kind, magic_name] = function

    def push(self, names: dict[str, Any]) -> None:
        self.names.update(names)


class Notebook(support.KernelTest):
    def setUp(self) -> None:
        super().setUp()
        self.shell = Shell()
        agentkernel.load_ipython_extension(self.shell)
        self.shown: list[tuple[str, bytes]] = []
        display = types.ModuleType("IPython.display")
        display.Image = lambda data, format: (format, data)  # type: ignore[attr-defined]
        display.display = self.shown.append  # type: ignore[attr-defined]
        patch = mock.patch.dict(sys.modules, {"IPython": types.ModuleType("IPython"), "IPython.display": display})
        patch.start()
        self.addCleanup(patch.stop)

    def cell(self, line: str, text: str) -> tuple[Any, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            value = self.shell.magics["cell", "agentkernel"](line, text)
        return value, out.getvalue(), err.getvalue()

    def test_cell(self) -> None:
        self.assertEqual(self.cell("", "import sys\nprint('o')\nprint('e', file=sys.stderr)\n6 * 7\n"), (42, "o\n", "e\n"))

    def test_task(self) -> None:
        value, out, err = self.cell("", "Calculate fibonacci(10)")
        self.assertEqual((value, out), (55, "55\n"))
        self.assertIn("template mode: no model is asked", err)
        self.assertIn("answer = fibonacci(10)", err)
        self.assertEqual(self.cell("--quiet", "Calculate fibonacci(10)")[2], "")

    def test_options(self) -> None:
        self.cell("--out rows", "[1, 2]")
        self.assertEqual(self.shell.names, {"rows": [1, 2]})
        self.write("ws/a.txt", "text")
        self.assertEqual(self.cell(f"--workspace '{self.path('ws')}'", "from tools.workspace import read_text_file\nread_text_file('a.txt')")[0], "text")
        for line in ("--no-such-option", "--timeout"):
            with self.assertRaises(InvalidArgument):
                self.cell(line, "1")
        with self.assertRaises(notebook.CellFailed) as caught:
            self.cell("--timeout 0.2", "while True: pass")
        self.assertIn("limit", str(caught.exception))

    def test_cells_share_state(self) -> None:
        self.cell("", "from kernel import state\nstate.set('a', 1)")
        self.assertEqual(self.cell("", "from kernel import state\nstate.get('a')")[0], 1)

    def test_errors(self) -> None:
        with self.assertRaises(notebook.CellFailed) as caught:
            self.cell("", "x = 1\n1 / 0\n")
        lines = caught.exception._render_traceback_()
        self.assertEqual(lines[0], "Traceback (most recent call last):")
        self.assertIn("line 2, in <module>", "\n".join(lines))
        with self.assertRaises(InvalidArgument):
            self.shell.magics["cell", "agentkernel"]("print(1)")

    def test_images(self) -> None:
        self.assertIsNone(self.cell("", f"{PNG!r}")[0])
        self.assertEqual(self.shown, [("png", PNG)])
        parts = [{"type": "text", "text": "x"}, {"type": "image", "mimeType": "image/jpeg", "data": b"\xff\xd8\xff"}]
        self.assertEqual(list(notebook.images(parts)), [("jpeg", b"\xff\xd8\xff")])
        self.assertEqual(list(notebook.images({"a": (b"GIF89a", b"none")})), [("gif", b"GIF89a")])

    def test_nothing_imports_ipython(self) -> None:
        code = "import sys; sys.path.insert(0, %r)\nimport agentkernel, agentkernel.notebook\nprint('IPython' in sys.modules)" % str(support.SDK / "src")
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual((out.stdout, out.stderr), ("False\n", ""))


if __name__ == "__main__":
    unittest.main()
