"""Tells programs from tasks in plain language, and brings programs into shape."""

from __future__ import annotations

import ast
import builtins
import re
import textwrap
from typing import Optional

_FENCE = re.compile(r"```[ \t]*(?:python|py)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL | re.IGNORECASE)

#: Lines that are code whatever surrounds them, so that a program with a mistake is still one and its mistake is shown.
_STRONG = re.compile(
    r"""^\s*(?:
        from\s+[\w.]+\s+import\s+[\w(*]
      | import\s+[\w.]+(?:\s+as\s+\w+)?(?:\s*,\s*[\w.]+)*\s*(?:[#;].*)?$
      | (?:async\s+)?def\s+\w+\s*\(
      | class\s+\w+.*:\s*(?:\#.*)?$
      | print\s*\(
      | @\w+
    )""",
    re.VERBOSE,
)
#: Lines that look like code and could be words.
_WEAK = re.compile(
    r"""^\s*(?:
        (?:for\s.+\sin\s.+|while\s.+|if\s.+|elif\s.+|else|try|except.*|finally|with\s.+)\s*:\s*(?:\#.*)?$
      | (?:return|yield|raise|await|assert|break|continue|pass)\b
      | [\w.\[\]'"]+\s*[-+*/%|&]?=\s*\S
      | [\w.]+\(.*\)\s*$
      | \#
      | [\])}]
    )""",
    re.VERBOSE,
)


def program_in(text: str) -> Optional[str]:
    """The program that a text is, dedented; None if it is a task in plain language. A block that
    is fenced with ``` is a program, if nothing stands around it."""
    fenced = _FENCE.fullmatch(text.strip())
    if fenced is not None:
        return dedent(fenced[1])
    source = dedent(text)
    if not source.strip() or re.search(r"(?m)^\s*```", source):
        return None  # words around a fenced block are a task about it
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source if _looks_like_code(source) else None
    if not tree.body:  # comments only
        return source if source.lstrip().startswith("#") else None
    return None if all(map(_is_prose, tree.body)) else source


def dedent(text: str) -> str:
    """Takes common indentation off, also where the first line stands behind the opening quotes."""
    source = textwrap.dedent(text)
    if source[:1] not in (" ", "\n") and "\n" in source and not _parses(source):
        first, rest = source.split("\n", 1)
        again = first + "\n" + textwrap.dedent(rest)
        if _parses(again):
            return again
    return source


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _looks_like_code(source: str) -> bool:
    lines = [line for line in source.splitlines() if line.strip()]
    if any(_STRONG.match(line) for line in lines):
        return True
    return len(lines) > 1 and 2 * sum(bool(_WEAK.match(line)) for line in lines) > len(lines)


def _is_prose(statement: ast.stmt) -> bool:
    """Words that happen to be Python: "files in data", "todo: list", "raise awareness"."""
    if isinstance(statement, ast.Expr):
        return not _expression_is_code(statement.value)
    if isinstance(statement, ast.AnnAssign):
        return statement.value is None
    if isinstance(statement, ast.Raise):
        return isinstance(statement.exc, ast.Name) and not hasattr(builtins, statement.exc.id)
    if isinstance(statement, ast.Assert):
        return isinstance(statement.test, ast.Name)
    return isinstance(statement, (ast.Global, ast.Nonlocal, ast.Delete, ast.Pass, ast.Break, ast.Continue))


def _expression_is_code(node: ast.expr) -> bool:
    """A lone expression is a program if it does what words and arithmetic do not: call something that Python has,
    index, build lists. ``fibonacci(30)``, ``2 + 3`` and a word are tasks, which a recipe may know."""
    for part in ast.walk(node):
        if isinstance(part, _PROGRAMMING):
            return True
        if isinstance(part, ast.Constant) and (isinstance(part.value, bytes) or isinstance(part.value, str) and part is not node):
            return True
        if isinstance(part, ast.Call):
            function = part.func
            if isinstance(function, ast.Attribute) or isinstance(function, ast.Name) and function.id not in _MATH and hasattr(builtins, function.id):
                return True
    # No recipe compares; words do, and "in" and "is" are words.
    compares = isinstance(node, ast.Compare) and all(isinstance(op, (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in node.ops)
    return compares and not any(isinstance(part, ast.Name) for part in ast.walk(node))


_PROGRAMMING = (ast.Await, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Lambda, ast.JoinedStr, ast.Dict, ast.List, ast.Set, ast.Subscript)

#: Builtins that arithmetic uses, too.
_MATH = frozenset({"abs", "round", "min", "max", "pow"})


def with_prelude(source: str, prelude: str) -> tuple[str, int]:
    """A program that runs a statement first, and by how many lines its own lines have moved: 0 where the statement
    finds room on a line that is there."""
    lines = source.split("\n")
    first = lines[0].strip()
    if not first or first.startswith("#") and not first.startswith("#!"):
        lines[0] = prelude + ("  " + lines[0].strip() if first else "")
        return "\n".join(lines), 0
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return prelude + "\n" + source, 1
    statement = tree.body[0]
    simple = not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.AsyncFor, ast.While, ast.If, ast.With,
                                        ast.AsyncWith, ast.Try))  # fmt: skip
    simple = simple and type(statement).__name__ not in ("Match", "TryStar")
    future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    if statement.lineno == 1 and simple and not future:
        lines[0] = f"{prelude}; {lines[0]}"
        return "\n".join(lines), 0
    return prelude + "\n" + source, 1


def shift_traceback(text: str, name: str, lines: int) -> str:
    """A traceback in which the line numbers of a file are lower."""
    if not lines:
        return text
    pattern = re.compile(r'(File "' + re.escape(name) + r'", lines? )(\d+)(?:-(\d+))?')

    def shift(m: re.Match[str]) -> str:
        return m[1] + "-".join(str(max(int(n) - lines, 1)) for n in m.groups()[1:] if n)

    return pattern.sub(shift, text)
