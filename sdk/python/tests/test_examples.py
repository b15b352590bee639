"""Each example for Python users is run as its first lines say, and prints what it promises."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

import support

EXPECTED = {
    "hello.py": """template -> 832040
code -> 5 words -> sandbox
False 'before\\n' ZeroDivisionError
""",
    "sales_report.py": """50,000 orders, revenue 29,180,363.22
best month 2025-12: 3,104,152.54
quarters 6,117,222, 6,570,352, 7,657,486, 8,835,304
sum of quantity by region
  south            37,670
  west             37,630
  east             37,318
  north            37,020
+ months.csv  228 B  text/csv - in the folder: False
2025-01,2012724.97
485,125 tokens stayed inside, 17 came out
""",
    "parallel_files.py": "".join(f"orders-{m:02d}.csv {28 if m == 7 else 112}\n" for m in range(1, 13)) + "in all 1260\n",
    "background_tasks.py": """dispatched 4
  step 1
  step 2
  step 3
cancelled True - again: False
completed 10
completed 20
completed 30
['completed', 'completed', 'completed', 'cancelled']
""",
    "my_agents.py": """researcher hosted
writer     hosted
reviewer   hosted
researcher -> ['page 1', 'page 2', 'page 3']
writer -> 4 lines
reviewer -> 2 rounds
""",
    "own_functions.py": """bolt 0 -> tool_error: ValueError: 10 pieces of bolt: more than 8 need a signature
screw 3 -> 10
in the journal: ['stock', 'order', 'order']
""",
    "state.py": """visit 1, 1 visitors
visit 2, 2 visitors
visit 3, 2 visitors
{
  "seen": {
    "$set": [
      "ada",
      "bob"
    ]
  },
  "visits": 3
}
['ada', 'bob']
in memory 4 - in the file 3
saved 4
""",
}


class Examples(support.KernelTest):
    def test_all(self) -> None:
        if not (support.ROOT / "examples" / "data" / "sales.csv").is_file():
            support.missing("examples/data/sales.csv; run: make data")
        folder = support.ROOT / "examples" / "python"
        self.assertEqual(sorted(EXPECTED), sorted(p.name for p in folder.glob("*.py")), "an example without a test")
        for name, want in EXPECTED.items():
            with self.subTest(example=name):
                source = (folder / name).read_text(encoding="utf-8")
                (line,) = [line.strip() for line in source.splitlines() if line.startswith("    ") and line.endswith(f"python3 examples/python/{name}")]
                command = line.replace("python3", f"'{sys.executable}'", 1)
                done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=300, cwd=support.ROOT)
                self.assertEqual((done.stdout, done.stderr, done.returncode), (want, "", 0))


class ExamplesWithAModel(support.KernelTest):
    """A kernel that declares a model and does not have its key."""

    def test_what_the_model_cannot_do_is_said(self) -> None:
        if not (support.ROOT / "examples" / "data" / "sales.csv").is_file():
            support.missing("examples/data/sales.csv; run: make data")
        self.write("config/agentkernel/config.toml", 'models = ["fast openai:gpt-5-mini url=http://127.0.0.1:1/v1 key=env:NO_SUCH_KEY"]\n')
        for name, lost in {"hello.py": ["template -> 832040"], "sales_report.py": EXPECTED["sales_report.py"].splitlines()[3:8]}.items():
            with self.subTest(example=name):
                command = [sys.executable, f"examples/python/{name}"]
                env = {**os.environ, "PYTHONPATH": "sdk/python/src"}
                done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=support.ROOT, env=env)
                said = done.stdout.splitlines()
                (why,) = [line for line in said if "not done: program_error: the task is not done: the model cannot be asked" in line]
                said.remove(why)
                self.assertEqual((said, done.stderr, done.returncode), ([line for line in EXPECTED[name].splitlines() if line not in lost], "", 0))


if __name__ == "__main__":
    unittest.main()
