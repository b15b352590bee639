"""Functions of this script are tools: programs call them, they run here. From the root of the repository:

    make build && ./agentkernel setup      # once
    PYTHONPATH=sdk/python/src python3 examples/python/own_functions.py

The database stays in this process: the program in the sandbox sees two functions, and no file of it. What may not be done is up to the function.
"""

import sqlite3
import threading

from agentkernel import create_agent, effect

db = sqlite3.connect(":memory:", check_same_thread=False)  # each call comes in a thread of its own
lock = threading.Lock()
db.execute("create table stock (item text primary key, pieces int)")
db.executemany("insert into stock values (?, ?)", [("screw", 3), ("nail", 12), ("bolt", 0)])


@effect("read")
def stock() -> dict[str, int]:
    """How many pieces of each item there are."""
    with lock:
        return dict(db.execute("select item, pieces from stock order by item"))


def order(item: str, pieces: int) -> int:
    """Orders pieces of an item, and gives how many there are then."""
    if pieces > 8:
        raise ValueError(f"{pieces} pieces of {item}: more than 8 need a signature")
    with lock:
        db.execute("update stock set pieces = pieces + ? where item = ?", (pieces, item))
        return stock_of(item)


def stock_of(item: str) -> int:
    (pieces,) = db.execute("select pieces from stock where item = ?", (item,)).fetchone()
    return pieces


PROGRAM = """
    from tools.host import order, stock
    for item, pieces in stock().items():
        if pieces < 10:
            try:
                print(item, pieces, "->", order(item, 10 - pieces))
            except Exception as e:
                print(item, pieces, "->", e)
"""

with create_agent(functions=[stock, order]) as agent:
    result = agent.execute_code(PROGRAM)
    print(result.output, end="")
    calls = [entry.args["tool"] for entry in agent.client.trace(result.pid) if entry.op == "tool.call" and entry.args]
    print("in the journal:", calls)
