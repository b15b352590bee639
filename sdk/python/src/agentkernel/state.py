"""State that outlives programs: a file of JSON, changed key by key and replaced in one step."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional

from .errors import Corrupt, InternalError, InvalidArgument, StorageFailed
from .values import canonical, from_wire, parse, source, to_wire

#: The module that brings the state into a program; it is imported before the program's first statement.
MODULE = "skills.agentkernel_state"


def wire_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a state in the kernel's form."""
    for key in values:
        if not isinstance(key, str):
            raise InvalidArgument(f"the state has the key {key!r}; keys are texts")
    return {k: to_wire(v) for k, v in values.items()}


class StateFile:
    """A dictionary with a file behind it. Several agents, threads and interpreters may share the file: each writes
    the keys that it changed, and takes over those that others changed. Values are those of docs/values.md."""

    def __init__(self, path: "str | os.PathLike[str] | None") -> None:
        self.path = Path(path).expanduser().absolute() if path is not None else None
        self.values: dict[str, Any] = {}
        self._synced: dict[str, str] = {}  # canonical texts of what the file held
        if self.path is not None:
            self._take(self._read())

    def snapshot(self) -> dict[str, Any]:
        """The values in the kernel's form."""
        return wire_of(self.values)

    def module(self, snapshot: Mapping[str, Any]) -> str:
        """The source of the module that sets these values in a program."""
        lines = ["import datetime", "from pathlib import Path", "", "from kernel import state", ""]
        lines += [f"state.set({key!r}, {source(from_wire(value))})" for key, value in snapshot.items()]
        return "\n".join(lines) + "\n"

    def merge(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Takes over what a program changed: ``before`` is what it was given, ``after`` its working set."""
        for key, value in after.items():
            if key not in before or canonical(before[key]) != canonical(value):
                self.values[key] = from_wire(value)
        for key in before:
            if key not in after:
                self.values.pop(key, None)

    def save(self) -> None:
        """Brings file and values together: what was changed here since the last time is written, what was changed
        in the file is taken over."""
        if self.path is None:
            raise InvalidArgument("the state has no file", hint="create_agent(state_enabled=True, state_file=...)")
        mine = self.snapshot()
        with self._locked(self.path) as path:
            stored = self._read()
            merged = dict(stored)
            for key, value in mine.items():
                if self._synced.get(key) != canonical(value):
                    merged[key] = value
            for key in self._synced:
                if key not in mine:
                    merged.pop(key, None)
            if merged != stored or not path.exists():
                _replace(path, json.dumps(merged, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
            self._take(merged)

    def _take(self, wire: Mapping[str, Any]) -> None:
        self._synced = {k: canonical(v) for k, v in wire.items()}
        fresh = {k: from_wire(v) for k, v in wire.items()}
        self.values.clear()
        self.values.update(fresh)

    def _read(self) -> dict[str, Any]:
        assert self.path is not None
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as e:
            raise StorageFailed(f"the state file {self.path} cannot be read: {e.strerror}") from None
        if not text.strip():
            return {}
        try:
            data = parse(text)
        except InternalError:
            data = None
        if not isinstance(data, dict):
            raise Corrupt(f"the state file {self.path} is not a JSON object", hint="mend it or move it away; it was left as it is")
        return data

    @staticmethod
    @contextlib.contextmanager
    def _locked(path: Path) -> Iterator[Path]:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as e:
            raise StorageFailed(f"the state file {path} cannot be written: {e.strerror}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield path
        finally:
            os.close(handle)


def _replace(path: Path, text: str) -> None:
    """Writes a file so that readers see the old one or the new one, and a crash leaves one of them."""
    temporary: Optional[str] = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
        temporary = None
    except OSError as e:
        raise StorageFailed(f"the state file {path} cannot be written: {e.strerror}") from None
    finally:
        if temporary is not None:
            os.unlink(temporary)
