# Ten calls of a tool at the same time: the awaitable form of a tool issues its call at once, and gather waits for
# all of them. Run it from the root of the repository (after make demo):
#
#     ./agentkernel run examples/parallel.py --tools examples/mcp.json
#
# The tool works for one second; it prints that ten calls took about as long as one, and what they answered.
import asyncio
import time

from tools.everything.aio import get_sum, trigger_long_running_operation


async def job(n):
    await trigger_long_running_operation(duration=1, steps=1)
    return await get_sum(a=n, b=n * n)


async def main():
    start = time.time()
    answers = await asyncio.gather(*[job(n) for n in range(10)])
    took = time.time() - start
    print(f"{len(answers)} jobs of one second took {took:.0f} s")
    for line in answers:
        print(" ", line)


asyncio.run(main())
