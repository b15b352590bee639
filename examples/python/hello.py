"""Hello: a task in plain language, and code that is run as it is. From the root of the repository:

    make build && ./agentkernel setup      # once: builds ./agentkernel, installs the engine
    PYTHONPATH=sdk/python/src python3 examples/python/hello.py

(`pip install ./sdk/python` does what PYTHONPATH does here.) Both run as processes in a sandbox; `./agentkernel ps -a` shows them. A kernel is started if none runs.
"""

from agentkernel import create_agent

agent = create_agent()

# Plain language: the first model that the kernel declares does it. Without one, a recipe writes the program (template mode).
# What is wrong with a task is in the result: a model without its key, for example.
result = agent.execute_task("Calculate fibonacci(30)")
print(result.mode, "->", result.output.strip() if result.success else f"not done: {result.error}")

# Code is recognised, dedented and run directly. The value of the last expression is the result.
result = agent.execute_task("""
    words = "data stays in the sandbox".split()
    print(len(words), "words")
    sorted(words, key=len)[-1]
""")
print(result.mode, "->", result.output.strip(), "->", result.result)

# A result unpacks to three. A program that fails is no exception, it is a result with an error.
ok, output, error = agent.execute_task("print('before')\n1 / 0")
print(ok, repr(output), error.exception)
