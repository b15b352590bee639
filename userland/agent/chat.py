# A conversation: a session whose cells are what the user says, one after the other. What was said and done before, and the variables of
# the programs, are variables of the session, so that they are there after a crash as everything else of it. It runs in CPython.


class GaveUp(Exception):
    """A turn that has come to no answer. The conversation goes on."""


talk = {"functions": None}


def give_up(why, code=1):
    raise GaveUp(why)


def chat(said, nanos, images=()):
    """Answers what the user says, and shows with pictures in base64; nanos is what the conversation has cost so far, in nano-dollars."""
    spent[0] = nanos / 1e9
    if not messages:
        try:
            talk["functions"] = begin(said, "\n" + setup["prompts"]["chat"] + "\n")
        except GaveUp as e:
            say("no answer: " + str(e))
            return
    before = len(messages)
    messages.append({"role": "user", "content": with_pictures(said, [base64.b64decode(text) for text in images])})
    seen.clear()
    looked.clear()
    try:
        reply = turns()
    except GaveUp as e:
        del messages[before + 1:]
        messages.append({"role": "assistant", "content": "I came to no answer: " + str(e)})
        say("no answer: " + str(e))
    except KeyboardInterrupt:
        del messages[before:]
        say("interrupted: this is forgotten; what programs have changed stays")
    else:
        if reply is not None:
            print(reply)


def turns():
    """The turns until there is an answer; None: it was shown as it came."""
    for turn in range(1, setup["turns"] + 1):
        answer, talk["functions"] = ask(talk["functions"])
        tell(turn, answer)
        outcome = act(answer)
        if outcome is not None and outcome[0]:
            close_calls(answer, "the user was shown it")
            return as_printed(outcome[1])
        if outcome is None and answer["stop"] != "pause":
            return None if setup["watched"] else (answer["text"] or "").strip()
    give_up("it has taken " + str(setup["turns"]) + (" turn" if setup["turns"] == 1 else " turns"))


def last_program():
    """The program that /save keeps: the last one that ended well and has a function."""
    return worked[-1] if worked else None
