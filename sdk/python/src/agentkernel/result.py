"""What running something gives. :mod:`agentkernel.aio` has the same with ``await``."""

from __future__ import annotations

from pathlib import Path
from typing import Optional, Sequence, Union

from . import _files, _sync
from ._result import Outcome
from .changes import Applied, Change, Changes
from .spec import PathLike


class Result(Outcome):
    """The outcome of a program or task. It unpacks to three: ``ok, output, error = result``.

    If the program worked in a folder, ``changes`` says what it did there, and the verbs below look at it, keep it or throw
    it away."""

    def diff(self) -> Changes:
        """What it did to the files of its workspace and volumes, and where the folder has changed meanwhile."""
        return _sync.run(_files.changes(*self.files_of()))

    def patch(self) -> str:
        """The same as a unified diff, as ``patch`` reads it."""
        return _sync.run(_files.patch(*self.files_of()))

    def apply(self, paths: Union[str, Sequence[str]] = (), *, force: bool = False) -> Applied:
        """Writes the changes to the folder, each file in one step: all, or those at ``paths``. Raises Conflict, and writes
        nothing, if the folder has changed at such a place since the program began; ``force`` replaces."""
        return _sync.run(_files.apply(*self.files_of(), paths, force))

    def discard(self) -> None:
        """Throws the changes away for good."""
        return _sync.run(_files.discard(*self.files_of()))

    def artifacts(self) -> list[Change]:
        """The files that it made or changed, with size and type."""
        return _sync.run(_files.artifacts(*self.files_of()))

    def get_file(self, path: PathLike, *, before: bool = False) -> bytes:
        """One file as the program left it ("out/report.csv"), or as it was ``before``."""
        return _sync.run(_files.read(*self.files_of(), path, before))

    def save_file(self, path: PathLike, to: Optional[PathLike] = None, *, before: bool = False) -> Path:
        """Copies one file out, however large, to a path or into a folder (default: here), and gives its path."""
        return _sync.run(_files.save(*self.files_of(), path, to, before))
