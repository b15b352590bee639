# Whoever has started the task checks each of its results. The result is a step in the log; what is wrong with it comes as a user signal. Both are
# in the journal, so after a crash no answer is lost, and none counts twice.

results = [0]  # how many there were
fits_schema = checked


def checked(value):
    """Whether a result fits the schema, and whoever checks it accepts it."""
    fits, value = fits_schema(value)
    wrong = objection(value) if fits else ""
    if wrong:
        return [False, "the result is not accepted: " + wrong + ". Look again at what the programs have shown, and mend it"]
    return [fits, value]


def objection(value):
    """What is wrong with a result, as whoever checks it says; "": nothing. It is waited for as long as it takes."""
    results[0] += 1
    step({"kind": "check", "number": results[0], "result": value})
    while True:
        said = signals.wait()
        if isinstance(said, dict) and said.get("result") == results[0]:  # what came twice is about an earlier one
            step({"kind": "checked", "number": results[0]})
            return str(said.get("wrong") or "")
        unheard.append(said)
