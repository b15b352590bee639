"""Sessions: variables, functions and imports last from one execute_code to the next. From the root of the repository (after
make demo):

    python3 examples/mcp/sessions.py

An error ends its piece of code and nothing else; "new" begins afresh, "none" leaves the session alone.
"""

from client import Client, ToolFailed

with Client("--tools", "examples/mcp.json") as agent:
    first = agent.call("execute_code", code="from tools.everything import get_sum\nanswers = [get_sum(a=40, b=2)]\ndef last(): return answers[-1]")
    print(agent.call("execute_code", code="answers.append('another')\nprint(len(answers), answers[0], '|', last())")["stdout"].strip())

    try:
        agent.call("execute_code", code="answers.append('third')\n1 / 0")
    except ToolFailed as e:
        print([line for line in str(e).splitlines() if "ZeroDivisionError" in line][0].strip())
    print("after the error:", agent.call("execute_code", code="len(answers)")["result"])

    same = agent.call("execute_code", code="len(answers)", session=first["session"])
    print("by its id:", same["result"])
    for session in ("none", "new"):
        try:
            agent.call("execute_code", code="answers", session=session)
        except ToolFailed as e:
            print(f'"{session}" knows nothing of it:', "NameError" in str(e))
