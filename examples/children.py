# A process starts others, and waits for them. A child has a PID, a journal and limits of its own; it survives a
# crash as its parent does. Run it from the root of the repository:
#
#     ./agentkernel run examples/children.py
#
# It counts the primes below 20,000 in four children and prints the count of each and the sum. `./agentkernel ps -a`
# shows all five processes.
from kernel import log, spawn, wait

WORKER = """
import sys

low, high = int(sys.argv[1]), int(sys.argv[2])
count = 0
for n in range(max(low, 2), high):
    d = 2
    while d * d <= n and n % d:
        d += 1
    if d * d > n:
        count += 1
count
"""

STEP = 5_000
children = {}
for low in range(0, 20_000, STEP):
    pid = spawn(WORKER, args=[str(low), str(low + STEP)], name=f"primes-{low}", limits={"time": "20s"})
    children[pid] = low
log(f"started {len(children)} children")

total = 0
for pid, low in children.items():
    end = wait(pid)
    if end["state"] != "exited":
        raise SystemExit(f"child {pid} ended as {end['state']}: {end['error']}")
    # The value of a program's last expression is its result.
    print(f"{end['result']:>5} primes from {low} to {low + STEP}")
    total += end["result"]
print(f"{total:>5} in all")
