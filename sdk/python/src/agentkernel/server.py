"""The kernel as an MCP server: ``python -m agentkernel.server stdio --tools mcp.json``.

The server is `agentkernel mcp`; this module finds the binary and hands over to it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Optional, Sequence, Union

from . import _home
from .errors import InvalidArgument, KernelError, Unsupported
from .spec import PathLike, files

USAGE = """usage: python -m agentkernel.server [stdio | http ADDRESS] [FLAGS of `agentkernel mcp`]

Serves the kernel to an MCP client. The flags go to `agentkernel mcp` as they are: --tools FILE, --allow PATTERN ...
"""


def command(transport: str, arguments: Sequence[str], binary: Optional[PathLike] = None, address: Optional[str] = None) -> list[str]:
    """The command line of the server."""
    path = _home.find_binary(binary)
    if transport == "stdio":
        return [path, "mcp", *arguments]
    if transport not in ("http", "streamable-http"):
        raise InvalidArgument(f"the transport {transport!r} is not known", hint="stdio, or http with an address")
    if not address:
        raise InvalidArgument("the transport http needs an address", hint='address="127.0.0.1:7778"')
    offered = subprocess.run([path, "mcp", "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    if "--http" not in offered:
        raise Unsupported(f"{path} serves MCP over stdio only", hint='transport="stdio"; a newer agentkernel has http')
    return [path, "mcp", "--http", address, *arguments]


def run_server(
    transport: str = "stdio",
    *,
    tools: Union[PathLike, Sequence[PathLike]] = (),
    allow: Union[str, Sequence[str]] = (),
    home: Optional[PathLike] = None,
    binary: Optional[PathLike] = None,
    address: Optional[str] = None,
) -> int:
    """Serves the kernel to one MCP client on standard input and output (or on ``address`` with transport "http") until
    it goes away. Gives the exit code."""
    arguments: list[str] = []
    for file in files(tools):
        arguments += ["--tools", file]
    for pattern in [allow] if isinstance(allow, str) else allow:
        arguments += ["--allow", pattern]
    if home is not None:
        arguments += ["--home", _home.data_directory(home)]
    return subprocess.call(command(transport, arguments, binary, address))


def main(arguments: Sequence[str]) -> int:
    rest = list(arguments)
    if rest[:1] in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    transport = rest.pop(0) if rest and not rest[0].startswith("-") else "stdio"
    address = rest.pop(0) if transport != "stdio" and rest and not rest[0].startswith("-") else None
    try:
        line = command(transport, rest, address=address)
    except KernelError as e:
        print(f"error: {e.message}\nhint: {e.hint}", file=sys.stderr)
        return 2
    sys.stdout.flush()
    os.execv(line[0], line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
