# Hello, tools: an MCP server's tool is a function. Run it from the root of the repository (after make demo):
#
#     ./agentkernel run examples/hello_tools.py --tools examples/mcp.json
#
# Arguments are checked before they are sent, defaults are the tool's own, and help(get_sum) shows what the model
# would read. Tools that change nothing run freely; others need --allow.
from tools.everything import echo, get_sum
from tools.filesystem import list_allowed_directories

print(echo(message="hello"))
print(get_sum(a=40, b=2))
print(len(list_allowed_directories().splitlines()) - 1, "folder may be read")

try:
    get_sum(a="forty", b=2)
except Exception as e:  # nothing was sent
    print(str(e).split(",")[0])
