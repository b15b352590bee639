# Sub-agents: the model may have parts of the task done by others of its kind. Each is a child with the same program, tools and permissions, and
# a budget of its own within that of the task; it sees nothing of the conversation, and has no sub-agents. Those of one answer run side by side.
# Where the task has a folder, each sees it as it was found, through a layer of its own: what it changes waits under its own pid.

DELEGATE = {"name": "delegate", "description": "Have a sub-agent do a part of the task by itself. It has the same tools, sees nothing of this conversation, and returns its result. Several in one answer work at the same time.",
            "schema": {"type": "object", "required": ["task"], "properties": {
                "task": {"type": "string", "description": "all that it has to know"},
                "turns": {"type": "integer", "description": "how many answers it may take (default 8)"}}}}
if setup["folder"]:
    DELEGATE["description"] += " It sees the user's folder as it was before this task: none of your changes, and you see none of its own, which are kept for the user. So let it return what you need."
SHARE = 8  # turns of a sub-agent, where nobody says

agents = []  # the pids of those that were started
working = {}  # by call: the pid of a sub-agent, or why there is none
alone_begin, alone_called, alone_answered = begin, called, answered_by_calls


def begin(task, more):
    """Offers sub-agents, too."""
    return alone_begin(task, more) + [DELEGATE]


def answered_by_calls(calls):
    """Starts all sub-agents of an answer before it waits for the first."""
    for call in calls:
        if call["name"] == "delegate":
            working[call["id"]] = started(call["arguments"] if isinstance(call["arguments"], dict) else {})
    return alone_answered(calls)


def called(call, ran):
    """Does what the model calls: [done, value or what it is shown]."""
    if call["name"] != "delegate":
        return alone_called(call, ran)
    agent = working.pop(call["id"])
    return [False, wrong(agent) if isinstance(agent, str) else result_of(agent)]


def started(arguments):
    """Starts a sub-agent. Returns its pid, or why there is none."""
    task, turns = arguments.get("task"), arguments.get("turns", SHARE)
    if not isinstance(task, str) or not task.strip():
        return "delegate takes the argument task: a text that says all that the sub-agent has to know"
    if not isinstance(turns, int) or turns < 1:
        return "turns is how many answers the sub-agent may take: a number from 1 on"
    if len(agents) >= setup["agents"]:
        return "this task has no more than " + counted(range(setup["agents"]), "sub-agent") + ": do it yourself"
    part = dict(setup)
    part.update({"task": task, "schema": None, "watched": False, "keeps": False, "steps": False, "checked": False, "save": "", "agents": 0, "part": "", "parted": True})
    try:
        pid = spawn(setup["part"], args=[json.dumps(part)], name="agent-" + str(len(agents) + 1), budget={"turns": turns}, folder=setup["folder"])
    except (PermissionError, RuntimeError, TypeError, ValueError) as e:  # such as turns that no budget can have
        return "there is no sub-agent: " + str(e)
    agents.append(pid)
    say("  agent " + str(len(agents)) + ": " + line_of(task))
    return pid


def result_of(pid):
    """Waits for a sub-agent. Returns what the model is shown of it."""
    end, number = wait(pid), agents.index(pid) + 1
    printed = (end["stdout"] or "").strip()
    outputs.append(printed)
    if end["error"] or end["exit_code"]:
        became = "has no result: " + (end["error"] or printed or "it ended with exit code " + str(end["exit_code"]))
        say("  agent " + str(number) + " " + line_of(became, 2 * SHOWN))
        return "the sub-agent " + became
    say("  agent " + str(number) + " ended well" + told_of_output(printed, pid))
    return "the result of the sub-agent (as output number " + str(len(outputs)) + "):\n" + page(len(outputs), 0)
