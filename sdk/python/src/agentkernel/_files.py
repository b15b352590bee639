"""What processes did to files, as steps: diff, apply, discard, copies of single files. No input or output happens here."""

from __future__ import annotations

import difflib
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Optional, Sequence, Union

from ._http import Response, compose
from ._steps import Call, Close, ConnectionCut, Receive, Send, Steps
from .changes import Applied, Change, Changes, file_name, path_text
from .errors import InvalidArgument, KernelError, KernelGone, NotFound, StorageFailed
from .spec import PathLike, absolute, texts

if TYPE_CHECKING:
    from ._kernel import Kernel

#: The largest file of which lines are compared, in bytes.
_MAX_PATCH = 1 << 20
#: The largest file that is given as bytes.
_MAX_READ = 256 << 20


def changes(kernel: "Kernel[Any]", pid: int) -> Steps[Changes]:
    data = yield from kernel.ask("diff", "GET", f"/processes/{pid}/changes", pid=pid)
    return Changes.from_wire(data)


def artifacts(kernel: "Kernel[Any]", pid: int) -> Steps[list[Change]]:
    found = yield from changes(kernel, pid)
    return found.artifacts


def changes_if_any(kernel: "Kernel[Any]", pid: int) -> Steps[Optional[Changes]]:
    """None: the process has no folder."""
    try:
        found = yield from changes(kernel, pid)
    except (InvalidArgument, NotFound):
        return None
    return found


def apply(kernel: "Kernel[Any]", pid: int, paths: Union[str, Sequence[str]], force: bool) -> Steps[Applied]:
    body: dict[str, Any] = {"force": True} if force else {}
    if named := texts(paths, "paths"):
        body["paths"] = [path_text(p) for p in named]
    data = yield from kernel.ask("apply", "POST", f"/processes/{pid}/apply", body=body, pid=pid)
    return Applied.from_wire(data)


def discard(kernel: "Kernel[Any]", pid: int) -> Steps[None]:
    yield from kernel.ask("discard", "POST", f"/processes/{pid}/discard", body={}, pid=pid)


def read(kernel: "Kernel[Any]", pid: int, path: PathLike, before: bool) -> Steps[bytes]:
    parts: list[bytes] = []
    size = 0

    def take(piece: bytes) -> None:
        nonlocal size
        size += len(piece)
        if size > _MAX_READ:
            raise InvalidArgument(f"{os.fspath(path)} is larger than {_MAX_READ >> 20} MiB", hint="save_file(path, to) copies a file of any size")
        parts.append(piece)

    yield from _copy(kernel, pid, file_name(path), before, take)
    return b"".join(parts)


def save(kernel: "Kernel[Any]", pid: int, path: PathLike, to: Optional[PathLike], before: bool) -> Steps[Path]:
    """Copies a file, however large; it is there whole or not at all."""
    name = file_name(path)
    target = Path(absolute(to if to is not None else os.path.basename(name["path"])))
    if target.is_dir():
        target = target / os.path.basename(name["path"])
    file = yield Call(partial(_temporary, target))
    try:
        yield from _copy(kernel, pid, name, before, file.write, blocks=True)
        yield Call(partial(_finish, file, target))
    except BaseException:
        file.close()
        if os.path.exists(file.name):
            os.unlink(file.name)
        raise
    return target


def _temporary(target: Path) -> IO[bytes]:
    try:
        return tempfile.NamedTemporaryFile(dir=target.parent, prefix=".get-", delete=False)
    except OSError as e:
        raise StorageFailed(f"{target} cannot be written: {e.strerror}") from None


def _finish(file: IO[bytes], target: Path) -> None:
    try:
        os.fchmod(file.fileno(), 0o644)
        file.close()
        os.replace(file.name, target)
    except OSError as e:
        raise StorageFailed(f"{target} cannot be written: {e.strerror}") from None


def _copy(kernel: "Kernel[Any]", pid: int, name: dict[str, str], before: bool, take: Any, blocks: bool = False) -> Steps[None]:
    """Hands the bytes of a file to ``take`` as they come."""
    request = compose("GET", f"/processes/{pid}/file", {**name, "before": before}, None)
    broken = KernelGone(f"the kernel ended in the middle of {name['path']}", op="get", pid=pid, hint="get the file again")
    try:
        connection = yield from kernel.connect()
        yield Send(connection, request)
    except ConnectionCut:
        raise broken from None
    response, refusal = Response(), b""
    while not response.complete:
        try:
            data = yield Receive(connection)
        except ConnectionCut:
            data = b""
        response.feed(data)
        piece = response.take()
        if response.status // 100 != 2:
            refusal += piece
        elif piece and blocks:
            yield Call(partial(take, piece))
        elif piece:
            take(piece)
        if not data and not response.complete:
            raise broken
    yield Close(connection)
    if response.status // 100 != 2:
        kernel.answer_of("get", response, refusal)


def patch(kernel: "Kernel[Any]", pid: int) -> Steps[str]:
    """The changes as a unified diff; of what has no lines, a sentence."""
    found = yield from changes(kernel, pid)
    parts = []
    for change in found:
        part = yield from _patch_of(kernel, found, change)
        parts.append(part)
    return "".join(parts)


def _patch_of(kernel: "Kernel[Any]", all: Changes, c: Change) -> Steps[str]:
    if c.type == "dir" and c.kind == "added":
        return ""
    if c.type != "file" or c.applied or all.state in ("applied", "discarded") or all.state == "imported" and c.kind != "added":
        return f"{c}\n"
    if c.size > _MAX_PATCH or c.before > _MAX_PATCH:
        return f"{c}: too large to compare\n"
    before = after = b""
    try:
        if c.kind != "added" and not c.conflict:
            before = yield from read(kernel, all.pid, c.name, True)
        if c.kind != "deleted":
            after = yield from read(kernel, all.pid, c.name, False)
        old, new = _lines(before), _lines(after)
    except UnicodeDecodeError:
        return f"{c}: not text\n"
    except KernelError as e:  # one file that cannot be shown hides no other
        return f"{c}: {e.message}\n"
    names = ("/dev/null" if c.kind == "added" else f"a/{c.name}", "/dev/null" if c.kind == "deleted" else f"b/{c.name}")
    out = []
    for line in difflib.unified_diff(old, new, *names):
        out.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(out)


def _lines(content: bytes) -> list[str]:
    text = content.decode("utf-8")
    if any(c < " " and c not in "\n\t\r" or c == "\x7f" for c in text):
        raise UnicodeDecodeError("utf-8", content, 0, 1, "control characters")
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
