"""Background tasks are processes of the kernel. From the root of the repository:

    make build && ./agentkernel setup      # once
    PYTHONPATH=sdk/python/src python3 examples/python/background_tasks.py

They go on when this script ends, show in `./agentkernel ps`, survive a crash of the kernel (`./agentkernel recover`),
and can be cancelled: the sandbox is ended, not only forgotten.
"""

from agentkernel import TaskManager, create_agent

SLOW = """
    from kernel import sleep
    for step in range({steps}):
        print("step", step + 1)
        sleep(0.1)
    {steps} * 10
"""

with TaskManager(create_agent()) as manager:
    ids = [manager.dispatch_task(SLOW.format(steps=n)) for n in (1, 2, 3)]
    endless = manager.dispatch_task("while True: pass")
    print("dispatched", len(ids) + 1)

    # Progress while it runs.
    for event in manager.stream_task(ids[2]):
        if event.kind == "output":
            print("  " + event.text.strip().replace("\n", "\n  "))

    print("cancelled", manager.cancel_task(endless), "- again:", manager.cancel_task(endless))
    for task_id in ids:
        result = manager.wait_for_task(task_id, timeout=60)
        print(manager.get_task_status(task_id).status, result.result)
    print([task.status for task in manager.list_tasks()])
