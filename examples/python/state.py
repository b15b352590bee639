"""State that outlives programs, agents and scripts. From the root of the repository:

    make build && ./agentkernel setup      # once
    PYTHONPATH=sdk/python/src python3 examples/python/state.py

Programs keep values with `kernel.state`. With `state_enabled` each program begins with what the one before left, and
with `state_file` it is kept in a JSON file. Tuples, sets, dates and bytes survive.
"""

import tempfile
from pathlib import Path

from agentkernel import create_agent

VISIT = """
    from kernel import state
    seen = state.get("seen", set())
    seen.add({name!r})
    state.set("seen", seen)
    state.set("visits", state.get("visits", 0) + 1)
    print(f"visit {{state.get('visits')}}, {{len(seen)}} visitors")
"""

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "workflow_state.json")
    for name in ("ada", "bob", "ada"):
        # A new agent each time, as if each were a script of its own.
        agent = create_agent(state_enabled=True, state_file=file)
        print(agent.execute_task(VISIT.format(name=name)).check().output, end="")

    print(file.read_text(), end="")
    print(sorted(agent.get_state()["seen"]))

    # With state_auto_save=False nothing is written until you say so.
    careful = create_agent(state_enabled=True, state_file=file, state_auto_save=False)
    careful.execute_task(VISIT.format(name="eve")).check()
    print("in memory", careful.state["visits"], "- in the file", create_agent(state_enabled=True, state_file=file).state["visits"])
    careful.save_state()
    print("saved", create_agent(state_enabled=True, state_file=file).state["visits"])
