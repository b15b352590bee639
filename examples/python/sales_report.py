"""Monthly revenue of 50,000 orders: the file stays in the sandbox, ten lines come out. From the root of the repository:

    make demo && make data             once: builds, installs the engine, writes examples/data/sales.csv
    pip install ./sdk/python
    python3 examples/python/sales_report.py

`workspace_dir` makes the files of a folder tools of the programs (`tools.workspace`): they may read, and need
`allow="workspace"` to write.
"""

from pathlib import Path

from agentkernel import create_agent

REPORT = """
    import csv
    from tools.workspace import read_text_file

    months, orders = {}, 0
    for row in csv.DictReader(read_text_file("sales.csv").splitlines()):
        month = row["date"][:7]
        months[month] = months.get(month, 0.0) + int(row["quantity"]) * float(row["unit_price"])
        orders += 1
    best = max(months, key=lambda m: months[m])
    print(f"{orders:,} orders, revenue {sum(months.values()):,.2f}")
    print(f"best month {best}: {months[best]:,.2f}")
    months
"""

agent = create_agent(workspace_dir=Path(__file__).parent.parent / "data")
report = agent.execute_task(REPORT).check()
print(report.output, end="")

# The result is a Python value here, too.
quarters = [sum(v for m, v in report.result.items() if (int(m[5:]) - 1) // 3 == q) for q in range(4)]
print("quarters", ", ".join(f"{q:,.0f}" for q in quarters))

# The same question in plain language; the recipe finds the file tool and the columns.
print(agent.execute_task("total quantity by region in sales.csv").check().output, end="")

usage = report.usage
print(f"{usage.bytes_in // 4:,} tokens stayed inside, {usage.output // 4} came out")
