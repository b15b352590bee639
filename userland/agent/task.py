# A task: to its result, which is printed, and the program ends.


def give_up(why, code=1):
    step({"kind": "end", "reason": why})
    print("the task is not done: " + why, file=sys.stdout if setup["parted"] else sys.stderr)  # a sub-agent's task sees what it prints
    exit(code)


def work():
    """The task, to its result."""
    functions = begin(setup["task"], "")
    messages.append({"role": "user", "content": with_pictures(setup["task"], [base64.b64decode(text) for text in sys.argv[2:]])})
    answer, functions = ask(functions)
    turn, idle = 1, 0
    while True:
        tell(turn, answer)
        outcome = act(answer)
        said = heard(answer)
        if outcome is not None and outcome[0] and not said:
            return outcome[1]
        idle = idle + 1 if outcome is None and not said else 0
        if idle >= PATIENCE:
            give_up(str(PATIENCE) + " answers in a row held neither a program nor a result; the last: " + line_of(answer["text"] or "nothing"))
        if outcome is None and not said and answer["stop"] != "pause":
            messages.append({"role": "user", "content": setup["prompts"]["nothing"]})
        turn += 1
        answer, functions = ask(functions)


check_schema()
done = work()
if not outputs:  # a program, a tool or a file would be in what one has shown
    say("no program was run: the result is what the model says, and nothing has shown it")
keep_program()
step({"kind": "result", "result": done})
step({"kind": "end", "reason": "done"})
print(as_printed(done))
done
