# The loop: ask the model for a program, run it (child.py, folder.py), show what it printed, until there is a result. It is a program like any other: each
# call is in its journal, so a crash repeats none, and budgets, limits and permissions are the kernel's, not the loop's.

PAGE = 4000  # characters of output that the model is shown at once
PATIENCE = 3  # so often in a row an answer may be none, and so often the same program may give the same result
SHOWN = 160  # characters of a line of progress
TOLD = 100000  # characters of a text of a step

FUNCTIONS = [
    {"name": "run_python", "description": "Run a complete Python program in the sandbox; returns what it printed and the value of its last expression.",
     "schema": {"type": "object", "required": ["code"], "properties": {"code": {"type": "string"}}}},
    {"name": "read_output", "description": "Show a further page of what program number `run` printed, from character `start` on.",
     "schema": {"type": "object", "required": ["run", "start"], "properties": {"run": {"type": "integer"}, "start": {"type": "integer"}}}},
    {"name": "look_at", "description": "Look at a picture (PNG, JPEG, GIF, WebP): one in the value of a program, by its number, or a file of the user's folder, by its path. It costs tokens in each further turn.",
     "schema": {"type": "object", "required": ["picture"], "properties": {"picture": {"type": "string"}}}},
]
READ_SKILL = {"name": "read_skill", "description": "Show the code of a skill.",
              "schema": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}

messages = []
offered = []  # the names of the functions that the model can call
outputs = []  # of all programs that were run
worked = []  # the programs that ended well and have a function: the last one can be kept as a skill
seen = {}  # how often a program gave a result
told = [0]  # the number of the program that was told of last
spent = [0.0]  # dollars, for the model's answers
unheard = []  # user signals that came while something else was waited for


def say(text):
    print(text, file=sys.stderr)


def step(facts):
    """Tells a step to whoever wants the task as events: agentkernel do --json and the SDK read them in the log."""
    if setup["steps"] or facts["kind"] in ["skill", "check", "checked"]:
        try:
            log(facts, level="debug")
        except PermissionError:
            pass


def line_of(text, most=SHOWN):
    """The beginning of a text as one line that does nothing to a terminal."""
    text = re.sub(r"\s+", " ", re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text)).strip()
    return text if len(text) <= most else text[:most] + " ..."


def used_up(e):
    """What a bound says that ends the task: what the kernel advises would let a process go on that waits, and this one does not."""
    said = re.sub(r" \(for whoever runs agentkernel: [^()]*\)$", "", str(e))
    bound = re.search(r"budget of process \d+ is (\$?)[^ :]+(?: ([a-z]+?)s?)?: spent ", said)
    more = ""
    if bound:
        more = " (--budget-" + ("usd" if bound.group(1) else bound.group(2) + "s" if bound.group(2) else "time") + ")"
    if re.search(r"\bturns?\b", said):
        more = " (--turns)"
    return "a bound is used up: " + said + "; give it more" + more + ", or let it wait until it is given more with --on-budget pause"


def ask(functions):
    """The model's answer, and what of the functions it can call: none, if its provider refuses them. Ends the task where there can be no answer."""
    offered.clear()
    offered.extend([f["name"] for f in functions or []])
    try:
        return answer_to(functions), functions
    except MemoryError as e:
        give_up(used_up(e))
    except TypeError as e:
        if unseen(str(e)):
            return ask(functions)
        if functions is None or len(messages) > 2:
            give_up("the model cannot be asked: " + str(e))
        say("the model takes no functions (" + line_of(str(e)) + "); it is asked for text")
    except (PermissionError, TimeoutError, OSError, RuntimeError) as e:
        give_up("the model cannot be asked: " + str(e))
    return ask(None)


def answer_to(functions):
    """The model's answer. One that breaks off is asked for once more: the kernel does not do that under a budget, and a task has one of turns."""
    try:
        answer, why = (shown_answer(functions) if setup["watched"] else (llm.complete(messages, tools=functions, model=setup["model"]), ""))
    except (OSError, RuntimeError) as e:  # a model that stalls is a TimeoutError
        if setup["words"]["not_again"] not in str(e):
            raise
        answer, why = None, str(e)
    if answer is None:
        say("the answer broke off (" + line_of(broken(why), 300) + "); it is asked for once more")
        try:
            return llm.complete(messages, tools=functions, model=setup["model"])
        except (OSError, RuntimeError) as e:
            if setup["words"]["not_again"] not in str(e):
                raise
            give_up("the model cannot be asked: its answer broke off twice: " + broken(str(e)) + "; ask again later, or another model with --model")
    return answer


def broken(why):
    """Why an answer broke off, without what the kernel says of sending the question again: this task does that, once."""
    at = why.find(setup["words"]["not_again"])
    return why if at < 0 else why[:at].rpartition(";")[0]


def shown_answer(functions):
    """The model's answer, shown as it comes, or None and why it broke off."""
    stream = llm.stream(messages, tools=functions, model=setup["model"])
    said, shown, answer, why = "", 0, None, ""
    try:
        while pieces := stream.next():
            for piece in pieces:
                if "text" in piece:
                    said = (said + piece["text"]).lstrip()
                    shown = hear(said, shown, False)
                elif "answer" in piece:
                    answer = piece["answer"]
    except (OSError, RuntimeError) as e:
        said, why = said + "`", str(e)
    if hear(said, shown, answer is not None):
        say("")
    return answer, why


def hear(said, shown, whole):
    """Shows what has come of an answer behind what is shown already, up to a program in it. Returns how many characters are shown then."""
    end = said.find("```")
    if end < 0:
        end = len(said)
        while not whole and end > shown and said[end - 1] == "`":  # it may begin a program
            end -= 1
    if end <= shown:
        return shown
    print(re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", " ", said[shown:end]), end="", file=sys.stderr)
    return end


def page(run, start):
    """A page of an output, and how to see the next."""
    if not isinstance(run, int) or run < 1 or run > len(outputs):
        return "there is no program number " + str(run) + ": there were " + str(len(outputs))
    text = outputs[run - 1]
    start = max(start, 0) if isinstance(start, int) else 0
    shown = text[start:start + PAGE]
    if start + len(shown) < len(text):
        shown += ("\n[characters " + str(start) + " to " + str(start + len(shown)) + " of " + str(len(text)) + ". The next page: read_output(run=" + str(run)
                  + ", start=" + str(start + PAGE) + "), or a line READ " + str(run) + " " + str(start + PAGE) + ". Better: print less]")
    return shown


def tell_program(code, number, pid=None):
    """Tells of a program that is run, once; its pid, where it is a process of its own, for whoever wants to see all of it."""
    if told[0] == number:
        return
    told[0] = number
    lines = code.strip().split("\n")
    say("  program " + str(number) + ", " + counted(lines, "line") + ("" if pid is None else ", pid " + str(pid)) + ": " + line_of(lines[0]))
    facts = {"kind": "program", "program": number, "code": code[:TOLD], "characters": len(code)}
    if pid is not None:
        facts["program_pid"] = pid
    step(facts)


def run(code):
    """Runs a program, and returns what the model is shown of it."""
    if not isinstance(code, str) or not code.strip():
        return wrong("run_python takes the argument code: the text of a Python program")
    number = len(outputs) + 1
    try:
        end = run_program(code, number)
    except MemoryError as e:
        tell_program(code, number)
        give_up(used_up(e))
    except (PermissionError, RuntimeError, TypeError, ValueError) as e:
        tell_program(code, number)
        end = {"stdout": "", "error": str(e), "exit_code": 1, "result": None}
    if setup["words"]["of_program"] in (end["error"] or ""):  # no program that the model writes changes that
        give_up(re.sub(r".*(the tools of server)", r"\1", end["error"], flags=re.DOTALL), UNAVAILABLE)
    printed = end["stdout"] or ""
    outputs.append(printed)
    if end["error"]:
        became = "failed: " + end["error"]
    else:
        became = "ended with exit code " + str(end["exit_code"]) if end["exit_code"] else "ended well"
    say("  " + line_of(became, 2 * SHOWN) + told_of_output(printed.strip(), end.get("pid")))
    value = "" if end["result"] is None else json.dumps(end["result"], ensure_ascii=False)
    step({"kind": "output", "program": number, "program_pid": end.get("pid"), "text": printed[:TOLD], "characters": len(printed), "value": value[:TOLD], "error": end["error"], "exit_code": end["exit_code"]})
    if became == "ended well" and re.search(r"^(async )?def [A-Za-z]", code, re.MULTILINE):
        worked.append(code)
    bounded = became.startswith("failed: limit_exceeded: ")  # it says how long it ran, and has printed so much as it came to: that differs
    again([code.strip(), re.sub(r"\d[\d.]*", "N", became), "", ""] if bounded else [code.strip(), became, printed, value], "the same program has given the same result", became + ". " + (printed or value))
    shown = "program " + str(number) + " " + became + ". " + ("It printed:\n" + page(number, 0) if printed.strip() else "It printed nothing.")
    if value:
        shown += "\nThe value of its last expression: " + (value if len(value) <= PAGE else value[:PAGE] + " ... (cut; print less)")
    return shown


def told_of_output(printed, pid):
    """The beginning of what a program printed, and for whoever watches where the rest is."""
    if not printed:
        return ""
    lines = printed.split("\n")
    first = line_of(printed)
    told = " · " + counted(lines, "line") + ": " + first
    if setup["watched"] and pid is not None and (len(lines) > 1 or first.endswith(" ...")):
        told += " · all of it: agentkernel logs " + str(pid)
    return told


def counted(items, what):
    return str(len(items)) + " " + what + ("" if len(items) == 1 else "s")


def again(key, what, said):
    """Ends the task where the same has come of it once too often: more of it costs, and changes nothing."""
    key = json.dumps(key)
    seen[key] = seen.get(key, 0) + 1
    if seen[key] >= PATIENCE:
        give_up(what + " " + str(PATIENCE) + " times: " + line_of(said))


def wrong(said):
    """What the model is told of a call with which nothing can be done: whoever watches sees for what the turn was."""
    say("  not done: " + line_of(said))
    return said


def refused(value, said):
    """What the model is told of a result that does not fit."""
    say("  " + said)
    again(["finish", value], "the same result was not accepted", said)
    return said


def checked(value):
    """Whether a result fits the schema: [True, value], or [False, what is to be said]."""
    if setup["schema"] is None:
        return [True, value]
    if isinstance(value, str) and "string" not in json.dumps(setup["schema"].get("type", "") if isinstance(setup["schema"], dict) else ""):
        try:  # models like to write JSON as a text
            value = json.loads(re.sub(r"^```(?:json)?\s*|\s*```$", "", value.strip()))
        except ValueError as e:
            return [False, "the result is not accepted: it is no JSON: " + str(e)]
    said = misfit(value, setup["schema"])
    if said:
        return [False, "the result is not accepted: " + said + ". Look again at what the programs have shown, and mend it"]
    return [True, value]


def called(call, ran):
    """Does what the model calls: [done, value or what it is shown]. ran says that a program ran since the model has seen anything."""
    arguments = call["arguments"] if isinstance(call["arguments"], dict) else {}
    if call["name"] == "run_python":
        return [False, run(arguments.get("code"))]
    if call["name"] == "read_output":
        return [False, page(arguments.get("run"), arguments.get("start", 0))]
    if call["name"] == "look_at":
        return [False, look_at(arguments.get("picture"))]
    if call["name"] == "read_skill":
        return [False, read_skill(arguments.get("name"))]
    if call["name"] != "finish":
        return [False, wrong("there is no function " + str(call["name"]) + ": there are " + ", ".join(offered) + ". Tools are imported by programs")]
    if "result" not in arguments:
        return [False, wrong("finish takes the argument result")]
    if ran:
        return [False, wrong("look at what the program printed before you finish")]
    return finished(arguments["result"])


def finished(given):
    """Whether the task can end with a result: [True, value], or [False, what the model is told]."""
    ok, value = checked(given)
    if ok and setup["save"] and not worked:
        ok, value = False, "the user wants a program to be kept as a skill, and none that ended well has a function at its top: run one"
    return [ok, value if ok else refused(given, value)]


def answered_by_calls(calls):
    """Does all that the model calls, programs before the end: [done, value]."""
    ran = False
    for call in calls:
        done, value = called(call, ran)
        if done:
            return [True, value]
        ran = ran or call["name"] in ["run_python", "delegate"]
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": value})
    show_looked()
    return [False, None]


def answered_by_text(text):
    """Does what a text asks for: [done, value], or None where it asks for nothing."""
    block = re.search(r"```(?:python|py)[ \t]*\r?\n(.*?)(?:\n```|$)", text, re.DOTALL)
    final = re.search(r"^[ *]*FINAL:[ *]*(.*)$", text, re.MULTILINE | re.DOTALL)
    more = re.search(r"^READ (\d+) (\d+)\s*$", text, re.MULTILINE)
    skill = re.search(r"^READ ([a-z_]\w*)\s*$", text, re.MULTILINE)
    if block:
        shown = run(block.group(1))
        messages.append({"role": "user", "content": shown})
        return [False, None]
    if more:
        messages.append({"role": "user", "content": page(int(more.group(1)), int(more.group(2)))})
        return [False, None]
    if skill:
        messages.append({"role": "user", "content": read_skill(skill.group(1))})
        return [False, None]
    if final:
        ok, value = finished(final.group(1).strip())
        if ok:
            return [True, value]
        messages.append({"role": "user", "content": value})
        return [False, None]
    return None


def tell(turn, answer):
    """Shows a turn: what the model says, and the cost so far."""
    spent[0] += answer["cost_usd"] or 0
    text = "" if setup["watched"] else line_of(re.sub(r"```.*", "", answer["text"] or "", flags=re.DOTALL))
    step({"kind": "turn", "turn": turn, "text": answer["text"] or "", "cost_usd": round(spent[0], 9)})
    say("turn " + str(turn) + (" · " + text if text else "") + " · $" + f"{spent[0]:.4f}")


def act(answer):
    """Does what an answer asks for: [done, value], or None where it asks for nothing."""
    messages.append(answer["message"])
    if answer["stop"] == "refusal":
        give_up("the model refuses: " + line_of(answer["text"] or "it says no more"))
    if answer["tool_calls"]:
        return answered_by_calls(answer["tool_calls"])
    return answered_by_text(answer["text"] or "")


def heard(answer):
    """Tells the model what was said to the task since its last turn (agentkernel signal, or typed at its terminal), and that little is left of a
    budget. Returns whether anybody said anything."""
    came, words, left = list(unheard), [], []
    unheard.clear()
    try:
        while True:
            came.append(signals.wait(timeout=0))
    except (TimeoutError, PermissionError):
        pass
    for said in came:
        if isinstance(said, str):
            say("  told: " + line_of(said))
            words.append(said)
        elif isinstance(said, dict) and isinstance(said.get("budget"), dict):
            say("  nine tenths of a budget are spent: " + line_of(str(said["budget"].get("amount"))))
            left.append("Nine tenths of what the task may spend are spent (" + str(said["budget"].get("amount")) + "). End it soon with what you have.")
    if words or left:
        close_calls(answer, "the task goes on: the user has said more")
        messages.append({"role": "user", "content": "\n".join(words + left)})
    return bool(words)


def close_calls(answer, said):
    """Answers the calls of an answer that have no result: no provider goes on with a conversation in which a call has none."""
    answered = [m.get("tool_call_id") for m in messages if m.get("role") == "tool"]
    for call in answer["tool_calls"] or []:
        if call["id"] not in answered:
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})


def begin(task, more):
    """Tells the model what it is to know, and returns what it can call."""
    system = setup["prompts"]["system"] + HERE + more + told_of_tools(task) + told_of_skills()
    if setup["rules"]:
        system += "\n" + setup["prompts"]["rules"] + "\n" + setup["rules"].strip() + "\n"
    result = {"description": "the result of the task"}
    if setup["schema"] is not None:
        system += "\n" + setup["prompts"]["schema"] + "\n" + json.dumps(setup["schema"], ensure_ascii=False) + "\n"
        result = setup["schema"]
    messages.append({"role": "system", "content": system})
    return FUNCTIONS + ([READ_SKILL] if setup["skills"] else []) + [{"name": "finish", "description": "End the task with its result, once a program has shown it.",
                         "schema": {"type": "object", "required": ["result"], "properties": {"result": result}}}]


def keep_program():
    """Hands the program that is to be a skill to whoever saves it. No program can do so itself."""
    if setup["save"]:
        step({"kind": "skill", "code": worked[-1]})


def check_schema():
    """Ends the task where its schema cannot be checked."""
    unchecked = unknown_in(setup["schema"]) if setup["schema"] is not None else ""
    if unchecked:
        give_up(unchecked)


def as_printed(value):
    """A result as the user reads it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
