# One report from three servers: files, a knowledge graph, and a server with all kinds of tools. What one server answers goes
# into the next without passing through a model. Run it from the root of the repository (after make demo):
#
#     ./agentkernel run examples/multi_server_report.py --tools examples/mcp.json --allow memory --allow filesystem
#
# It reads the sales, notes the best product of each region in the knowledge graph, asks the graph what it knows now, and
# writes examples/data/report.md.
import csv

from tools.everything import get_sum
from tools.filesystem import read_text_file, write_file
from tools.memory import create_entities, create_relations, delete_entities, read_graph

revenue = {}
for row in csv.DictReader(read_text_file("sales.csv").splitlines()):
    key = (row["region"], row["product"])
    revenue[key] = revenue.get(key, 0.0) + int(row["quantity"]) * float(row["unit_price"])

regions = sorted({r for r, _ in revenue})
delete_entities(regions + sorted({p for _, p in revenue}))  # of an earlier run
for region in regions:
    best = max([p for r, p in revenue if r == region], key=lambda p: revenue[(region, p)])
    create_entities([{"name": region, "entityType": "region", "observations": [f"best seller {best}"]},
                     {"name": best, "entityType": "product", "observations": []}])
    create_relations([{"from": region, "to": best, "relationType": "buys most"}])

graph = read_graph()
lines = ["# Best sellers", ""]
for relation in graph["relations"]:
    amount = revenue[(relation["from"], relation["to"])]
    lines.append(f"- {relation['from']} {relation['relationType']}: {relation['to']}, {amount:,.2f}")
print(get_sum(a=len(regions), b=len(graph["relations"])))
write_file("report.md", "\n".join(lines) + "\n")
print("\n".join(lines))
