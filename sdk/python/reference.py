"""Writes the reference part of docs/sdk-python.md from the signatures and docstrings: ``python3 sdk/python/reference.py``.

A test fails if the page is not what this makes of the code.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "sdk-python.md"
BEGIN, END = "<!-- reference: written by sdk/python/reference.py -->", "<!-- end of reference -->"

sys.path.insert(0, str(HERE / "src"))


def text(doc: Any) -> str:
    """A docstring as Markdown on one line."""
    doc = " ".join(inspect.cleandoc(doc or "").split())
    doc = re.sub(r":(?:class|meth|func|mod):`\.?([\w.]+)`", r"`\1`", doc)
    return re.sub(r"``([^`]+)``", r"`\1`", doc)


def signature(function: Any) -> str:
    """As it is written in the source: no annotation is evaluated, so every Python gives the same."""
    parts = []
    star = False
    for p in list(inspect.signature(function).parameters.values()):
        if p.name == "self":
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        prefix = "**" if p.kind is p.VAR_KEYWORD else "*" if p.kind is p.VAR_POSITIONAL else ""
        part = f"{prefix}{p.name}"
        if p.default is not p.empty:
            part += f"={p.default!r}"
        parts.append(part)
    return f"({', '.join(parts)})"


def members(cls: type) -> list[str]:
    """The public methods and properties of a class, in the order of the source."""
    out = []
    inherited = {name: member for base in reversed(cls.__mro__[1:-1]) for name, member in vars(base).items()}
    for name, member in (inherited | dict(vars(cls))).items():
        if name.startswith("_") or dataclasses.is_dataclass(cls) and name in ("of", "refused", "from_wire", "to_wire", "attach", "files_of"):
            continue
        if isinstance(member, property):
            out.append(f"| `{name}` | {text(member.__doc__)} |")
        elif isinstance(member, classmethod):
            out.append(f"| `{cls.__name__}.{name}{signature(member.__func__).replace('(cls, ', '(')}` | {text(member.__func__.__doc__)} |")
        elif inspect.isfunction(member):
            out.append(f"| `{name}{signature(member)}` | {text(member.__doc__)} |")
    return ["", "| | |", "|---|---|", *out] if out else []


def fields(cls: type) -> str:
    names = [f.name for f in dataclasses.fields(cls) if f.name != "raw"]
    return "Fields: " + ", ".join(f"`{n}`" for n in names) + "."


def reference() -> str:
    import agentkernel
    import agentkernel.aio

    lines: list[str] = []
    for function in (agentkernel.create_agent, agentkernel.execute_task, agentkernel.execute_code, agentkernel.effect):
        lines += [f"### {function.__name__}", "", f"`{function.__name__}{signature(function)}`", "", text(function.__doc__), ""]
    for cls in (agentkernel.AgentHelper, agentkernel.TaskManager, agentkernel.Client):
        lines += [f"### {cls.__name__}", "", text(cls.__doc__), *members(cls), ""]
    host = agentkernel.aio.Client.host
    lines += ["### aio.Client.host", "", f"`host{signature(host)}`", "", text(host.__doc__), ""]
    for cls in (agentkernel.aio.HostedProcess, agentkernel.aio.BlockingProcess, agentkernel.aio.HostedTask):
        lines += [f"### aio.{cls.__name__}", "", text(cls.__doc__), *members(cls), ""]
    for cls in (agentkernel.Result, agentkernel.Changes, agentkernel.Change, agentkernel.Applied, agentkernel.Step, agentkernel.TaskStatus, agentkernel.Spec, agentkernel.Volume,
                agentkernel.Limits, agentkernel.Process, agentkernel.Pause, agentkernel.Event, agentkernel.Entry,
                agentkernel.Inspection, agentkernel.Skill, agentkernel.Tool, agentkernel.ToolServer, agentkernel.Usage):  # fmt: skip
        lines += [f"### {cls.__name__}", "", text(cls.__doc__), "", fields(cls), *members(cls), ""]
    lines += ["### Errors", "", text(agentkernel.errors.KernelError.__doc__), "", "| class | code | |", "|---|---|---|"]
    kinds: list[type[agentkernel.KernelError]] = [*agentkernel.errors.CLASSES.values(), agentkernel.errors.KernelGone, agentkernel.errors.BinaryNotFound]
    for error in kinds:
        lines.append(f"| `errors.{error.__name__}` | `{error.code}` | {text(error.__doc__)} |")
    return "\n".join(lines) + "\n"


def page(old: str) -> str:
    """The page with its reference part renewed."""
    before, _, rest = old.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{reference()}\n{END}{after}"


def main() -> int:
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
