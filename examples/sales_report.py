# Monthly revenue from a file that only an MCP server may read. Run it from the root of the repository:
#
#     make demo          once: installs the engine and the servers, makes the data
#     ./agentkernel run examples/sales_report.py --tools examples/mcp.json
#
# It prints ten lines. The 2 MB of the file, nearly 500,000 tokens, never leave the sandbox: a model that
# wrote this program would read the ten lines and nothing else.
import csv

from tools.filesystem import list_directory, read_text_file

names = [line.removeprefix("[FILE] ") for line in list_directory(".").splitlines() if line.endswith(".csv")]
if not names:
    raise SystemExit("there is no CSV file in examples/data; make data writes it")

months = {}
products = {}
orders = 0
for name in names:
    for row in csv.DictReader(read_text_file(name).splitlines()):
        revenue = int(row["quantity"]) * float(row["unit_price"])
        month = row["date"][:7]
        months[month] = months.get(month, 0.0) + revenue
        products[row["product"]] = products.get(row["product"], 0.0) + revenue
        orders += 1

total = sum(months.values())
ranked = sorted(months, key=lambda m: months[m], reverse=True)
best = max(products, key=lambda p: products[p])

print(f"{orders:,} orders in {', '.join(names)}")
print(f"revenue       {total:>14,.2f}")
print(f"per month     {total / len(months):>14,.2f}")
print(f"best seller   {best}, {products[best] / total:.1%} of revenue")
print(f"best month    {ranked[0]} {months[ranked[0]]:>14,.2f}")
print(f"worst month   {ranked[-1]} {months[ranked[-1]]:>14,.2f}")
for q in range(4):
    part = [months[m] for m in sorted(months)[3 * q:3 * q + 3]]
    print(f"quarter {q + 1}     {sum(part):>14,.2f}")
