"""The workspace's file server leads nowhere but into the workspace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import support  # noqa: F401 - finds the package
from agentkernel import fileserver
from agentkernel.fileserver import Folder, Refused


class Files(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.base = os.path.realpath(folder.name)
        self.root = os.path.join(self.base, "ws")
        os.makedirs(os.path.join(self.root, "sub"))
        Path(self.root, "a.txt").write_text("é\n", encoding="utf-8")
        Path(self.base, "secret").write_text("secret")
        os.symlink(os.path.join(self.base, "secret"), os.path.join(self.root, "link"))
        os.symlink(self.base, os.path.join(self.root, "dirlink"))
        os.makedirs(os.path.join(self.root, "home"))
        Path(self.root, "home", "kernel.db").write_text("journal")
        self.folder = Folder(self.root, [os.path.join(self.root, "home")])

    def test_files(self) -> None:
        self.assertEqual(self.folder.list(), "[FILE] a.txt\n[FILE] dirlink\n[FILE] link\n[DIR] sub")
        self.assertEqual(self.folder.read("a.txt"), "é\n")
        self.assertEqual(self.folder.read(os.path.join(self.root, "a.txt")), "é\n")
        self.assertEqual(self.folder.write("new/deep/b.txt", "x"), "1 bytes written to new/deep/b.txt")
        self.folder.write("new/deep/b.txt", "yé", True)
        self.assertEqual(self.folder.read("./new//deep/b.txt"), "xyé")
        self.assertEqual(os.listdir(os.path.join(self.root, "new", "deep")), ["b.txt"])  # no temporary file stays
        self.assertEqual(self.folder.about("a.txt")["size"], 3)
        self.assertEqual(self.folder.about(".")["kind"], "directory")

    def test_nothing_leads_out(self) -> None:
        for path in ("../secret", "sub/../../secret", os.path.join(self.base, "secret"), "/etc/passwd", "link", "dirlink/secret", "dirlink",
                     "home", "home/kernel.db", "./home/kernel.db", "a.txt/x", "none", "sub", "", "a\0b"):  # fmt: skip
            with self.assertRaises(Refused, msg=path):
                self.folder.read(path)
        for path in ("../new", "link", "dirlink/new", "home/kernel.db", "home/new", "/tmp/out", "a.txt/x", "."):
            for append in (False, True):
                with self.assertRaises(Refused, msg=path):
                    self.folder.write(path, "overwritten", append)
        self.assertEqual(Path(self.base, "secret").read_text(), "secret")
        self.assertEqual(Path(self.root, "home", "kernel.db").read_text(), "journal")
        self.assertEqual(sorted(os.listdir(self.base)), ["secret", "ws"])

    def test_what_is_no_text(self) -> None:
        Path(self.root, "bin").write_bytes(b"ok\xff")
        with self.assertRaisesRegex(Refused, "byte 2"):
            self.folder.read("bin")
        os.mkfifo(os.path.join(self.root, "pipe"))
        for verb in (self.folder.read, lambda p: self.folder.write(p, "x")):
            with self.assertRaises(Refused):
                verb("pipe")  # and does not hang

    def test_protocol(self) -> None:
        requests: list[Any] = [
            {"id": 1, "method": "initialize", "params": {"protocolVersion": "2024-11-05"}},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
            {"id": "x", "method": "tools/call", "params": {"name": "read_text_file", "arguments": {"path": "a.txt"}}},
            {"id": 4, "method": "tools/call", "params": {"name": "read_text_file", "arguments": {"path": "../secret"}}},
            {"id": 5, "method": "tools/call", "params": {"name": "read_text_file", "arguments": {"wrong": 1}}},
            {"id": 6, "method": "tools/call", "params": {"name": "none"}},
            {"id": 7, "method": "resources/list"},
            {"id": 8, "method": "ping"},
            [],
        ]
        text = "not json\n" + "\n".join(json.dumps(r) for r in requests) + "\n"
        done = subprocess.run([sys.executable, "-I", fileserver.__file__, self.root], input=text.encode(), capture_output=True, timeout=30)
        answers = {a["id"]: a for a in map(json.loads, done.stdout.splitlines())}
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(answers[1]["result"]["protocolVersion"], "2024-11-05")
        self.assertEqual([t["annotations"].get("readOnlyHint", False) for t in answers[2]["result"]["tools"]], [True, True, True, False, False])
        self.assertEqual(answers["x"]["result"]["content"][0]["text"], "é\n")
        self.assertEqual([answers[i]["result"].get("isError") for i in (4, 5, 6)], [True] * 3)
        self.assertEqual(answers[7]["error"]["code"], -32601)
        self.assertEqual(answers[8]["result"], {})

    def test_usage(self) -> None:
        done = subprocess.run([sys.executable, fileserver.__file__, "/none"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 2)
        self.assertIn("usage", done.stderr)


if __name__ == "__main__":
    unittest.main()
