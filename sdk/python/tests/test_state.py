"""The state file: what is shared, what is lost, what is mended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import support
from agentkernel.errors import Corrupt, InvalidArgument, StorageFailed
from agentkernel.state import StateFile


class State(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "sub", "state.json")

    def test_round_trip(self) -> None:
        s = StateFile(self.file)
        s.values.update(n=1, t=(1, {2}), text="é")
        s.save()
        self.assertEqual(json.loads(Path(self.file).read_text(encoding="utf-8")), {"n": 1, "t": {"$tuple": [1, {"$set": [2]}]}, "text": "é"})
        self.assertEqual(StateFile(self.file).values, {"n": 1, "t": (1, {2}), "text": "é"})

    def test_two_owners_lose_nothing(self) -> None:
        a, b = StateFile(self.file), StateFile(self.file)
        a.values["a"] = 1
        b.values["b"] = 2
        a.save()
        b.save()
        self.assertEqual(b.values, {"a": 1, "b": 2})
        del b.values["a"]
        b.save()
        a.values["c"] = [3]
        a.save()
        self.assertEqual(a.values, {"b": 2, "c": [3]})
        a.values["c"].append(4)  # changed in place
        a.save()
        self.assertEqual(StateFile(self.file).values, {"b": 2, "c": [3, 4]})

    def test_merge_takes_what_a_program_changed(self) -> None:
        s = StateFile(None)
        s.values.update(kept=1, changed=2, deleted=3)
        before = s.snapshot()
        s.values["meanwhile"] = 4  # by another task
        s.merge(before, {"kept": 1, "changed": {"$tuple": []}, "new": 5})
        self.assertEqual(s.values, {"kept": 1, "changed": (), "new": 5, "meanwhile": 4})

    def test_interpreters_at_the_same_time(self) -> None:
        program = (
            "import sys; from agentkernel.state import StateFile\n"
            "for i in range(20):\n    s = StateFile(sys.argv[1]); s.values[f'{sys.argv[2]}-{i}'] = i; s.save()\n"
        )
        env = {**os.environ, "PYTHONPATH": str(support.SDK / "src")}
        running = [subprocess.Popen([sys.executable, "-c", program, self.file, str(n)], env=env) for n in range(4)]
        self.assertEqual([p.wait() for p in running], [0] * 4)
        self.assertEqual(len(StateFile(self.file).values), 80)

    def test_threads_at_the_same_time(self) -> None:
        def work(n: int) -> None:
            for i in range(25):
                s = StateFile(self.file)
                s.values[f"{n}-{i}"] = i
                s.save()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(StateFile(self.file).values), 100)
        self.assertEqual(sorted(os.listdir(os.path.dirname(self.file))), [".state.json.lock", "state.json"])

    def test_what_is_no_state(self) -> None:
        os.makedirs(os.path.dirname(self.file))
        for text in ("[1]", "{", "\xff"):
            Path(self.file).write_bytes(text.encode("latin-1"))
            with self.assertRaises(Corrupt):
                StateFile(self.file)
            self.assertEqual(Path(self.file).read_bytes(), text.encode("latin-1"))  # left as it was
        Path(self.file).write_text("")
        self.assertEqual(StateFile(self.file).values, {})

    def test_what_cannot_be_kept(self) -> None:
        s = StateFile(self.file)
        s.values["f"] = lambda: 1
        with self.assertRaises(InvalidArgument):
            s.save()
        s.values.clear()
        s.values[3] = 1  # type: ignore[index]
        with self.assertRaises(InvalidArgument):
            s.save()
        with self.assertRaises(InvalidArgument):
            StateFile(None).save()
        with self.assertRaises(StorageFailed):
            s.values.clear()
            s.path = Path("/proc/nowhere/state.json")
            s.save()


if __name__ == "__main__":
    unittest.main()
