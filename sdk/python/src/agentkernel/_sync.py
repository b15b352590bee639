"""Performs steps with blocking sockets."""

from __future__ import annotations

import os
import socket
import struct
import time
from types import TracebackType
from typing import Any, Iterator, Optional, TypeVar

from . import _steps
from ._steps import Steps
from .errors import KernelError, PermissionDenied

T = TypeVar("T")


def check_peer(sock: Any, path: str) -> None:
    """Refuses a socket that belongs to somebody else: in a shared directory it might be a trap. A kernel that was killed
    while it started a program leaves a child that holds its socket open for a moment: nobody listens there any more.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return  # macOS: the directory's owner was checked
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    me = os.geteuid()
    if uid not in (me, 0) and me != 0:
        raise PermissionDenied(f"the kernel on {path} belongs to user {uid}", hint="choose a data directory of your own: home=")
    if pid > 0 and _dead(pid):  # 0: it is outside of our PID namespace
        raise _steps.NobodyListens(f"the kernel that listened there, os process {pid}, is dead")


def _dead(pid: int) -> bool:
    """Whether a process has ended; one that its parent has not asked for yet has."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] in ("Z", "X")
    except FileNotFoundError:
        return os.path.exists("/proc/self/stat")
    except (OSError, IndexError):
        return False  # nobody says so


def refused(error: OSError, path: str) -> Exception:
    """What a failed connect means."""
    if isinstance(error, PermissionError):
        return PermissionDenied(f"the kernel's socket {path} may not be used", hint="run as the user who owns the data directory")
    return _steps.NobodyListens(str(error))


class Run:
    """One run of steps, with the connections that it opened."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        for sock in self._open:
            sock.close()

    def perform(self, step: Any) -> Any:
        if isinstance(step, _steps.Receive):
            return self._receive(step)
        if isinstance(step, _steps.Send):
            try:
                return step.handle.sendall(step.data)
            except OSError as e:
                raise _steps.ConnectionCut(str(e)) from None
        if isinstance(step, _steps.Connect):
            return self._connect(step.path)
        if isinstance(step, _steps.Close):
            step.handle.close()
            self._open.remove(step.handle)
            return None
        if isinstance(step, _steps.Call):
            return step.function()
        if isinstance(step, _steps.Notify):
            return step.callback(step.value)
        if isinstance(step, _steps.Loop):
            return None
        time.sleep(step.seconds)
        return None

    def _connect(self, path: str) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(path)
            check_peer(sock, path)
        except (KernelError, _steps.NobodyListens):
            sock.close()
            raise
        except OSError as e:
            sock.close()
            raise refused(e, path) from None
        self._open.append(sock)
        return sock

    def _receive(self, step: _steps.Receive) -> bytes:
        sock: socket.socket = step.handle
        sock.settimeout(step.timeout)
        try:
            return sock.recv(1 << 18)
        except TimeoutError:
            raise
        except OSError as e:
            raise _steps.ConnectionCut(str(e)) from None


def run(steps: Steps[T]) -> T:
    """Performs steps to the end and gives what they return."""
    items = _Iteration(steps)
    try:
        for _ in items:
            pass
    except KernelError as e:
        raise e.with_traceback(None) from None  # the way through the library is no news to its user
    result: T = items.result
    return result


def iterate(steps: Steps[Any]) -> Iterator[Any]:
    """Gives what the steps emit."""
    return iter(_Iteration(steps))


class _Iteration:
    def __init__(self, steps: Steps[Any]) -> None:
        self._steps = steps
        self.result: Any = None

    def __iter__(self) -> Iterator[Any]:
        with Run() as r:
            answer: Any = None
            failure: Optional[BaseException] = None
            while True:
                try:
                    step = self._steps.send(answer) if failure is None else self._steps.throw(failure)
                except StopIteration as end:
                    self.result = end.value
                    return
                answer, failure = None, None
                if isinstance(step, _steps.Emit):
                    yield step.value
                    continue
                try:
                    answer = r.perform(step)
                except (Exception, KeyboardInterrupt) as e:
                    failure = e
