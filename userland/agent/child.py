# Each program is a child of the task: it has the tools, limits and permissions of the task, never more, and what it does to itself ends
# with it. A tool that is not allowed is asked about where somebody follows the task, and denied where nobody does.

HERE = "\nA program has no files. Each starts anew: variables of an earlier one are gone.\n"


def run_program(code, name):
    """Runs a program to its end: a dict with stdout, error, exit_code and result."""
    pid = spawn(code, name=name)
    end = wait(pid)
    end["pid"] = pid
    return end
