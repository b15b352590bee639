# Local tools: tools/report/monthly.py beside this file is the module tools.report.monthly. It returns objects
# of its own class, which a tool behind a wire could not. Run it from the root of the repository (after make demo):
#
#     ./agentkernel run examples/local_tools/main.py --tools examples/mcp.json
#
# It prints a bar chart of the orders of each month.
import csv

from tools.filesystem import read_text_file
from tools.report.monthly import bar, months

year = months(csv.DictReader(read_text_file("sales.csv").splitlines()))
largest = max(m.orders for m in year)
for month in year:
    print(f"{month.name} {bar(month.orders, largest):<30} {month.orders:>5} orders of {month.average():.2f}")
