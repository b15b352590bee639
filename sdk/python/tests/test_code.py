"""Programs are told from tasks in plain language."""

from __future__ import annotations

import unittest

import support  # noqa: F401 - finds the package
from agentkernel._code import dedent, program_in, shift_traceback, with_prelude

CODE = [
    "print(1)",
    "x = 1",
    "import json",
    "from tools.filesystem import list_directory",
    "for x in range(3):\n    print(x)",
    "import json\nprint(json.dumps({})",  # the mistake is the kernel's to show
    "def f(:\n    pass",
    "from kernel import state",
    "sum([1, 2, 3])",
    "state.set('a', 1)",
    "[x for x in range(3)]",
    "x = 5\nx",
    "# only a comment",
    "match x:\n    case 1: pass",
    "@decorator\ndef f(): pass",
    "if x = 1:\n    y = 2\nelse:\n    y = 3",
    "await main()",
    "```python\nprint(1)\n```",
    "``` \nx = 1\n```",
    "raise ValueError('no')",
    "b'x' * 8",
    "'a' + 'b'",
    "rows[0]",
    "1 < 2",
    "2+2 == 4",
    "(1, [2])",
    "rows = read(path)\ntotal += 1 +",
]

LANGUAGE = [
    "Calculate fibonacci(30)",
    "fibonacci(30)",
    "2 + 3",
    "2+2",
    "1/0",
    "42",
    "a-b",
    "read/write",
    "cats > dogs",
    "yes",
    "1 in 2",
    "max(3, 4)",
    "hello",
    "Process file_1.csv",
    "data.csv",
    "list files in data",
    "files in data",
    "import the data from sales.csv",
    "from a to b",
    "todo: list",
    "What is 15% of 240?",
    "Get weather for Paris",
    "raise awareness",
    "global warming",
    "compare; plot",
    "'just a text'",
    "",
    "   \n ",
    "if it rains: take an umbrella",
    "Explain this:\n```python\nprint(1)\n```",
    "First read a.csv.\nThen group it by region.",
]


class Detection(unittest.TestCase):
    def test_code(self) -> None:
        for text in CODE:
            self.assertIsNotNone(program_in(text), text)

    def test_language(self) -> None:
        for text in LANGUAGE:
            self.assertIsNone(program_in(text), text)

    def test_dedent(self) -> None:
        self.assertEqual(program_in("\n    import json\n    if 1:\n        print(1)\n    "), "\nimport json\nif 1:\n    print(1)\n")
        self.assertEqual(program_in("import json\n    x = 1\n    print(x)"), "import json\nx = 1\nprint(x)")
        self.assertEqual(program_in("\n\tif 1:\n\t\tx = 'a\\tb'\n"), "\nif 1:\n\tx = 'a\\tb'\n")
        self.assertEqual(dedent('x = """\n  keep\n"""'), 'x = """\n  keep\n"""')
        self.assertEqual(program_in("```py\n    x = 1\n    y = 2\n```"), "x = 1\ny = 2")

    def test_prelude_keeps_lines(self) -> None:
        for source, want, moved in [
            ("\nx = 1", "import p\nx = 1", 0),
            ("# note\nx = 1", "import p  # note\nx = 1", 0),
            ("x = 1\ny", "import p; x = 1\ny", 0),
            ("def f():\n    pass", "import p\ndef f():\n    pass", 1),
            ("for x in y:\n    pass", "import p\nfor x in y:\n    pass", 1),
            ("x = (", "import p\nx = (", 1),
            ("", "import p", 0),
        ]:
            self.assertEqual(with_prelude(source, "import p"), (want, moved))

    def test_traceback(self) -> None:
        text = 'File "a.py", line 3, in f\nFile "other.py", line 3\nFile "a.py", line 1\nFile "a.py", lines 3-12, in g'
        self.assertEqual(shift_traceback(text, "a.py", 1), 'File "a.py", line 2, in f\nFile "other.py", line 3\nFile "a.py", line 1\nFile "a.py", lines 2-11, in g')
        self.assertEqual(shift_traceback(text, "a.py", 0), text)


if __name__ == "__main__":
    unittest.main()
