"""Twelve files at the same time, with asyncio. From the root of the repository:

    make build && ./agentkernel setup      # once
    PYTHONPATH=sdk/python/src python3 examples/python/parallel_files.py

Each file is read by a program of its own, in a sandbox of its own. `agentkernel.aio` has the same names as
`agentkernel`, to be awaited.
"""

import asyncio
import tempfile
from pathlib import Path

from agentkernel.aio import create_agent


TOTAL = """
    import csv, sys
    sum(int(row["orders"]) for row in csv.DictReader(open(sys.argv[1])))
"""


def make_files(folder: Path) -> None:
    for month in range(1, 13):
        rows = [f"2026-{month:02d}-{day:02d},{(month * day) % 7 + 1}" for day in range(1, 29)]
        (folder / f"orders-{month:02d}.csv").write_text("date,orders\n" + "\n".join(rows) + "\n")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder))
        agent = create_agent(workspace_dir=folder)
        names = sorted(path.name for path in Path(folder).iterdir())
        results = await asyncio.gather(*[agent.execute_task(TOTAL, args=[name]) for name in names])
        for name, result in zip(names, results):
            print(name, result.check().result)
        print("in all", sum(r.result for r in results))


asyncio.run(main())
