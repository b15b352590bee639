# A program that outlives its kernel. Each step adds a line to a file, which must not happen twice. The first run
# is in a kernel of its own, which is killed after two seconds with a signal that it cannot notice;
# recover continues the program where its journal ends. From the root of the repository (after make demo):
#
#     ./agentkernel shutdown      if a kernel runs in the background
#     ./agentkernel run --embedded examples/resume_after_crash.py --tools examples/mcp.json --allow filesystem & sleep 2; kill -9 $!
#     ./agentkernel recover --wait
#     cat examples/data/steps.txt
#
# The file holds step 1 to step 8, each once. Had the kernel died while a line was being written, nobody could know
# whether it was: the program is then told so (OutcomeUnknown), looks, and decides.
from kernel import OutcomeUnknown, sleep
from tools.filesystem import edit_file, read_text_file, write_file

FILE = "steps.txt"
END = "(more to come)"


def add(line):
    try:
        edit_file(FILE, [{"oldText": END, "newText": line + "\n" + END}])
    except OutcomeUnknown:
        print("a crash cut this step off; looking at the file")
        if line not in read_text_file(FILE).splitlines():
            edit_file(FILE, [{"oldText": END, "newText": line + "\n" + END}])


write_file(FILE, END + "\n")
for n in range(1, 9):
    add(f"step {n}")
    print(f"step {n} done")
    sleep(0.5)
print(read_text_file(FILE).replace("\n", ", ").removesuffix(", "))
