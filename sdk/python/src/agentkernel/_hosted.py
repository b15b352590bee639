"""The protocol of a program that hosts a process (docs/hosted.md), without any input or output."""

from __future__ import annotations

import json
import os
import traceback
from typing import Any, Mapping, Optional, Union

from ._http import API_VERSION, MAX_BODY, PREFIX, Response
from .errors import InternalError, InvalidArgument, KernelError, Killed, LimitExceeded, ProgramError
from .model import Process
from .spec import Spec
from .values import parse, to_wire

#: The way through the library is no news to its user.
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
#: So many beats without a word, and the other side is gone.
BEATS = 3
BEAT = b"{}\n"
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def spec_of(name: str, key: str, options: Mapping[str, Any]) -> Spec:
    """The Spec of a hosted process."""
    for taken in ("name", "backend", "source", "language", "idempotency_key"):
        if taken in options:
            raise TypeError(f"{taken} is no option of a hosted process; its name is the first argument, its idempotency key is key=")
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"{name!r} is not the name of a process")
    if not isinstance(key, str):
        raise InvalidArgument(f"key={key!r} is not a text")
    return Spec("").with_options(name=name, backend="hosted", idempotency_key=key or None, **options)


def attach(pid: int, epoch: int, takeover: bool) -> bytes:
    """The request that makes a connection that of the host."""
    query = f"?epoch={epoch}" if epoch else "?takeover=true" if takeover else ""
    head = (f"GET {PREFIX}/processes/{pid}/host{query} HTTP/1.1", "Host: agentkernel", f"Agentkernel-Api: {API_VERSION}",
            "Connection: Upgrade", "Upgrade: agentkernel-host")  # fmt: skip
    return ("\r\n".join(head) + "\r\n\r\n").encode()


def call(lane: str, number: int, op: str, args: Mapping[str, Any]) -> bytes:
    """The line of a call."""
    if not isinstance(op, str):
        raise InvalidArgument(f"{op!r} is not an operation", hint='p.call("state.get", key="k"); docs/syscalls.md has all')
    return line({"lane": lane, "n": number, "op": op, "args": to_wire(args)}, op)


def line(data: Any, op: str) -> bytes:
    try:
        text = (_encode(data) + "\n").encode()
    except UnicodeEncodeError:
        raise InvalidArgument("half of a surrogate pair cannot be sent: it is not valid UTF-8", op=op) from None
    if len(text) > MAX_BODY:
        raise LimitExceeded(f"{op} has {len(text) >> 20} MiB; at most {MAX_BODY >> 20} are possible", op=op)
    return text


def ended(result: Any, error: Optional[BaseException]) -> tuple[bytes, Optional[BaseException]]:
    """The line that ends a process, and what it failed with. A result that cannot be sent is a failure."""
    if error is None:
        try:
            return line({"end": {"result": to_wire(result)}}, "the result"), None
        except (KernelError, ValueError, RecursionError) as e:
            error = e
    message = error.message if isinstance(error, KernelError) else str(error)
    trace = traceback.TracebackException.from_exception(error)
    trace.stack = traceback.StackSummary.from_list([f for f in trace.stack if not f.filename.startswith(_HERE)])
    described = {"message": message, "exception": type(error).__name__, "traceback": "".join(trace.format())}
    described = {k: v.encode("utf-8", "backslashreplace").decode() for k, v in described.items()}
    return line({"end": {"error": described}}, "the error"), error


def failure(process: Process) -> Optional[KernelError]:
    """The error of a process that has ended; None if it has ended well."""
    if process.success:
        return None
    error = process.error
    if error is None:
        kind = Killed if process.state == "killed" else ProgramError
        error = kind(f"process {process.pid} has ended: {process.state}, exit code {process.exit_code}")
    error.pid = error.pid or process.pid
    return error


def waiting(process: Process) -> str:
    """Why a call of a process takes long, if there is a reason other than the call itself: "" else."""
    if process.paused:
        return "it is paused: " + (process.pause_note or "by hand")
    return "; ".join(w for w in process.waits_for if ", " in w)


class Reader:
    """Reads what a kernel sends on the connection of a host: the head of an answer, then lines."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._refusal: Optional[Response] = None
        self._upgraded = False

    def feed(self, data: bytes) -> list[Union[dict[str, Any], Response]]:
        """The messages that are complete with these bytes; a Response says that the kernel refuses."""
        if not self._upgraded:
            data = self._head(data)
        if self._refusal is not None:
            self._refusal.feed(data)
            return [self._refusal] if self._refusal.complete else []
        if b"\n" not in data:
            self._buffer += data
            return []
        if self._buffer:
            data = bytes(self._buffer) + data
            self._buffer.clear()
        lines = data.split(b"\n")
        self._buffer += lines.pop()
        return [_message(text) for text in lines if len(text) > 2]

    def _head(self, data: bytes) -> bytes:
        """Takes the head of the answer off; what came behind it is returned."""
        self._buffer += data
        head, end, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        if not end:
            return b""
        self._buffer.clear()
        self._upgraded = True
        if head.split(b" ", 2)[1:2] == [b"101"]:
            return rest
        self._refusal = Response()
        return head + end + rest


def _message(text: bytes) -> dict[str, Any]:
    message = parse(text)
    if not isinstance(message, dict):
        raise InternalError(f"the kernel sent what is no message: {text[:100]!r}")
    return message
