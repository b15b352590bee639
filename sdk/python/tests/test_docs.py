"""The guide says what the code does: the reference is generated, the examples in it run."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import unittest

import support
import agentkernel
import test_notebook

PAGE = support.ROOT / "docs" / "sdk-python.md"


class Docs(support.KernelTest):
    def test_the_reference_is_what_the_code_says(self) -> None:
        spec = importlib.util.spec_from_file_location("reference", support.SDK / "reference.py")
        assert spec is not None and spec.loader is not None
        reference = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(reference)
        text = PAGE.read_text(encoding="utf-8")
        self.assertEqual(text, reference.page(text), "docs/sdk-python.md is out of date: python3 sdk/python/reference.py")

    def test_every_example_of_the_guide_runs(self) -> None:
        """Blocks of Python run in order, in one scope, in a folder with a sales.csv; a comment `# ->` is the output."""
        guide = PAGE.read_text(encoding="utf-8").split("<!-- reference")[0]
        blocks = re.findall(r"(?ms)^```python\n(.*?)^```", guide)
        self.assertGreater(len(blocks), 8)
        self.write("data/sales.csv", "region,amount\nnorth,10\nsouth,20\nnorth,5\n")
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        scope: dict[str, object] = {"__name__": "guide"}
        for n, block in enumerate(blocks):
            if "# not run" in block:
                continue
            with self.subTest(block=n), contextlib.redirect_stdout(out := io.StringIO()):
                exec(compile(block, f"docs/sdk-python.md, block {n}", "exec"), scope)
            want = "".join(line + "\n" for line in re.findall(r"# -> (.*)", block))
            self.assertEqual(out.getvalue(), want, block)

    def test_the_cells_of_the_guide_run(self) -> None:
        guide = PAGE.read_text(encoding="utf-8").split("<!-- reference")[0]
        (cells,) = re.findall(r"(?ms)^```\n(%load_ext .*?)^```", guide)
        load, cell = cells.split("\n\n", 1)
        self.assertEqual(load, "%load_ext agentkernel")
        self.write("data/sales.csv", "region,amount\nnorth,10\n")
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        shell = test_notebook.Shell()
        agentkernel.load_ipython_extension(shell)
        line, _, text = cell.removeprefix("%%").partition("\n")
        name, _, options = line.partition(" ")
        self.assertEqual(shell.magics["cell", name](options, text), ["region,amount", "north,10"])
        self.assertEqual(shell.names, {"rows": ["region,amount", "north,10"]})


if __name__ == "__main__":
    unittest.main()
