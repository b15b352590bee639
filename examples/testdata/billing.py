# The MCP server of docs/concepts.md: `charge` books an amount, then takes two seconds to answer; `charges` lists what was booked.
import json
import sys
import time

BOOK = sys.argv[1]


def charge(customer, amount):
    with open(BOOK, "a") as f:
        f.write(f"{customer} {amount}\n")
    time.sleep(2)
    return "charged"


def charges(customer):
    try:
        return "".join(line for line in open(BOOK) if line.startswith(customer + " "))
    except FileNotFoundError:
        return ""


CUSTOMER = {"customer": {"type": "string"}}
TOOLS = [
    {"name": "charge", "inputSchema": {"type": "object", "properties": {**CUSTOMER, "amount": {"type": "integer"}}, "required": ["customer", "amount"]}},
    {"name": "charges", "inputSchema": {"type": "object", "properties": CUSTOMER, "required": ["customer"]}, "annotations": {"readOnlyHint": True}},
]

for line in sys.stdin:
    m = json.loads(line)
    method, params = m.get("method"), m.get("params", {})
    if method == "initialize":
        answer = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "billing", "version": "1"}}
    elif method == "tools/list":
        answer = {"tools": TOOLS}
    elif method == "tools/call":
        answer = {"content": [{"type": "text", "text": {"charge": charge, "charges": charges}[params["name"]](**params["arguments"])}]}
    else:
        answer = {}
    if "id" in m:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": answer}), flush=True)
