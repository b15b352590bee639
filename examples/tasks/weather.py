"""A server of tools in sixty lines of standard library: the weather, which is made up, of cities, which are not. mcp.json starts it; to see what it has,
from the root of the repository (after make demo):

    ./agentkernel tools list weather --tools examples/tasks/mcp.json

The messages are lines of JSON-RPC (modelcontextprotocol.io, "Transports"). A real server uses one of the MCP SDKs.
"""

import json
import sys

US = ["New York", "Los Angeles", "Chicago", "Houston", "Phoenix", "Philadelphia", "San Antonio", "San Diego", "Dallas", "Jacksonville"]
CELSIUS = dict(zip(US, [21.5, 24.0, 18.5, 31.0, 38.5, 22.0, 33.5, 22.5, 32.0, 29.5]), Paris=17.5)
READS = {"readOnlyHint": True}

TOOLS = [
    {"name": "current", "description": "The weather of a city at this moment.", "annotations": READS,
     "inputSchema": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
     "outputSchema": {"type": "object", "required": ["city", "celsius", "sky"],
                      "properties": {"city": {"type": "string"}, "celsius": {"type": "number"}, "sky": {"type": "string"}}}},
    {"name": "largest_cities", "description": "The cities of a country with most inhabitants, the largest first.", "annotations": READS,
     "inputSchema": {"type": "object", "required": ["country", "count"],
                     "properties": {"country": {"type": "string", "description": "two letters: US"}, "count": {"type": "integer"}}},
     "outputSchema": {"type": "object", "required": ["cities"], "properties": {"cities": {"type": "array", "items": {"type": "string"}}}}},
]


def call(name, arguments):
    if name == "current":
        city = arguments["city"]
        if city not in CELSIUS:
            raise LookupError(f"no station in {city}")
        return {"city": city, "celsius": CELSIUS[city], "sky": "clear" if CELSIUS[city] > 20 else "light rain"}
    if arguments["country"] != "US":
        raise LookupError("there is a list of the US alone")
    return {"cities": US[:arguments["count"]]}


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "weather", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        try:
            value = call(params["name"], params["arguments"])
        except LookupError as e:
            return {"isError": True, "content": [{"type": "text", "text": str(e)}]}
        return {"structuredContent": value, "content": [{"type": "text", "text": json.dumps(value)}]}
    return {} if method == "ping" else None


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue  # a notification
        result = answer(message["method"], message.get("params", {}))
        reply = {"error": {"code": -32601, "message": "there is no such method"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
