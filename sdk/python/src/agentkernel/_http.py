"""HTTP/1.1 and Server-Sent Events without any input or output: bytes in, messages out. Both clients use it."""

from __future__ import annotations

import json
from typing import Any, Mapping, Optional
from urllib.parse import urlencode

from .errors import InvalidArgument, LimitExceeded, Unavailable

API_VERSION = 1
PREFIX = "/api/v1"
MAX_BODY = 64 << 20
MAX_EVENT = 64 << 20
_MAX_HEAD = 256 << 10


def compose(method: str, path: str, query: Optional[Mapping[str, Any]], body: Any) -> bytes:
    """A request for a connection of its own."""
    pairs = [(k, v) for k, v in (query or {}).items() if v not in (None, "", 0, [])]
    if pairs:
        path += "?" + urlencode([(k, "true" if v is True else v) for k, v in pairs if v is not False], doseq=True)
    head = [f"{method} {PREFIX}{path} HTTP/1.1", "Host: agentkernel", f"Agentkernel-Api: {API_VERSION}", "Connection: close"]
    content = b""
    if body is not None:
        try:
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:
            raise InvalidArgument("the request is not valid UTF-8: it holds half of a surrogate pair") from None
        if len(content) > MAX_BODY:
            raise LimitExceeded(
                f"the request has {len(content) >> 20} MiB; at most {MAX_BODY >> 20} are possible",
                hint="read large data inside the program, from a file or a tool",
            )
        head += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return ("\r\n".join(head) + "\r\n\r\n").encode() + content


class Response:
    """Reads one response. Feed it what the socket brings; ``take`` gives the body so far."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.complete = False
        self._buffer = bytearray()
        self._body = bytearray()
        self._left: Optional[int] = None  # bytes of the body, or of the present chunk
        self._chunked = False
        self._trailer = False

    def feed(self, data: bytes) -> None:
        """Takes bytes; empty ones are the end of the connection."""
        if not data:
            self._ended()
            return
        self._buffer += data
        if not self.status and not self._head():
            return
        if self._chunked:
            self._chunks()
        else:
            self._plain()

    def take(self) -> bytes:
        """What has come of the body since the last time."""
        out = bytes(self._body)
        self._body.clear()
        return out

    def _ended(self) -> None:
        if self.status and not self._chunked and self._left is None:
            self.complete = True  # a body that ends with its connection

    def _head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_HEAD:
                raise Unavailable("what listens on the socket is not a kernel: it sends no end of its headers")
            return False
        lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        parts = lines[0].split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdigit():
            raise Unavailable("what listens on the socket is not a kernel: it does not speak HTTP")
        status = int(parts[1])
        if 100 <= status < 200:
            return self._head()
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.status = status
        self._chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        if status in (204, 304):
            self._left = 0
        elif not self._chunked and "content-length" in self.headers:
            self._left = int(self.headers["content-length"])
        return True

    def _plain(self) -> None:
        if self._left is None:
            self._body += self._buffer
            self._buffer.clear()
            return
        part = self._buffer[: self._left]
        del self._buffer[: self._left]
        self._body += part
        self._left -= len(part)
        self.complete = self._left == 0

    def _chunks(self) -> None:
        while not self.complete:
            if self._left is None:
                line = self._line()
                if line is None:
                    return
                if self._trailer:
                    self.complete = line == b""
                    continue
                try:
                    self._left = int(line.split(b";")[0], 16)
                except ValueError:
                    raise Unavailable("what listens on the socket is not a kernel: its answer is garbled") from None
                if self._left == 0:
                    self._trailer, self._left = True, None
                continue
            if len(self._buffer) < self._left + 2:
                take = min(len(self._buffer), self._left)
                self._body += self._buffer[:take]
                del self._buffer[:take]
                self._left -= take
                if self._left or len(self._buffer) < 2:
                    return
            self._body += self._buffer[: self._left]
            del self._buffer[: self._left + 2]
            self._left = None

    def _line(self) -> Optional[bytes]:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line


class Frames:
    """Reads Server-Sent Events: "field: value" lines, an empty line ends an event, ":" begins a comment."""

    def __init__(self, most: int = MAX_EVENT) -> None:
        self._buffer = bytearray()
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0
        self._most = most

    def feed(self, data: bytes) -> list[tuple[str, str]]:
        """The events (name, data) that are complete with these bytes."""
        start = len(self._buffer)
        self._buffer += data
        out: list[tuple[str, str]] = []
        done = 0
        while (end := self._buffer.find(b"\n", max(start, done))) >= 0:
            line = bytes(self._buffer[done:end]).removesuffix(b"\r")
            done = start = end + 1
            if not line:
                if self._data:
                    out.append((self._name, b"\n".join(self._data).decode()))
                self._name, self._data, self._size = "", [], 0
                continue
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"event":
                self._name = value.decode()
            elif name == b"data":
                self._data.append(value)
                self._size += len(value)
        del self._buffer[:done]
        if self._size + len(self._buffer) > self._most:
            raise LimitExceeded(f"an event is larger than {self._most} bytes", hint="read the process's journal instead: trace(pid)")
        return out
