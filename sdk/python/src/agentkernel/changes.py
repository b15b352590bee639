"""What processes did to files (docs/workspace.md), and its lines as a patch."""

from __future__ import annotations

import dataclasses
import os
import re
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping

from .errors import InvalidArgument
from .spec import PathLike

@dataclass(frozen=True)
class Change:
    """One file that a process has added, changed or deleted. ``path`` has slashes and is relative to the folder."""

    path: str
    kind: str  #: added, changed or deleted
    type: str = "file"  #: file, dir, symlink or other
    size: int = 0  #: bytes now
    before: int = 0  #: bytes before
    volume: str = ""  #: "": the workspace
    media: str = ""  #: of a file that was added or changed: its media type
    mode: str = ""
    target: str = ""  #: of a symbolic link
    conflict: str = ""  #: how the folder has changed here meanwhile; "": it has not
    left_out: str = ""  #: why this is never applied; "": it is
    withheld: str = ""  #: why this is applied only when it is named: the host acts on the file; "": it is applied with all
    applied: bool = False  #: it is in the folder, while others wait or were discarded
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The path as the program names it: files of a volume begin with /volumes/NAME."""
        return f"/volumes/{self.volume}/{self.path}" if self.volume else self.path

    def __str__(self) -> str:
        mark = {"added": "+", "changed": "~", "deleted": "-"}.get(self.kind, "?")
        slash = "/" if self.type == "dir" else ""
        was = f"{self.before} -> " if self.kind == "changed" else ""
        said = [f"{was}{self.size if self.kind != 'deleted' else self.before} B"] if self.type == "file" else []
        said += [s for s in (f"link to {self.target}" if self.target else "", self.media, f"conflict: {self.conflict}" if self.conflict else "", f"left out: {self.left_out}" if self.left_out else "",
                              f"only if named: {self.withheld}" if self.withheld else "") if s]  # fmt: skip
        return "  ".join([f"{mark} {self.name}{slash}", *said])

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Change":
        known = {f.name: data[f.name] for f in dataclasses.fields(cls) if f.name in data}
        return cls(**known, raw=data)


@dataclass(frozen=True)
class Changes:
    """What a process has done to its workspace and volumes. Iterating gives each :class:`Change`, ``len()`` counts them, and
    ``str()`` is a list to read."""

    pid: int
    state: str  #: open (the process runs), kept (they wait for apply or discard), applied, discarded or imported
    changes: tuple[Change, ...] = ()
    folder: str = ""  #: of the workspace, on this machine
    drift: tuple[str, ...] = ()  #: where the folder itself has changed since the process was created
    bytes: int = 0
    cut_off: str = ""  #: when an apply began that did not come to its end: some of the changes are in the folder
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes))

    @property
    def artifacts(self) -> list[Change]:
        """The files that were made or changed."""
        return [c for c in self.changes if c.type == "file" and c.kind != "deleted"]

    @property
    def counts(self) -> str:
        """How many of each kind, in words: "2 added, 1 changed"."""
        kinds = [c.kind for c in self.changes if not c.applied]
        return ", ".join(f"{kinds.count(k)} {k}" for k in ("added", "changed", "deleted") if k in kinds) or "no changes"

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Changes":
        found = tuple(map(Change.from_wire, data.get("changes") or ()))
        return cls(data["pid"], data["state"], found, data.get("folder", ""), tuple(data.get("drift") or ()), data.get("bytes", 0), data.get("cut_off", ""), data)


@dataclass(frozen=True)
class Applied:
    """What apply wrote to the folders."""

    pid: int
    folder: str = ""
    added: int = 0
    changed: int = 0
    deleted: int = 0
    bytes: int = 0
    waiting: int = 0  #: how many changes wait because others were named
    left_out: tuple[Change, ...] = ()  #: what is never applied, with the reason
    withheld: tuple[Change, ...] = ()  #: what waits until it is named, with the reason
    hint: str = ""  #: how to look for it where git may have it, since its index or commits were applied

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Applied":
        lists = {name: tuple(map(Change.from_wire, data.get(name) or ())) for name in ("left_out", "withheld")}
        return cls(**{f.name: data[f.name] for f in dataclasses.fields(cls) if f.name in data} | lists)


def path_text(path: str) -> str:
    """A path as the kernel writes it (docs/workspace.md, "Names"); other than it is where it came from bytes that are not
    UTF-8, which ``os.fsdecode`` makes of them: those become ``\\xff``."""
    try:
        path.encode()
        return path
    except UnicodeEncodeError:
        raw = re.sub(rb"\\(?=x(?:5c|[89a-f][0-9a-f]))", rb"\\x5c", os.fsencode(path))
        return raw.decode("utf-8", "backslashreplace")


def file_name(path: PathLike) -> dict[str, str]:
    """The file of a process as the kernel names it: "out/x", "/workspace/out/x", "/volumes/NAME/x"."""
    text = os.fspath(path)
    text = path_text(text) if isinstance(text, str) else text
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidArgument(f"{path!r} is not a file of a workspace", hint="write it as the program sees it: out/report.csv")
    if text.startswith("/volumes/"):
        volume, _, rest = text.removeprefix("/volumes/").partition("/")
        return {"volume": volume, "path": rest}
    return {"path": text.removeprefix("/workspace/")}
