"""A client of `agentkernel mcp` in fifty lines of standard library: what a program of your own needs to talk MCP over stdio.

The messages are lines of JSON-RPC (modelcontextprotocol.io, "Transports"). A real application uses one of the MCP SDKs; this
shows that there is nothing behind the curtain.
"""

import json
import os
import subprocess


class ToolFailed(Exception):
    """The tool answered, and its answer is an error."""


class Client:
    def __init__(self, *flags: str) -> None:
        command = [os.environ.get("AGENTKERNEL_COMMAND", "./agentkernel"), "mcp", *flags]
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        self.last = 0
        self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "example", "version": "1"}})
        self.send({"method": "notifications/initialized"})

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stdin.close()  # the server ends when its client goes
        self.server.wait()
        self.server.stdout.close()

    def send(self, message: dict) -> None:
        self.server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.server.stdin.flush()

    def request(self, method: str, params: dict) -> dict:
        self.last += 1
        self.send({"id": self.last, "method": method, "params": params})
        for line in self.server.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.last and "method" not in answer:
                if "error" in answer:
                    raise RuntimeError(answer["error"]["message"])
                return answer["result"]
        raise RuntimeError("the server has ended")

    def call(self, tool: str, **arguments: object) -> dict:
        """The structured answer of a tool, with its text for a model under "text"."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        text = "".join(part.get("text", "") for part in result["content"])
        if result.get("isError"):
            raise ToolFailed(text)
        return {"text": text, **result.get("structuredContent", {})}
