"""Skills: a function that proved useful is saved, and later programs import it. From the root of the repository (after make
demo and make data):

    python3 examples/mcp/skills.py

The code is checked before it is saved, each save is a new version, and a skill may do what the program that imports it
may do. It lies as a file in the data directory, below skills/.
"""

from client import Client, ToolFailed

SKILL = '''
import csv

def revenue(text: str, column: str) -> dict[str, float]:
    """Revenue of a sales file by one of its columns."""
    totals = {}
    for row in csv.DictReader(text.splitlines()):
        totals[row[column]] = totals.get(row[column], 0.0) + int(row["quantity"]) * float(row["unit_price"])
    return totals
'''

PROGRAM = """
from skills.sales import revenue
from tools.filesystem import read_text_file

for region, amount in sorted(revenue(read_text_file("sales.csv"), "region").items()):
    print(f"{region:6}{amount:15,.2f}")
"""

with Client("--tools", "examples/mcp.json") as agent:
    try:
        agent.call("save_skill", name="sales", code="def revenue(:")
    except ToolFailed as e:
        print("not saved:", str(e).splitlines()[0][:40])
    saved = agent.call("save_skill", name="sales", code=SKILL, description="Sums sales by region, product or date.", tags=["sales"])
    print("saved, version", saved["version"])

with Client("--tools", "examples/mcp.json") as agent:  # another conversation, another day
    found = agent.call("search_skills", query="how much was sold by region")
    print(found["text"].splitlines()[0])
    print(agent.call("execute_code", code=PROGRAM)["stdout"], end="")
    agent.call("delete_skill", name="sales")
