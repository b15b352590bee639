# A process that lives until it is asked to stop, and is handed work while it lives. From the root of the repository:
#
#     ./agentkernel spawn examples/inbox.py
#     ./agentkernel signal PID user '{"item": "milk", "price": 2}'
#     ./agentkernel stop PID
#
# What is sent waits in its inbox, also while no kernel runs; it is taken once. While the program waits it is parked in the
# database and uses no memory.
from kernel import KernelInterrupt, signals

total = 0
print("ready")
try:
    while True:
        order = signals.wait()
        signals.mask()  # what follows belongs together: a stop waits until it is done
        total += order["price"]
        print(f"{order['item']}: {order['price']}, {total} in all")
        signals.unmask()
except KernelInterrupt:
    print(f"stopped at {total}")
