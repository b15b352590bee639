"""A first program: agentkernel run hello.py -- Ada

It is ordinary Python. What it does to the world goes through the kernel and through tools, and is written down:
agentkernel trace PID shows it, agentkernel why PID explains it.
"""
import sys

from kernel import log, sleep, state

# The tools of mcp.json are functions; the server starts when one is imported:
# from tools.filesystem import list_directory
# print(list_directory(path="."))

name = sys.argv[1] if len(sys.argv) > 1 else "world"
state.set("greeted", name)  # survives a crash
log("about to greet %s" % name)
sleep(0.1)  # costs nothing: the program may be parked meanwhile
print("hello, %s" % state.get("greeted"))
