"""Monthly revenue of 50,000 orders: the file stays in the sandbox, ten lines come out. From the root of the repository:

    make build data && ./agentkernel setup     # once: builds, writes examples/data/sales.csv, installs the engine
    PYTHONPATH=sdk/python/src python3 examples/python/sales_report.py

`workspace_dir` is the folder that programs work in. What they change there is kept apart: look at `result.changes`, then
`result.apply()` or `result.discard()`.
"""

from pathlib import Path

from agentkernel import create_agent

REPORT = """
    import csv

    months, orders = {}, 0
    for row in csv.DictReader(open("sales.csv")):
        month = row["date"][:7]
        months[month] = months.get(month, 0.0) + int(row["quantity"]) * float(row["unit_price"])
        orders += 1
    best = max(months, key=lambda m: months[m])
    print(f"{orders:,} orders, revenue {sum(months.values()):,.2f}")
    print(f"best month {best}: {months[best]:,.2f}")
    with open("months.csv", "w") as f:
        f.writelines(f"{month},{revenue:.2f}\\n" for month, revenue in sorted(months.items()))
    months
"""

DATA = Path(__file__).parent.parent / "data"
agent = create_agent(workspace_dir=DATA)
report = agent.execute_task(REPORT).check()
print(report.output, end="")

# The result is a Python value here, too.
quarters = [sum(v for m, v in report.result.items() if (int(m[5:]) - 1) // 3 == q) for q in range(4)]
print("quarters", ", ".join(f"{q:,.0f}" for q in quarters))

# A question in plain language: a model of the kernel answers it. Without one, a recipe finds the file tool and the columns.
answer = agent.execute_task("total quantity by region in sales.csv")
print(answer.output.strip() if answer.success else f"not done: {answer.error}")

# The file that it wrote is not in the folder: it waits for apply() or discard().
print(report.changes, "- in the folder:", (DATA / "months.csv").exists())
print(report.get_file("months.csv").decode().splitlines()[0])
report.discard()

size = (DATA / "sales.csv").stat().st_size
print(f"{size // 4:,} tokens stayed inside, {report.usage.output // 4} came out")
