# Whoever has started the task hears of it by lines of its log: of each step, and, where he checks results, of each result before it is one.
# He answers by a user signal. Log and signals are in the journal, so after a crash no step is told twice, and no answer is lost.
from kernel import log, signals

MOST_TOLD = 100000  # characters of a text of a step; logs of the program's process have all of it
now = {"turn": 0, "said": "", "results": 0}
untold_tell, untold_run, unchecked = tell, run_program, checked


def told(what):
    log({"task": what}, level="debug")


def step(program, end):
    told({"step": {"turn": now["turn"], "said": now["said"][:MOST_TOLD], "program": program, "output": (end["stdout"] or "")[:MOST_TOLD],
                   "error": end["error"], "exit_code": end["exit_code"], "result": end["result"], "pid": end.get("pid")}})


def tell(turn, answer):
    now["turn"], now["said"] = turn, answer["text"] or ""
    untold_tell(turn, answer)


def run_program(code, name):
    try:
        end = untold_run(code, name)
    except (PermissionError, RuntimeError, TypeError, ValueError) as e:
        step(code, {"stdout": "", "error": str(e), "exit_code": 1, "result": None})
        raise
    step(code, end)
    return end


def checked(value):
    """Whether a result fits the schema, and whoever checks it accepts it."""
    fits, value = unchecked(value)
    if not fits:
        return [False, value]
    if setup["checked"]:
        wrong = objection(value)
        if wrong:
            return [False, "the result is not accepted: " + wrong + ". Look again at what the programs have shown, and mend it"]
    step(None, {"stdout": "", "error": None, "exit_code": 0, "result": value})
    return [True, value]


def objection(value):
    """What is wrong with a result, as whoever checks it says; "": nothing. It is waited for as long as it takes."""
    now["results"] += 1
    told({"result": {"number": now["results"], "value": value}})
    while True:
        said = signals.wait()
        if isinstance(said, dict) and said.get("result") == now["results"]:  # what came twice is about an earlier one
            told({"answered": now["results"]})
            return str(said.get("wrong") or "")
