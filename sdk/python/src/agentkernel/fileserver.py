"""An MCP server (stdio) for the files of one folder: what ``workspace_dir`` of an agent starts.

It runs by itself, with the standard library only: ``python fileserver.py FOLDER [MASKED ...]``. Paths lead nowhere but
into the folder: each part is opened without following links. It must never write outside the folder, and never
say what is below a masked path (the kernel's data directory).
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import sys
from typing import Any, Callable

MAX_READ = 48 << 20
VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")


class Refused(Exception):
    """What the caller is told."""


class Folder:
    """File operations below one directory."""

    def __init__(self, root: str, masked: list[str]) -> None:
        self.root = os.path.realpath(root)
        self.masked = [os.path.realpath(m) for m in masked]

    def parts(self, path: str) -> list[str]:
        if "\0" in path:
            raise Refused("a path cannot hold a zero byte")
        if os.path.isabs(path):
            path = os.path.relpath(os.path.normpath(path), self.root)
        parts = [p for p in path.split("/") if p not in ("", ".")]
        if ".." in parts:
            raise Refused(f"{path} leads out of the workspace")
        whole = os.path.join(self.root, *parts)
        if any(whole == m or whole.startswith(m + os.sep) for m in self.masked):
            raise Refused(f"{path} is not part of the workspace")
        return parts

    def directory(self, parts: list[str], path: str, create: bool = False) -> int:
        """Opens a directory, part by part. The caller closes it."""
        handle = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        for part in parts:
            try:
                if create:
                    try:
                        os.mkdir(part, 0o755, dir_fd=handle)
                    except FileExistsError:
                        pass
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            except OSError as e:
                raise _refused(path, e) from None
            finally:
                os.close(handle)
            handle = below
        return handle

    def list(self, path: str = ".") -> str:
        handle = self.directory(self.parts(path), path)
        try:
            entries = sorted(os.scandir(handle), key=lambda e: e.name)
            shown = [e for e in entries if os.path.join(self.root, *self.parts(path), e.name) not in self.masked]
            return "\n".join(("[DIR] " if e.is_dir(follow_symlinks=False) else "[FILE] ") + e.name for e in shown)
        finally:
            os.close(handle)

    def read(self, path: str) -> str:
        parts = self.parts(path)
        if not parts:
            raise Refused(f"{path} is a directory")
        handle = self.directory(parts[:-1], path)
        try:
            file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
        except OSError as e:
            raise _refused(path, e) from None
        finally:
            os.close(handle)
        try:
            info = os.fstat(file)
            if not stat.S_ISREG(info.st_mode):
                raise Refused(f"{path} is not a file")
            if info.st_size > MAX_READ:
                raise Refused(f"{path} has {info.st_size >> 20} MiB; at most {MAX_READ >> 20} can be read")
            with os.fdopen(file, "rb", closefd=False) as f:
                content = f.read(MAX_READ + 1)
        finally:
            os.close(file)
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as e:
            raise Refused(f"{path} is not UTF-8 text: byte {e.start}") from None

    def write(self, path: str, content: str, append: bool = False) -> str:
        parts = self.parts(path)
        if not parts:
            raise Refused(f"{path} is a directory")
        data = content.encode("utf-8")
        handle = self.directory(parts[:-1], path, create=True)
        try:
            if append:
                file = os.open(parts[-1], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644, dir_fd=handle)
                with os.fdopen(file, "ab") as f:
                    f.write(data)
            else:
                self._replace(handle, parts[-1], data)
        except OSError as e:
            raise _refused(path, e) from None
        finally:
            os.close(handle)
        return f"{len(data)} bytes {'added to' if append else 'written to'} {path}"

    def _replace(self, handle: int, name: str, data: bytes) -> None:
        try:
            if not stat.S_ISREG(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
                raise Refused(f"{name} is not a file")
        except FileNotFoundError:
            pass
        temporary = f".{name[:100]}.{secrets.token_hex(6)}"
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=handle)
        try:
            with os.fdopen(file, "wb") as f:
                f.write(data)
            os.replace(temporary, name, src_dir_fd=handle, dst_dir_fd=handle)
        except BaseException:
            os.unlink(temporary, dir_fd=handle)
            raise

    def about(self, path: str) -> dict[str, Any]:
        parts = self.parts(path)
        handle = self.directory(parts[:-1], path)
        try:
            info = os.stat(parts[-1], dir_fd=handle, follow_symlinks=False) if parts else os.fstat(handle)
        except OSError as e:
            raise _refused(path, e) from None
        finally:
            os.close(handle)
        kind = "directory" if stat.S_ISDIR(info.st_mode) else "file" if stat.S_ISREG(info.st_mode) else "other"
        return {"kind": kind, "size": info.st_size, "modified": info.st_mtime}


def _refused(path: str, e: OSError) -> Refused:
    if e.errno in (errno.ELOOP, errno.ENOTDIR):
        return Refused(f"{path}: a part of it is a link or no directory; links are not followed")
    return Refused(f"{path}: {os.strerror(e.errno) if e.errno else e}")


def _schema(**properties: dict[str, Any]) -> dict[str, Any]:
    required = [n for n, p in properties.items() if "default" not in p]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_PATH = {"type": "string", "description": "relative to the workspace"}


def tools(folder: Folder) -> list[tuple[dict[str, Any], Callable[..., Any]]]:
    """The tools: what is announced, and the function behind it."""
    read = {"readOnlyHint": True}
    return [
        ({"name": "list_directory", "description": "Lists a directory of the workspace: a line \"[FILE] name\" or \"[DIR] name\" for each entry.",
          "inputSchema": _schema(path={**_PATH, "default": "."}), "annotations": read}, folder.list),
        ({"name": "read_text_file", "description": "Reads a text file (UTF-8) of the workspace.",
          "inputSchema": _schema(path=_PATH), "annotations": read}, folder.read),
        ({"name": "file_info", "description": "Kind, size in bytes and time of change of a file or directory of the workspace.",
          "inputSchema": _schema(path=_PATH), "annotations": read,
          "outputSchema": {"type": "object", "properties": {"kind": {"type": "string"}, "size": {"type": "integer"}, "modified": {"type": "number"}}}}, folder.about),
        ({"name": "write_text_file", "description": "Writes a text file of the workspace, whole; directories on the way are made.",
          "inputSchema": _schema(path=_PATH, content={"type": "string"}), "annotations": {"idempotentHint": True, "destructiveHint": True}},
         lambda path, content: folder.write(path, content)),
        ({"name": "append_text_file", "description": "Adds text to the end of a file of the workspace.",
          "inputSchema": _schema(path=_PATH, content={"type": "string"}), "annotations": {"destructiveHint": False}},
         lambda path, content: folder.write(path, content, True)),
    ]  # fmt: skip


def answer(request: dict[str, Any], table: dict[str, tuple[dict[str, Any], Callable[..., Any]]]) -> dict[str, Any]:
    """The result of a request; LookupError for a method that is not known."""
    method, params = request.get("method"), request.get("params") or {}
    if method == "initialize":
        wanted = params.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "agentkernel-workspace", "version": "1"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [t for t, _ in table.values()]}
    if method != "tools/call":
        raise LookupError(method)
    try:
        if params.get("name") not in table:
            raise Refused(f"there is no tool {params.get('name')!r}")
        value = table[params["name"]][1](**(params.get("arguments") or {}))
    except (Refused, TypeError, OSError, UnicodeError) as e:
        return {"content": [{"type": "text", "text": str(e)}], "isError": True}
    if isinstance(value, str):
        return {"content": [{"type": "text", "text": value}]}
    return {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}


def main(arguments: list[str]) -> int:
    if not arguments or not os.path.isdir(arguments[0]):
        print(f"usage: fileserver.py FOLDER [MASKED ...]; {arguments[:1]} is no folder", file=sys.stderr)
        return 2
    table = {t["name"]: (t, f) for t, f in tools(Folder(arguments[0], arguments[1:]))}
    for line in sys.stdin.buffer:
        try:
            request = json.loads(line)
        except ValueError:
            continue
        if not isinstance(request, dict) or "id" not in request or "method" not in request:
            continue  # a notification, or an answer to nothing that was asked
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            reply["result"] = answer(request, table)
        except LookupError:
            reply["error"] = {"code": -32601, "message": f"there is no method {request['method']}"}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
