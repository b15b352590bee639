# What goes wrong is an exception with a code, so a program can decide: give up, try something else, or try again. Run it
# from the root of the repository (after make demo):
#
#     ./agentkernel run examples/errors_and_retry.py --tools examples/mcp.json --allow filesystem.write_file
#
# Three errors are handled: a tool that says no, a call that is not allowed, and a file that is not there yet. sleep() costs
# nothing: the process has no sandbox in memory meanwhile.
from kernel import ToolError, sleep, spawn, wait
from tools.filesystem import create_directory, read_text_file

WRITER = """
from kernel import sleep
from tools.filesystem import write_file
sleep(0.5)
write_file("late.txt", "here at last")
"""


def retry(attempts, first_pause, call, *args):
    """Tries again after a tool's error, waiting twice as long each time; the last error is raised."""
    pause = first_pause
    for left in range(attempts - 1, -1, -1):
        try:
            return call(*args)
        except ToolError as e:
            if left == 0:
                raise
            sleep(pause)
            pause *= 2


try:
    read_text_file("no/such/file.txt")
except ToolError as e:
    print("the tool says no:", str(e).split(":")[0])

try:
    create_directory("new")  # changes things, and --allow does not name it
except PermissionError as e:
    print("not allowed:", str(e).split(":")[0])

try:
    retry(2, 0.01, read_text_file, "never.txt")
except ToolError:
    print("gave up after 2 attempts")

writer = spawn(WRITER, name="writer")
print("after some attempts:", retry(10, 0.1, read_text_file, "late.txt"))
print("the writer", wait(writer)["state"])
