#!/bin/sh
# From a machine that has nothing but Go to the main example. Says what it does; installs system packages only
# where Node is missing (scripts/deps.sh), and everything else below this directory and the data directory.
set -eu
cd "$(dirname "$0")/.."

step() { printf '\n==> %s\n' "$*" >&2; }
show() { printf '\n$ %s\n' "$*" >&2; "$@"; }

step "what is needed: Go, and Node with npm for the engine and the example MCP servers"
scripts/deps.sh go node
step "building ./agentkernel"
make --no-print-directory build
step "installing the engine, once for all data directories"
show ./agentkernel setup
step "the example MCP servers and 50,000 sales"
make --no-print-directory mcp data
printf 'MCP servers: %s\nsales: %s lines in examples/data/sales.csv\n' \
	".cache/mcp" "$(wc -l <examples/data/sales.csv)" >&2

step "the main example: a program with the tools of an MCP server"
show ./agentkernel run examples/sales_report.py --tools examples/mcp.json

step "what it did, call by call"
pid=$(./agentkernel ps --all --limit 1 --json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -n 1)
show ./agentkernel trace "$pid"
step "a line of Python"
printf '\n$ ./agentkernel run -c "print(6*7)"\n' >&2
./agentkernel run -c 'print(6*7)'
step "the processes so far"
show ./agentkernel ps --all --limit 5
step "ending the kernel that ran in the background; the next command starts one"
show ./agentkernel shutdown
cat >&2 <<'END'

More to try:
  ./agentkernel tools list --tools examples/mcp.json
  ./agentkernel run examples/parallel.py --tools examples/mcp.json
  ./agentkernel run examples/children.py
  ./agentkernel doctor
docs/getting-started.md goes on from here.
END
