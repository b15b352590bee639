# Each program is a child of the task: it has the tools, limits and permissions of the task, never more, and what it does to itself ends
# with it. A tool that is not allowed is asked about where somebody follows the task, and denied where nobody does.

HERE = "\nA program has no files. Each starts anew: variables of an earlier one are gone.\n"


def run_program(code, number):
    """Runs a program to its end: a dict with stdout, error, exit_code and result."""
    pid = spawn(code, name="program-" + str(number) + ".py")
    tell_program(code, number, pid)
    end = wait(pid)
    end["pid"], end["result"] = pid, as_shown(end["result"])
    return end


def read_file(name):
    """There is none: [None, why]."""
    return [None, "programs of this task have no files. Let the value of a program's last expression be the picture's bytes, and look at that"]
