"""Serves functions of this program to the kernel: an MCP server over HTTP, for this machine and for whoever has its token alone.

The kernel finds it as it finds any server: in a tools file. The file and the token lie in a numbered folder of the data directory, which
programs never see, and which one server at a time holds; so there are as many folders as there were ever servers at one time.
"""

from __future__ import annotations

import asyncio
import fcntl
import hmac
import inspect
import json
import logging
import os
import secrets
import socket
import threading
import time
import weakref
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Mapping, Optional, Union

from ._schema import Unreadable, plain
from .errors import Unavailable
from .functions import Function

log = logging.getLogger("agentkernel")

#: The server as programs import it: ``from tools.host import name``.
NAME = "host"

_PROTOCOL = "2025-11-25"
_MOST = 64 << 20  # bytes of one request
_IDLE = 60.0  # seconds until a connection on which nothing comes is closed
_STRANGERS = 32  # connections of which nobody knows yet whether they have the token
_TOKEN = 5.0  # seconds within which they show it; the kernel does so at once


#: Those that have ever listened, for a fork.
_listening: "weakref.WeakSet[FunctionServer]" = weakref.WeakSet()


def _forked() -> None:
    for server in list(_listening):
        server.forked()


os.register_at_fork(after_in_child=_forked)


class FunctionServer:
    """Answers calls of functions from :meth:`start` until :meth:`close`."""

    def __init__(self, functions: Mapping[str, Function], home: str) -> None:
        self.functions = functions
        self.home = home
        self.loop: Optional[asyncio.AbstractEventLoop] = None  #: that of the asyncio face, where async functions run; None: one of our own
        self.token = secrets.token_urlsafe(32)
        self._lock = threading.RLock()  # an agent that is not closed is when it is collected, which may be in the middle of anything
        self._own: Optional[asyncio.AbstractEventLoop] = None
        self._http: Optional[_Server] = None
        self._folder: Optional[_Folder] = None
        self._thread: Optional[threading.Thread] = None
        self._started = 0  # the os process that listens: after a fork the child does not
        self._closed = False

    @property
    def host(self) -> str:
        """Where it listens, as the kernel names it in its requests."""
        assert self._http is not None
        return "127.0.0.1:%d" % self._http.server_address[1]

    def listens(self) -> bool:
        return self._started == os.getpid()

    def start(self) -> str:
        """Listens, unless it does already, and gives the path of the tools file."""
        with self._lock:
            if self._closed:
                raise Unavailable("the agent is closed: its functions can be called no more", hint="create_agent(functions=...) makes another")
            if not self.listens():
                self._own, self._folder, self._http = None, None, _Server(self)
                try:
                    self._folder = _Folder.take(self.home)
                    self._folder.write(self._tools_file())
                except OSError as e:
                    self._http.server_close()
                    if self._folder is not None:
                        self._folder.leave()
                    raise Unavailable(f"the functions cannot be served: {e.strerror} ({e.filename})", hint="the data directory has to be writable: home=") from None
                self._started = os.getpid()
                self._thread = threading.Thread(target=self._http.run, name="agentkernel-functions", daemon=True)
                self._thread.start()
                _listening.add(self)
            assert self._folder is not None
            return str(self._folder.file)

    def close(self) -> None:
        """Stops listening. Calls under way lose their caller. Again, or where it never listened, it does nothing."""
        with self._lock:
            begun, self._closed = self.listens() and not self._closed, True
        if not begun:
            return
        assert self._http is not None and self._folder is not None and self._thread is not None
        self._http.stop()
        if self._thread is not threading.current_thread():
            self._thread.join(5)
        self._folder.leave()
        if self._own is not None:
            self._own.call_soon_threadsafe(self._own.stop)

    def forked(self) -> None:
        """In the child of a fork: what listens is the parent's, and would seem to be there when the parent has ended."""
        if self._http is not None and self._folder is not None:
            self._http.abandon()
            self._folder.leave()
            self._http = self._folder = None

    def _tools_file(self) -> str:
        entry = {
            "url": f"http://{self.host}/mcp",
            "headers": {"Authorization": f"Bearer {self.token}"},
            "cost_usd": 0,
            "timeout": "24h",  # the limits of the process say how long a call may take
            "program": os.getpid(),
        }
        return json.dumps({"mcpServers": {NAME: entry}}, indent=2) + "\n"

    # Calls

    def answer(self, message: Any) -> Optional[dict[str, Any]]:
        """The answer to one message of MCP; None: it is a notification, and wants none."""
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return _error(None, -32600, "this is no request")
        if "id" not in message:
            return None
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        method, number = message["method"], message["id"]
        if method == "initialize":
            return _result(number, {"protocolVersion": _PROTOCOL, "capabilities": {"tools": {}}, "serverInfo": {"name": NAME, "version": "1"}})
        if method == "ping":
            return _result(number, {})
        if method == "tools/list":
            return _result(number, {"tools": [f.tool() for f in self.functions.values()]})
        if method != "tools/call":
            return _error(number, -32601, f"there is no method {method[:100]}")
        function = self.functions.get(str(params.get("name")))
        if function is None:
            return _error(number, -32602, "there is no function of this name")
        return _result(number, self._call(function, params.get("arguments", {})))

    def _call(self, function: Function, arguments: Any) -> dict[str, Any]:
        """The result of a call. What the function raises is told with its class and its words; the way through this program is not, which its log has."""
        try:
            given = function.arguments(arguments)
        except Unreadable as e:
            return _failed(f"{function.name}() was not called: {e}")
        except BaseException as e:  # a dataclass of the program that takes no such values, say
            log.info("the arguments of a call of %s() were not accepted", function.name, exc_info=True)
            return _failed(f"{function.name}() was not called: {_words(e)}")
        try:
            value = function.call(**given)
            if inspect.isawaitable(value):
                value = self._wait(value)
        except BaseException as e:  # whatever it raises, it has run, and the kernel has to be told
            log.info("the function %s() raised an exception in a call of a program", function.name, exc_info=True)
            return _failed(_words(e))
        try:
            return {"content": [], "structuredContent": {"result": plain(value)}}
        except BaseException as e:  # a dataclass of the program may compute its fields
            says = e if isinstance(e, Unreadable) else "it is nested too deeply" if isinstance(e, RecursionError) else _words(e)
            return _failed(f"{function.name}() has run, and its result cannot be given to a program: {says}")

    def _wait(self, value: Any) -> Any:
        """Runs what an async function returned to its end."""

        async def whole() -> "tuple[Any, Optional[BaseException]]":
            try:
                return await value, None
            except (GeneratorExit, KeyboardInterrupt, SystemExit) as e:  # they would end the loop, with all else that runs in it
                return None, e

        running = whole()
        try:
            result, raised = asyncio.run_coroutine_threadsafe(running, self._loop()).result()
        except RuntimeError:
            for coroutine in (running, value):  # the loop was closed before they ran; else they have, and this does nothing
                getattr(coroutine, "close", lambda: None)()
            raise
        if raised is not None:
            raise raised
        return result

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self.loop is not None and not self.loop.is_closed():
            return self.loop
        with self._lock:
            if self._own is None:
                self._own = loop = asyncio.new_event_loop()
                threading.Thread(target=_run_loop, args=(loop,), name="agentkernel-functions-asyncio", daemon=True).start()
            return self._own


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Runs a loop until it is stopped; what still runs in it then is cancelled."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    finally:
        loop.close()


def _words(error: BaseException) -> str:
    """What an exception says, without the paths that the system's errors name: some have them in their words alone."""
    name = type(error).__name__
    try:
        text = error.strerror or "" if isinstance(error, OSError) and error.filename is not None else str(error)
    except Exception:  # it is the program's own class
        text = ""
    if isinstance(error, OSError) and os.sep in text:
        text = ""
    return f"{name}: {text}" if text else name


def _encoded(answer: dict[str, Any]) -> bytes:
    """An answer as it is sent. Python writes no whole number of thousands of digits."""
    try:
        return json.dumps(answer, allow_nan=False).encode()
    except (ValueError, RecursionError):
        says = "the function has run, and its result cannot be given to a program: a number in it has more digits than Python writes"
        return json.dumps(_result(answer["id"], _failed(says))).encode()


def _failed(text: str) -> dict[str, Any]:
    return {"isError": True, "content": [{"type": "text", "text": text}]}


def _result(number: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _error(number: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


class _Server(ThreadingHTTPServer):
    """Listens on a port of this machine that the system chooses."""

    daemon_threads = True
    allow_reuse_address = False
    request_queue_size = 128

    def __init__(self, functions: FunctionServer) -> None:
        self.functions = functions
        self._ending = False
        self._open: set[socket.socket] = set()
        self._dropped: set[socket.socket] = set()
        self._strangers: dict[socket.socket, float] = {}  # the oldest first, with the moment until which they have to show the token
        self._guard = threading.RLock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        # That of HTTPServer looks up the machine's name, which may take seconds.
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def run(self) -> None:
        """Takes connections until :meth:`stop`."""
        try:
            while not self._ending:
                self.handle_request()
        finally:
            self.server_close()

    def stop(self) -> None:
        """Takes no more connections, and cuts those that are open."""
        with self._guard:
            self._ending = True
            for connection in self._open:
                _cut(connection)
        try:
            socket.create_connection(self.server_address[:2], 1).close()  # wakes run
        except OSError:
            pass  # it has ended

    def abandon(self) -> None:
        """In the child of a fork: lets go of what is the parent's, which it goes on using."""
        for inherited in (self.socket, *self._open):
            inherited.close()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            if not self._ending:
                self._open.add(request)
                self._strangers[request] = time.monotonic() + _TOKEN
                self._cut_strangers()
                return super().process_request(request, client_address)
        self.shutdown_request(request)

    @property
    def timeout(self) -> Optional[float]:  # type: ignore[override]
        """How long is waited for a connection until somebody looks after those that are there."""
        return 1.0 if self._strangers else None

    def handle_timeout(self) -> None:
        with self._guard:
            self._cut_strangers()

    def _cut_strangers(self) -> None:
        """Cuts connections that have not shown the token in time, and the oldest where there are too many: any user of the machine can open
        them, and each has a thread here. The guard is held."""
        now = time.monotonic()
        late = [connection for connection, until in self._strangers.items() if until <= now]
        left = [connection for connection, until in self._strangers.items() if until > now]
        for connection in late + left[: max(0, len(left) - _STRANGERS)]:
            del self._strangers[connection]
            self._dropped.add(connection)
            _cut(connection)

    def known(self, connection: socket.socket) -> bool:
        """A connection has shown the token. False: it was cut before that, and nobody would hear an answer."""
        with self._guard:
            self._strangers.pop(connection, None)
            return connection not in self._dropped

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
            self._dropped.discard(request)
            self._strangers.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a connection to the functions of this program broke off", exc_info=True)


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # its other end was faster


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer leaves in one piece
    timeout = _IDLE
    server: _Server

    def do_POST(self) -> None:
        if not self._admitted():
            return
        size = self.headers.get("Content-Length", "")
        if not size.isascii() or not size.isdigit() or int(size) > _MOST:
            return self._refuse(413 if size.isdigit() else 411, "a request says how long it is, and is no longer than 64 MiB")
        body = self.rfile.read(int(size))
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            return self._refuse(400, "the request is not JSON")
        answer = self.server.functions.answer(message)
        if answer is None:
            return self._send(202, b"")
        self._send(200, _encoded(answer))

    def _other(self) -> None:
        """There is no stream of events, and there are no sessions to end."""
        if self._admitted():
            self._refuse(405, "requests are sent with POST")

    do_GET = do_DELETE = do_HEAD = do_PUT = do_OPTIONS = do_PATCH = _other

    def _admitted(self) -> bool:
        """Whether the request is from the kernel. A page in a browser cannot send one: it has no token, names its origin, and where it
        reaches this machine by a name of its own it names that as the host."""
        functions = self.server.functions
        if self.headers.get("Host") != functions.host or self.headers.get("Origin") is not None:
            self._refuse(403, "requests of browsers are refused")
            return False
        given = (self.headers.get("Authorization") or "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, f"Bearer {functions.token}".encode()):
            self._refuse(401, "the token is missing or wrong")
            return False
        if not self.server.known(self.connection):
            self.close_connection = True
            return False
        if self.path != "/mcp":
            self._refuse(404, "there is nothing here")
            return False
        return True

    def _refuse(self, status: int, why: str) -> None:
        self._send(status, (json.dumps({"error": why}) + "\n").encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response_only(status)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """The standard library would write each request to standard error."""

    def parse_request(self) -> bool:
        """Takes one request of each connection: one that is kept could be used for a write just when the agent is closed, and whether it was sent would not be known."""
        parsed = super().parse_request()
        self.close_connection = True
        return parsed


class _Folder:
    """A numbered folder of the data directory that holds a tools file, and that one server at a time has."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path, self.file = path, path / "tools.json"
        self._lock = lock

    @classmethod
    def take(cls, home: Union[str, Path]) -> "_Folder":
        """The first folder that nobody has. The kernel remembers what it has seen of each tools file, so that names are used again."""
        place = Path(home) / NAME
        number = 0
        while True:
            number += 1
            path = place / str(number)
            for folder in (place, path):
                folder.mkdir(0o700, exist_ok=True)
                folder.chmod(0o700)
            lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return cls(path, lock)
            except BlockingIOError:
                os.close(lock)
            except BaseException:
                os.close(lock)
                raise

    def write(self, text: str) -> None:
        """Replaces the file in one step; nobody else can read it at any moment."""
        new = self.path / "tools.json.new"
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as f:
            f.write(text)
        new.replace(self.file)

    def leave(self) -> None:
        """Gives the folder back. The file stays: with it the kernel knows what a process asks for that still wants the functions."""
        os.close(self._lock)
