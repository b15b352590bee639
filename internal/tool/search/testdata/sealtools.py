"""Makes an evaluation folder of the tasks of Seal-Tools that need several tools.

    git clone https://github.com/fairyshine/Seal-Tools && python3 sealtools.py Seal-Tools <folder>
    AGENTKERNEL_TOOLSEARCH=<folder> go test -v -run RealTools ./internal/tool/search
"""
import json
import pathlib
import sys

TYPES = {"int": "integer", "float": "number", "bool": "boolean"}


def read(name):
    return [json.loads(line) for line in (data / (name + ".jsonl")).read_text().splitlines()]


def write(name, rows):
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


data, folder = pathlib.Path(sys.argv[1], "Seal-Tools_Dataset"), pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
write("tools.jsonl", (
    {"server": t["field"].split("/")[-1], "name": t["api_name"], "description": t["api_description"],
     "inputSchema": {"type": "object", "properties": {
         name: {"type": TYPES.get(p.get("type"), "string"), "description": p.get("description", "")}
         for name, p in t["parameters"].items()}}}
    for t in read("tool")))
tasks = []
for part in "test_in_domain", "test_out_domain", "dev":
    for row in read(part):
        names = sorted({call["api"] for call in row["calling"]})
        if len(names) > 1:
            tasks.append({"task": row["query"], "steps": [row["query"]], "tools": names})
write("tasks.jsonl", tasks)
