"""Folders for programs: what they change there is kept apart until somebody applies it, as docs/workspace.md says."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import os
import pickle
import re
import subprocess
import sys
import unittest
import warnings
from pathlib import Path
from typing import Any

import support
import agentkernel
import agentkernel.aio
from agentkernel import TaskManager, Volume, create_agent, errors

CLEAN = """
    import os
    rows = open("sales.csv").readlines()
    os.makedirs("out")
    open("out/report.md", "w").write(f"{len(rows) - 1} rows\\n")
    open("sales.csv", "a").write("west,4\\n")
    os.remove("old.txt")
    len(rows)
"""


class Workspace(support.KernelTest):
    def setUp(self) -> None:
        super().setUp()
        if not sys.platform.startswith("linux"):
            support.missing("workspaces, which need Linux")
        self.folder_of_test = self.path(f"ws{self.id()}")
        self.write(f"ws{self.id()}/sales.csv", "region,n\nnorth,1\nsouth,2\nnorth,3\n")
        self.write(f"ws{self.id()}/old.txt", "x\n")

    def files(self) -> dict[str, str]:
        root = Path(self.folder_of_test)
        return {str(p.relative_to(root)): p.read_text() for p in root.rglob("*") if p.is_file()}

    def test_changes_are_kept_apart_until_they_are_applied(self) -> None:
        before = self.files()
        r = create_agent(workspace_dir=self.folder_of_test).execute_task(CLEAN).check()
        self.assertEqual((r.result, self.files()), (4, before))
        assert r.changes is not None
        self.assertEqual([(c.kind, c.name, c.type, c.size) for c in r.changes],
                         [("deleted", "old.txt", "file", 0), ("added", "out", "dir", 0), ("added", "out/report.md", "file", 7), ("changed", "sales.csv", "file", 40)])  # fmt: skip
        self.assertEqual((r.changes.state, r.changes.folder, r.changes.counts), ("kept", self.folder_of_test, "2 added, 1 changed, 1 deleted"))
        self.assertEqual(str(r.diff()).splitlines()[3], "~ sales.csv  33 -> 40 B  text/csv")
        self.assertEqual([(a.name, a.media) for a in r.artifacts()], [("out/report.md", "text/markdown"), ("sales.csv", "text/csv")])
        self.assertEqual((r.get_file("/workspace/out/report.md"), r.get_file("sales.csv", before=True)), (b"3 rows\n", before["sales.csv"].encode()))
        done = r.apply()
        self.assertEqual((done.added, done.changed, done.deleted, done.folder), (2, 1, 1, self.folder_of_test))
        self.assertEqual(self.files(), {"out/report.md": "3 rows\n", "sales.csv": before["sales.csv"] + "west,4\n"})
        with self.assertRaisesRegex(errors.Conflict, "applied"):
            r.apply()
        with self.assertRaises(errors.Conflict):
            r.discard()

    def test_the_patch_is_that_of_the_command_line(self) -> None:
        self.write(f"ws{self.id()}/no-end.txt", "a\nb")
        Path(self.folder_of_test, "picture.bin").write_bytes(b"\0\1")
        code = CLEAN + "    open('no-end.txt', 'a').write('c')\n    open('picture.bin', 'ab').write(b'\\0')\n    os.symlink('sales.csv', 'link')\n"
        r = create_agent(workspace_dir=self.folder_of_test).execute_task(code).check()
        said = subprocess.run([support.binary(), "diff", str(r.pid), "--patch"], capture_output=True, text=True)
        for name in ("sales.csv", "old.txt", "no-end.txt", "report.md"):  # byte for byte what the command prints
            self.assertEqual(hunk(r.patch(), name), hunk(said.stdout, name))
        self.assertIn("-b\n\\ No newline at end of file\n+bc\n\\ No newline at end of file\n", r.patch())
        self.assertIn("~ picture.bin  2 -> 3 B  application/octet-stream: not text\n", r.patch())
        self.assertIn("+ link  link to sales.csv\n", r.patch())
        r.discard()

    def test_conflicts(self) -> None:
        r = create_agent(workspace_dir=self.folder_of_test).execute_task(CLEAN).check()
        Path(self.folder_of_test, "sales.csv").write_text("mine\n")
        with self.assertRaises(errors.Conflict) as caught:
            r.apply()
        self.assertIn("sales.csv", str(caught.exception))
        self.assertEqual(self.files(), {"sales.csv": "mine\n", "old.txt": "x\n"})
        self.assertEqual([c.name for c in r.diff() if c.conflict], ["sales.csv"])
        self.assertEqual(r.apply(force=True).changed, 1)
        self.assertIn("west,4", self.files()["sales.csv"])

    def test_some_of_the_changes(self) -> None:
        code = "open('a.txt', 'w').write('a')\nopen('b.txt', 'w').write('b')\nopen('.envrc', 'w').write('echo hello')"
        r = create_agent(workspace_dir=self.folder_of_test).execute_task(code).check()
        assert r.changes is not None
        self.assertEqual([c.name for c in r.changes if c.withheld], [".envrc"])  # the host acts on it
        self.assertIn("only if named", str(r.changes))
        self.assertEqual((r.apply("a.txt").added, "b.txt" in self.files()), (1, False))
        rest = r.apply()
        self.assertEqual((rest.added, [c.name for c in rest.withheld]), (1, [".envrc"]))
        self.assertNotIn(".envrc", self.files())
        self.assertEqual(r.apply([".envrc"]).added, 1)
        with self.assertRaises(errors.InvalidArgument):
            r.apply(5)  # type: ignore[arg-type]

    def test_discard(self) -> None:
        before = self.files()
        r = create_agent(workspace_dir=self.folder_of_test).execute_task(CLEAN).check()
        r.discard()
        self.assertEqual((self.files(), r.diff().state), (before, "discarded"))
        with self.assertRaises(errors.Conflict):
            r.apply()

    def test_publish(self) -> None:
        agent = create_agent(workspace_dir=self.folder_of_test, publish=True)
        r = agent.execute_task(CLEAN).check()
        assert r.changes is not None
        self.assertEqual((r.changes.state, self.files()["out/report.md"]), ("applied", "3 rows\n"))
        self.assertEqual(agent.execute_task("open('out/report.md').read()").result, "3 rows\n")  # the next program finds it
        failed = agent.execute_task("open('half.txt', 'w').write('x')\n1 / 0")
        assert failed.changes is not None
        self.assertEqual((failed.changes.state, "half.txt" in self.files()), ("kept", False))

    def test_what_is_dropped_unseen_is_told(self) -> None:
        agent = create_agent(workspace_dir=self.folder_of_test)
        for keep, told in [(lambda r: None, 1), (lambda r: r.changes, 0), (lambda r: r.apply(), 0)]:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                keep(agent.execute_task("open('lost.txt', 'w').write('x')").check())
                agent.execute_task("print('nothing is changed')").check()
                gc.collect()
            self.assertEqual([w.category for w in caught], [UserWarning] * told)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pid = agent.execute_task("open('lost.txt', 'w').write('y')").check().pid
            gc.collect()
        self.assertIn(f"client.apply({pid})", str(caught[0].message))
        self.client.apply(pid or 0)  # it was not lost
        self.assertEqual(self.files()["lost.txt"], "y")

    def test_copies(self) -> None:
        r = create_agent(workspace_dir=self.folder_of_test).execute_task("open('a.txt', 'w').write('a')").check()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            again = pickle.loads(pickle.dumps(r))
            copy.copy(r), copy.deepcopy(r)
            self.assertEqual((again.diff().counts, again == r), ("1 added", True))
            gc.collect()
        self.assertEqual([str(w.message) for w in caught], [])
        again.apply()
        self.assertEqual(self.files()["a.txt"], "a")
        r.diff()

    def test_any_size_is_copied_out(self) -> None:
        code = "with open('big.bin', 'wb') as f:\n    for i in range(64):\n        f.write(bytes([i]) * (1 << 20))"
        r = create_agent(workspace_dir=self.folder_of_test).execute_task(code).check()
        to = r.save_file("big.bin", self.path("copied.bin"))
        self.assertEqual((to, to.stat().st_size, to.stat().st_mode & 0o777), (Path(self.path("copied.bin")), 64 << 20, 0o644))
        with to.open("rb") as f:
            f.seek(-1, os.SEEK_END)
            self.assertEqual(f.read(), b"\x3f")
        into = Path(self.path("into"))
        into.mkdir()
        self.assertEqual(r.save_file("big.bin", into), into / "big.bin")
        with self.assertRaises(errors.StorageFailed):
            r.save_file("big.bin", self.path("no", "such", "folder"))
        for wrong, kind in [("none.txt", errors.NotFound), ("../old.txt", errors.InvalidArgument), ("", errors.InvalidArgument)]:
            with self.assertRaises(kind):
                r.save_file(wrong, into)
            with self.assertRaises(kind):
                r.get_file(wrong)
        self.assertEqual(sorted(os.listdir(into)), ["big.bin"])  # nothing half is left
        r.discard()

    def test_processes_and_tasks(self) -> None:
        p = self.client.spawn("open('a.txt', 'w').write('a')", workspace=self.folder_of_test)
        self.assertTrue(self.client.wait(p.pid).success)
        self.assertEqual([c.name for c in self.client.diff(p.pid)], ["a.txt"])
        self.assertEqual([c.name for c in self.client.artifacts(p.pid)], ["a.txt"])
        self.assertIn("+a", self.client.patch(p.pid))
        self.assertEqual(self.client.get_file(p.pid, "a.txt"), b"a")
        self.client.save_file(p.pid, "a.txt", self.path("a.txt"))
        self.client.discard(p.pid)
        manager = TaskManager(create_agent(workspace_dir=self.folder_of_test))
        result = manager.wait_for_task(manager.dispatch_task("open('b.txt', 'w').write('b')"))
        self.assertEqual(result.apply().added, 1)
        self.assertEqual(self.files()["b.txt"], "b")
        with self.assertRaises(errors.InvalidArgument):
            self.client.run("1").diff()
        with self.assertRaises(errors.InvalidArgument):
            self.client.run("import no_such_module").apply()
        self.assertIsNone(self.client.run("1").changes)

    def test_volumes_and_input(self) -> None:
        os.mkdir(self.path("extra"))
        data = self.write("numbers.txt", "1\n2\n")
        code = "import sys\nopen('/volumes/extra/sum.txt', 'w').write(str(sum(map(int, sys.stdin))))\nopen('/volumes/read/sales.csv').readline()"
        volumes = {"extra": self.path("extra"), "read": Volume(self.folder_of_test, read_only=True)}
        r = self.client.run(code, volumes=volumes, stdin=data)
        self.assertEqual((r.check().result, Path(self.path("extra", "sum.txt")).read_text()), ("region,n\n", "3"))
        assert r.changes is not None
        self.assertEqual([c.name for c in r.changes], ["/volumes/extra/sum.txt"])
        self.assertEqual(r.get_file("/volumes/extra/sum.txt"), b"3")
        for wrong, kind in [({"x y": self.folder}, errors.InvalidArgument), ({"gone": self.path("gone")}, errors.NotFound), ({"v": Volume(self.folder_of_test, size="much")}, errors.InvalidArgument)]:
            with self.assertRaises(kind):
                self.client.run("1", volumes=wrong)

    def test_a_folder_that_goes_away(self) -> None:
        os.mkdir(self.path("going"))
        agent = create_agent(workspace_dir=self.path("going"))
        os.rmdir(self.path("going"))
        with self.assertRaisesRegex(errors.NotFound, "does not exist"):
            agent.execute_task("print(1)")
        self.assertFalse(os.path.exists(self.path("going")))

    def test_template_mode_reads_it(self) -> None:
        agent = create_agent(workspace_dir=self.folder_of_test)
        r = agent.execute_task("total n by region in sales.csv").check()
        self.assertEqual((r.mode, r.result), ("template", {"north": 4, "south": 2}))

    def test_functions_for_files(self) -> None:
        agent = create_agent(workspace_dir=self.folder_of_test)
        self.assertEqual([t.name for t in agent.get_server_tools("workspace")],
                         ["append_text_file", "file_info", "list_directory", "read_text_file", "write_text_file"])  # fmt: skip
        r = agent.execute_task("""
            from tools.workspace import append_text_file, file_info, list_directory, read_text_file, write_text_file
            write_text_file("new/a.txt", "ä")
            append_text_file("new/a.txt", "b")
            print(list_directory())
            (read_text_file("new/a.txt"), file_info("sales.csv")["size"], list_directory("new"))
        """).check()
        self.assertEqual((r.output, r.result), ("[DIR] new\n[FILE] old.txt\n[FILE] sales.csv\n", ("äb", 33, "[FILE] a.txt")))
        self.assertNotIn("new/a.txt", self.files())
        r.discard()

    def test_state_lies_in_it(self) -> None:
        agent = create_agent(workspace_dir=self.folder_of_test, state_enabled=True, state_file="kept.json")
        agent.execute_task("from kernel import state\nstate.set('d', 8)").check()
        self.assertEqual(json.loads(self.files()["kept.json"]), {"d": 8})

    def test_the_twin_for_asyncio(self) -> None:
        async def main() -> Any:
            r = await agentkernel.aio.create_agent(workspace_dir=self.folder_of_test).execute_task(CLEAN)
            self.assertEqual((len(r.changes), len(await r.diff()), len(await r.artifacts())), (4, 4, 2))
            self.assertIn("+west,4", await r.patch())
            self.assertEqual(await r.get_file("out/report.md"), b"3 rows\n")
            self.assertEqual((await r.save_file("out/report.md", self.path("twin.md"))).read_text(), "3 rows\n")
            with self.assertRaises(errors.NotFound):
                await r.save_file("none", self.path("none"))
            return await r.apply()

        self.assertEqual(asyncio.run(main()).added, 2)


def hunk(patch: str, name: str) -> str:
    """The lines of a file in a patch."""
    parts = [part for part in re.split(r"(?m)^(?=--- |[~+-] )", patch) if part.startswith("--- ") and name in part]
    return parts[0] if len(parts) == 1 else f"{len(parts)} parts for {name}"


class LocalTools(support.KernelTest):
    """Files below tools/ are functions for programs: listed, searched and described like those of servers."""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.makedirs(self.path("here"), exist_ok=True)
        os.chdir(self.path("here"))
        self.write("here/tools/maths/double.py", 'def double(x: int, *, times: int = 1) -> int:\n    """Doubles a number, some times."""\n    return x * 2 ** times\n')
        self.write("here/tools/maths/_hidden.py", "def _hidden(): pass\n")

    def test_they_are_listed_and_found(self) -> None:
        agent = create_agent()
        self.assertEqual([(s.name, s.transport) for s in agent.list_servers()], [("maths", "local")])
        (tool,) = agent.list_available_tools()
        self.assertEqual((tool.import_line, tool.signature, tool.doc, tool.effect),
                         ("from tools.maths import double", "double(x: int, *, times: int = 1) -> int", "Doubles a number, some times.", "local"))  # fmt: skip
        self.assertEqual([t.name for t in agent.search_tools("make a number twice as large: double it")], ["double"])
        self.assertEqual(agent.search_tools("send an email"), [])
        self.assertEqual([t.name for t in agent.get_server_tools("maths")], ["double"])
        with self.assertRaises(errors.NotFound):
            agent.get_server_tools("none")
        self.assertEqual(agent.execute_task("from tools.maths import double\ndouble(4)").result, 8)
        self.write("here/tools/maths/half.py", "def half(x):\n    return x / 2\n")
        self.assertEqual([t.name for t in agent.list_available_tools()], ["double", "half"])  # as the folder is now

    def test_those_of_a_workspace_come_first(self) -> None:
        self.write("ws/tools/other/mine.py", "def mine():\n    return 'mine'\n")
        self.write("plain/a.txt", "a")
        self.assertEqual([s.name for s in create_agent(workspace_dir=self.path("ws")).list_servers()], ["other", "workspace"])
        self.assertEqual([s.name for s in create_agent(workspace_dir=self.path("plain")).list_servers()], ["maths", "workspace"])
        self.assertEqual(create_agent(workspace_dir=self.path("ws")).execute_task("from tools.other import mine\nmine()").check().result, "mine")

    def test_among_those_of_servers(self) -> None:
        server = os.environ.get("AGENTKERNEL_TEST_SERVER")
        if not server:
            support.missing("the MCP test server: AGENTKERNEL_TEST_SERVER (the Go test builds it)")
        config = self.write("mcp.json", '{"mcpServers": {"test": {"command": "%s"}}}' % server)
        agent = create_agent(tools=config)
        names = [(t.server, t.name) for t in agent.list_available_tools()]
        self.assertIn(("maths", "double"), names)
        self.assertIn(("test", "add"), names)
        self.assertEqual(agent.search_tools("double a number")[0].name, "double")
        self.assertEqual({s.transport for s in agent.list_servers()}, {"local", "stdio"})


if __name__ == "__main__":
    unittest.main()
