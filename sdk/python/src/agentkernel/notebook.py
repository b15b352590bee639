"""The cell magic ``%%agentkernel`` for IPython and Jupyter: the cell is a program or a task.

    %load_ext agentkernel

    %%agentkernel --workspace data --out rows
    open("sales.csv").read().splitlines()

Output appears as it comes, the value of the last expression is the cell's value, images in it are shown as images.
IPython is imported when a cell runs, never before.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any, Iterator, NoReturn, Optional

from .agent import AgentHelper, create_agent
from .errors import InvalidArgument, KernelError
from .model import Event
from .result import Result

#: How files begin that notebooks can show.
_MAGIC = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}


class CellFailed(Exception):
    """The cell's program failed; the notebook shows its own traceback, not the SDK's."""

    def __init__(self, error: KernelError) -> None:
        super().__init__(str(error))
        self.error = error

    def _render_traceback_(self) -> list[str]:
        return str(self.error).splitlines()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidArgument(f"%%agentkernel: {message}", hint=self.format_usage().strip())


def _parser() -> argparse.ArgumentParser:
    p = _Parser(prog="%%agentkernel", add_help=False)
    p.add_argument("--tools", action="append", default=[], metavar="FILE")
    p.add_argument("--allow", action="append", default=[], metavar="PATTERN")
    p.add_argument("--workspace", metavar="FOLDER")
    p.add_argument("--publish", action="store_true")
    p.add_argument("--state", metavar="FILE")
    p.add_argument("--timeout", metavar="SECONDS")
    p.add_argument("--home", metavar="FOLDER")
    p.add_argument("--out", metavar="NAME")
    p.add_argument("--quiet", action="store_true")
    return p


def register(ipython: Any) -> None:
    """Registers the magic in an IPython shell."""
    agents: dict[tuple[Any, ...], AgentHelper] = {}

    def agentkernel(line: str, cell: Optional[str] = None) -> Any:
        if cell is None:
            raise InvalidArgument("%%agentkernel is a cell magic: the program stands below it")
        args = _parser().parse_args(shlex.split(line))
        key = (tuple(args.tools), tuple(args.allow), args.workspace, args.publish, args.state, args.home)
        if key not in agents:  # cells with the same options share an agent, and so its state
            agents[key] = create_agent(
                tools=args.tools, allow=args.allow, workspace_dir=args.workspace, publish=args.publish, home=args.home,
                state_enabled=True, state_file=args.state,
            )  # fmt: skip
        result = _run(agents[key], cell, args)
        if args.out:
            ipython.push({args.out: result.result})
        return _show(result)

    ipython.register_magic_function(agentkernel, magic_kind="cell", magic_name="agentkernel")


def _run(agent: AgentHelper, cell: str, args: argparse.Namespace) -> Result:
    def write(event: Event) -> None:
        stream = sys.stderr if event.stream == "stderr" else sys.stdout
        stream.write(event.text)
        stream.flush()

    options = {"timeout": args.timeout} if args.timeout else {}
    result = agent.execute_task(cell, on_output=write, **options)
    if result.mode == "template" and not args.quiet and result.code:
        print(f"[template mode: no model is asked; the program that ran:]\n{result.code}", file=sys.stderr)
    changes = result.changes
    if changes is not None and changes.state == "kept" and len(changes) > 0:
        verbs = f"agentkernel.Client().apply({result.pid}) writes them there, discard({result.pid}) throws them away"
        print(f"[{changes.counts} in {changes.folder}, kept apart: {verbs}]", file=sys.stderr)
    if result.error is not None:
        raise CellFailed(result.error)
    return result


def images(value: Any) -> Iterator[tuple[str, bytes]]:
    """The images in a value: bytes that begin as one does, and the image parts of tool results."""
    if isinstance(value, bytes):
        for magic, kind in _MAGIC.items():
            if value.startswith(magic):
                yield kind, value
    elif isinstance(value, dict):
        if value.get("type") == "image" and isinstance(value.get("data"), bytes):
            yield str(value.get("mimeType", "image/png")).removeprefix("image/"), value["data"]
            return
        for part in value.values():
            yield from images(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from images(part)


def _show(result: Result) -> Any:
    """Shows the images of a result; gives its value, or None if the value is nothing but images."""
    found = list(images(result.result))
    if not found:
        return result.result
    from IPython.display import Image, display  # type: ignore[import]  # it need not be installed

    for kind, data in found:
        display(Image(data=data, format=kind))
    return None
