# A chart from 50,000 orders, as a picture that a browser shows. The program draws it as SVG, which is text: no package is
# needed, and only the file's name comes out. Run it from the root of the repository (after make demo and make data):
#
#     ./agentkernel run examples/chart.py --tools examples/mcp.json --allow filesystem.write_file
#
# and open examples/data/revenue.svg.
import csv

from tools.filesystem import read_text_file, write_file

months = {}
for row in csv.DictReader(read_text_file("sales.csv").splitlines()):
    month = row["date"][:7]
    months[month] = months.get(month, 0.0) + int(row["quantity"]) * float(row["unit_price"])

WIDTH, HEIGHT, GAP = 640, 240, 6
bar = (WIDTH - GAP) / len(months) - GAP
top = max(months.values())
parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + 20}" font-family="sans-serif" font-size="10">']
for i, month in enumerate(sorted(months)):
    height = months[month] / top * HEIGHT
    x = GAP + i * (bar + GAP)
    parts.append(f'<rect x="{x:.1f}" y="{HEIGHT - height:.1f}" width="{bar:.1f}" height="{height:.1f}" fill="#4477aa"><title>{month}: {months[month]:,.0f}</title></rect>')
    parts.append(f'<text x="{x + bar / 2:.1f}" y="{HEIGHT + 14}" text-anchor="middle">{month[5:]}</text>')
parts.append("</svg>")
write_file("revenue.svg", "\n".join(parts) + "\n")
print(f"revenue.svg: {len(months)} bars, the highest {top:,.0f}")
