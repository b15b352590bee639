"""Search, then act: the model knows two tools, finds the functions that it needs by what it wants to do, and writes one
program. From the root of the repository (after make demo and make data):

    python3 examples/mcp/search_then_act.py

The searches bring signatures, not whole schemas; the program's loop runs in the sandbox.
"""

from client import Client

with Client("--minimal", "--tools", "examples/mcp.json", "--allow", "filesystem.write_file") as agent:
    for wish in ("list the files of a folder", "read a text file", "write a file"):
        found = agent.call("search_tools", query=wish, detail_level="full", max_results=3)
        names = [tool["signature"].split("(")[0] for tool in found["tools"]]
        print(f"{wish}: {', '.join(names)}")

    done = agent.call("execute_code", code="""
from tools.filesystem import list_directory, read_text_file, write_file

sizes = {}
for line in list_directory(".").splitlines():
    if line.endswith(".csv"):
        name = line.removeprefix("[FILE] ")
        sizes[name] = len(read_text_file(name).splitlines()) - 1
write_file("index.txt", "\\n".join([f"{n}: {sizes[n]:,} rows" for n in sorted(sizes)]) + "\\n")
print(read_text_file("index.txt"), end="")
""")
    print(done["stdout"], end="")
