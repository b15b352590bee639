"""Tasks in plain language that a model does. Its answers come from scripts of `agentkernel devllm`, whose rules hold only for what the model was to
be shown: of anything else comes no result."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import support
import agentkernel
from agentkernel import Client, Step, TaskManager, _kernel, aio, create_agent, effect, errors, execute_task

KEY = "sk-made-up-for-this-test"

#: A first program that fails, one that is written because of that, and what the schema, the check and the user's functions have to say.
SCRIPT = """
rules:
  - when: {anywhere: average, turn: 1}
    answer: {text: I add the numbers up., calls: [{name: run_python, arguments: {code: "numbers = ['3', '5', '10']\\nprint(sum(numbers) / 3)"}}]}
  - when: {anywhere: average, turn: 2, tool_result: TypeError}
    answer: {text: They are texts., calls: [{name: run_python, arguments: {code: "numbers = ['3', '5', '10']\\nprint(sum(int(n) for n in numbers) / 3)"}}]}
  - when: {anywhere: average, turn: 3, tool_result: '/printed:\\n(6.0)/'}
    answer: {calls: [{name: finish, arguments: {result: "The average is {{1}}."}}]}

  - when: {anywhere: totals, turn: 1, system: 'total'}
    answer: {calls: [{name: run_python, arguments: {code: "print({'total': 'many'})"}}]}
  - when: {anywhere: totals, turn: 2, tool_result: many}
    answer: {calls: [{name: finish, arguments: {result: {total: many}}}]}
  - when: {anywhere: totals, turn: 3, tool_result: 'is not accepted'}
    answer: {calls: [{name: run_python, arguments: {code: "print({'total': 42})"}}]}
  - when: {anywhere: totals, turn: 4, tool_result: '42'}
    answer: {calls: [{name: finish, arguments: {result: {total: 42}}}]}

  - when: {anywhere: capital, turn: 1}
    answer: {calls: [{name: run_python, arguments: {code: "print('rome')"}}]}
  - when: {anywhere: capital, turn: 2, tool_result: rome}
    answer: {calls: [{name: finish, arguments: {result: rome}}]}
  - when: {anywhere: capital, turn: 3, tool_result: 'not accepted: it begins with no capital letter. Look again'}
    answer: {calls: [{name: finish, arguments: {result: Rome}}]}

  - when: {anywhere: invoice, turn: 1, system: 'from tools.billing import vat'}
    answer: {calls: [{name: run_python, arguments: {code: "from tools.billing import vat\\nprint(vat(200))"}}]}
  - when: {anywhere: invoice, turn: 2, tool_result: '/printed:\\n(238.0)/'}
    answer: {calls: [{name: finish, arguments: {result: "It is {{1}}."}}]}

  - when: {anywhere: prepare the parcel, turn: 1, system: 'from tools.host import stock'}
    answer: {calls: [{name: run_python, arguments: {code: "from tools.host import stock, order\\nprint(order('screw', 10 - stock('screw')), 'ordered')"}}]}
  - when: {anywhere: prepare the parcel, turn: 2, tool_result: '7 ordered'}
    answer: {calls: [{name: finish, arguments: {result: There are ten.}}]}

  - when: {anywhere: rows of the table, turn: 1, system: 'from tools.workspace import read_text_file'}
    answer: {calls: [{name: run_python, arguments: {code: "from tools.workspace import read_text_file\\nn = len(read_text_file('sales.csv').splitlines()) - 1\\nopen('rows.txt', 'w').write(str(n))\\nprint(n, 'rows')"}}]}
  - when: {anywhere: rows of the table, turn: 2, tool_result: '/(\\d+) rows/'}
    answer: {calls: [{name: finish, arguments: {result: "{{1}}"}}]}

  - when: {anywhere: keep the line, turn: 1, system: 'from tools.test import append_line'}
    answer: {calls: [{name: run_python, arguments: {code: "from tools.test import append_line\\nappend_line(path='LINES', text='kept')\\nprint('done')"}}]}
  - when: {anywhere: keep the line, turn: 2, tool_result: done}
    answer: {calls: [{name: finish, arguments: {result: It is kept.}}]}
  - when: {anywhere: keep the line, turn: 2, tool_result: permission_denied}
    answer: {calls: [{name: finish, arguments: {result: It is not allowed.}}]}

  - when: {anywhere: count once more, turn: 1}
    answer: {calls: [{name: run_python, arguments: {code: "from kernel import state\\nstate.set('n', state.get('n') + 1)\\nprint(state.get('n'))"}}]}
  - when: {anywhere: count once more, turn: 2, tool_result: '8'}
    answer: {calls: [{name: finish, arguments: {result: 8}}]}

  - when: {anywhere: divide the work, turn: 1}
    answer: {calls: [{name: delegate, arguments: {task: find the first half}}]}
  - when: {anywhere: divide the work, turn: 2, tool_result: 'it is 21'}
    answer: {calls: [{name: finish, arguments: {result: 42}}]}
  - when: {anywhere: find the first half}
    answer: {calls: [{name: finish, arguments: {result: it is 21}}]}

  - when: {anywhere: stripes, turn: 1, system: 'from skills.zebra import stripes  # how many they have'}
    answer: {calls: [{name: run_python, arguments: {code: "from skills.zebra import stripes\\nprint(stripes(2))"}}]}
  - when: {anywhere: stripes, turn: 2, tool_result: '/printed:\\n(52)/'}
    answer: {calls: [{name: finish, arguments: {result: "{{1}}"}}]}

  - when: {anywhere: run around}
    answer: {calls: [{name: run_python, arguments: {code: "print({{turn}})"}}]}
default: {error: {status: 400, message: this was not to be shown}}
"""


class Provider:
    """A made-up provider of models that answers by the script."""

    def __init__(self, test: type[support.KernelTest], profile: str = "openai") -> None:
        script = Path(test.folder, "script.yaml")
        script.write_text(SCRIPT.replace("LINES", os.path.join(test.folder, "lines.txt")), encoding="utf-8")
        command = [support.binary(), "devllm", "--json", "--listen", "127.0.0.1:0", "--script", str(script), "--profile", profile, "--key", KEY, "--limit", "requests=0", "--limit", "total=0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        test.addClassCleanup(self.stop)
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


#: A program that is killed while its task calls a function, and the kernel with it.
KILLED = """
import os
from agentkernel import Client, create_agent, effect

@effect("read")
def stock(item: str) -> int:
    print(os.getpid(), flush=True)
    os.kill(Client().info().os_pid, 9)
    os._exit(0)

@effect("read")
def order(item: str, pieces: int) -> None: ...

create_agent(functions=[stock, order]).execute_task("Please prepare the parcel.")
"""


class Declared(support.KernelTest):
    """The kernel declares a model."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        provider = Provider(cls)
        os.environ["OPENAI_API_KEY"] = KEY
        config = Path(cls.folder, "config", "agentkernel", "config.toml")
        config.parent.mkdir(parents=True)
        config.write_text(f'models = ["fast openai:gpt-dev-mini url={provider.url}/v1 price=0.25/2"]\n', encoding="utf-8")

    def test_an_answer_after_an_error(self) -> None:
        steps: list[Step] = []
        result = execute_task("What is the average of 3, 5 and 10?", on_step=steps.append)
        ok, output, error = result
        self.assertEqual((ok, output, error), (True, "The average is 6.0.\n", None))
        self.assertEqual((result.result, result.mode, result.code, result.title), ("The average is 6.0.", "model", "", "What is the average of 3, 5 and 10?"))
        self.assertIn("turn 2 · They are texts.", result.stderr)
        self.assertEqual([(s.turn, s.said) for s in steps], [(1, "I add the numbers up."), (2, "They are texts."), (3, "")])
        self.assertIn("sum(numbers)", steps[0].program)
        self.assertIn("TypeError", steps[0].error)
        self.assertEqual((steps[1].output, steps[1].error, steps[1].exit_code), ("6.0\n", "", 0))
        self.assertEqual((steps[2].program, steps[2].result), ("", "The average is 6.0."))
        assert result.pid is not None
        self.assertEqual([p.pid for p in self.client.ps(all=True, parent=result.pid)], [steps[1].pid, steps[0].pid])
        self.assertEqual(self.client.budget(result.pid).limit.turns, 20)

    def test_without_callbacks_the_log_is_empty(self) -> None:
        result = create_agent().execute_task("What is the average of 3, 5 and 10?")
        assert result.pid is not None
        self.assertEqual([e.text for e in self.client.events(result.pid) if e.kind == "log"], [])

    def test_a_recipe_is_not_looked_for(self) -> None:
        plan = create_agent().plan("Calculate fibonacci(30)")
        self.assertEqual((plan.mode, plan.name, plan.turns), ("model", "Calculate fibonacci(30)", 20))
        self.assertEqual(create_agent().execute_task("print(6 * 7)").mode, "code")
        self.assertEqual(create_agent(planner=lambda task, tools: "print('planned')").execute_task("write a haiku").mode, "planner")

    def test_a_recovered_task_without_its_functions(self) -> None:
        """It is paused, with all of its programs, and no model is asked again for what cannot be done. Resumed, it ends, and says why."""
        self.client.info()
        environment = {**os.environ, "PYTHONPATH": str(support.SDK / "src")}
        said = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, env=environment, timeout=support.PATIENCE)
        self.assertRegex(said.stdout, r"^\d+\n$", said.stderr)
        task = next(p for p in self.client.ps(all=True) if p.parent == 0 and not p.done)
        self.client.recover(task.pid)
        process = self.client.wait(task.pid)
        self.assertTrue(process.paused, process)
        self.assertIn("functions of the program that started this process, and it has ended", process.pause_note)
        self.assertTrue(all(p.paused for p in self.client.ps(parent=task.pid)))
        why = json.loads(subprocess.run([support.binary(), "why", str(task.pid), "--json"], capture_output=True, text=True, check=True).stdout)
        self.assertEqual([s["command"] for s in why["next"]], [f"agentkernel kill {task.pid}", f"agentkernel resume {task.pid}"])
        for paused in [*self.client.ps(parent=task.pid), task]:
            self.client.resume(paused.pid)
        result = self.client.result(task.pid)
        self.assertEqual(result.exit_code, 69, result)
        self.assertRegex(result.stderr, 'the task is not done: the tools of server "host" are functions of the program that started this process, and it has ended')
        self.assertEqual(result.stderr.count("turn "), 1)

    def test_agents(self) -> None:
        result = create_agent().execute_task("Please divide the work.", agents=1)
        self.assertEqual((result.success, result.result), (True, 42), result.stderr)
        assert result.pid is not None
        self.assertEqual([p.name for p in self.client.ps(all=True, parent=result.pid)], ["agent-1"])
        with self.assertRaises(errors.InvalidArgument):
            create_agent().execute_task("Please divide the work.", agents=0)

    def test_schema(self) -> None:
        schema = {"type": "object", "required": ["total"], "properties": {"total": {"type": "number"}}}
        result = create_agent().execute_task("Give me the totals", schema=schema)
        self.assertEqual((result.result, result.error), ({"total": 42}, None))
        self.assertIn("the result is not accepted", result.stderr)
        refused = create_agent().execute_task("Give me the totals", schema={"type": "string", "pattern": "^a"})
        self.assertIn("the task is not done", str(refused.error))
        self.assertIn("pattern", str(refused.error))

    def test_check(self) -> None:
        checked: list[Any] = []

        def check(result: Any) -> Any:
            checked.append(result)
            return None if result[0].isupper() else "it begins with no capital letter."

        steps: list[Step] = []
        result = create_agent().execute_task("What is the capital of Italy?", check=check, on_step=steps.append)
        self.assertEqual((result.result, result.error, checked), ("Rome", None, ["rome", "Rome"]))
        self.assertEqual([(s.turn, s.result) for s in steps], [(1, None), (3, "Rome")])

    def test_a_check_that_no_result_passes_ends_with_the_turns(self) -> None:
        result = create_agent().execute_task("What is the capital of Italy?", check=lambda r: "it begins with no capital letter", turns=3)
        assert result.error is not None
        self.assertEqual((result.success, result.result, result.output), (False, None, ""))
        self.assertIn("a bound is used up", result.error.message)

    def test_a_check_that_fails_is_the_callers_error_and_can_be_made_up_for(self) -> None:
        agent = create_agent()
        with self.assertRaises(ZeroDivisionError):
            agent.execute_task("What is the capital of Italy?", check=lambda r: 1 / 0)
        pid = self.client.ps()[0].pid
        with self.assertRaises(errors.Timeout):
            TaskManager(agent).wait_for_task(pid, timeout=0.05)  # it waits for whoever checks
        with self.assertRaises(errors.InvalidArgument):
            TaskManager(agent).wait_for_task(pid, check=lambda r: 7)
        self.assertEqual(TaskManager(agent).wait_for_task(pid, check=lambda r: True).result, "rome")

    def test_a_check_after_the_kernel_has_died(self) -> None:
        manager = TaskManager(create_agent())
        checked: list[Any] = []

        def check(result: Any) -> Any:
            checked.append(result)
            if len(checked) == 1:
                self.kill_kernel()
            return result == "Rome" or "it begins with no capital letter"

        task = manager.dispatch_task("What is the capital of Italy?", check=check)
        with self.assertRaises(errors.KernelError):
            manager.wait_for_task(task)
        manager.recover()
        self.assertEqual(manager.wait_for_task(task).result, "Rome")
        self.assertEqual(checked, ["rome", "rome", "Rome"])
        turns = [e for e in self.client.trace(task) if e.kind == "call" and e.op == "llm.complete"]
        self.assertEqual(len(turns), 3)

    def test_bounds(self) -> None:
        agent = create_agent()
        for options in ({"turns": 2}, {"budget": {"turns": 2}}, {"budget": {"calls": 2, "usd": 1}}):
            result = agent.execute_task("run around", **options)
            assert result.error is not None
            self.assertEqual((result.success, result.exit_code), (False, 1), options)
            self.assertIn("the task is not done: a bound is used up", result.error.message)
        with self.assertRaises(errors.InvalidArgument):
            agent.execute_task("run around", turns=2, budget={"turns": 2})
        with self.assertRaises(errors.InvalidArgument):
            agent.execute_task("run around", turns=0)

    def test_functions_of_a_folder_are_tools(self) -> None:
        self.write("project/tools/billing/vat.py", 'def vat(net: float) -> float:\n    """The price of an invoice with VAT."""\n    return net * 1.19\n')
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.path("project"))
        result = create_agent().execute_task("What is on the invoice of 200?")
        self.assertEqual((result.result, result.error), ("It is 238.0.", None))

    def test_functions_of_this_program_are_tools(self) -> None:
        """The model is told of them, and its programs call them: without a folder, in one, for asyncio and in the background."""
        ordered: list[tuple[str, int]] = []

        @effect("read")
        def stock(item: str) -> int:
            """How many pieces of an item there are."""
            return 3

        def order(item: str, count: int) -> int:
            """Orders pieces of an item."""
            ordered.append((item, count))
            return count

        async def in_asyncio() -> agentkernel.Result:
            async with aio.create_agent(functions=[stock, order]) as agent:
                return await agent.execute_task("Please prepare the parcel.")

        self.write("parcels/list.txt", "screw\n")
        with create_agent(functions=[stock, order]) as agent, create_agent(functions=[stock, order], workspace_dir=self.path("parcels")) as with_folder:
            manager = TaskManager(agent)
            results = [
                agent.execute_task("Please prepare the parcel."),
                with_folder.execute_task("Please prepare the parcel."),
                asyncio.run(in_asyncio()),
                manager.wait_for_task(manager.dispatch_task("Please prepare the parcel.")),
                execute_task("Please prepare the parcel.", functions=[stock, order]),
            ]
        for result in results:
            self.assertEqual((result.result, result.error), ("There are ten.", None), result.stderr)
        self.assertEqual(ordered, [("screw", 7)] * len(results))

    def test_permission(self) -> None:
        server = os.environ.get("AGENTKERNEL_TEST_SERVER") or support.missing("the tool server of the tests")
        tools = self.write("mcp.json", json.dumps({"mcpServers": {"test": {"command": server}}}))
        for options, says in [({}, "It is not allowed."), ({"on_ask": lambda ask: False}, "It is not allowed."), ({"on_ask": lambda ask: True}, "It is kept."), ({"allow": "test.*"}, "It is kept.")]:
            result = create_agent(tools=tools).execute_task("Please keep the line", **options)
            self.assertEqual((result.result, result.error), (says, None), (options, result.stderr))
        self.assertEqual(Path(self.path("lines.txt")).read_text(), "kept\nkept\n")

    def test_skills_are_known_to_the_model(self) -> None:
        agent = create_agent()
        agent.save_skill("zebra", "def stripes(n):\n    return 26 * n\n", "how many they have")
        self.addCleanup(agent.delete_skill, "zebra")
        result = agent.execute_task("How many stripes have two zebras?")
        self.assertEqual((result.result, result.error), (52, None), result.stderr)

    def test_a_check_beside_tools(self) -> None:
        server = os.environ.get("AGENTKERNEL_TEST_SERVER") or support.missing("the tool server of the tests")
        tools = self.write("mcp.json", json.dumps({"mcpServers": {"test": {"command": server}}}))
        checked: list[Any] = []
        result = create_agent(tools=tools).execute_task("What is the capital of Italy?", check=lambda r: checked.append(r) or r == "Rome" or "it begins with no capital letter")
        self.assertEqual((result.result, checked), ("Rome", ["rome", "Rome"]), result.stderr)

    def test_the_state_in_a_folder(self) -> None:
        self.write("counted/n.txt", "")
        agent = create_agent(workspace_dir=self.path("counted"), state_enabled=True)
        agent.state["n"] = 7
        result = agent.execute_task("count once more")
        self.assertEqual(result.result, 8, result.stderr)
        self.assertEqual(agent.state, {"n": 8})

    def test_a_folder(self) -> None:
        self.write("data/sales.csv", "region,amount\nnorth,10\nsouth,20\n")
        steps: list[Step] = []
        result = create_agent(workspace_dir=self.path("data")).execute_task("Count the rows of the table", on_step=steps.append)
        self.assertEqual((result.result, result.error), (2, None))
        self.assertEqual([c.path for c in result.changes or ()], ["rows.txt"])
        self.assertEqual((steps[0].output, steps[0].pid), ("2 rows\n", 0))
        result.apply()
        self.assertEqual(Path(self.path("data/rows.txt")).read_text(), "2")

    def test_state_survives_a_task(self) -> None:
        agent = create_agent(state_enabled=True)
        agent.state["n"] = 7
        self.assertTrue(agent.execute_task("What is the average of 3, 5 and 10?"))
        self.assertEqual(agent.state, {"n": 7})

    def test_background(self) -> None:
        manager, checked, steps = TaskManager(), [], []

        def check(result: Any) -> Any:
            checked.append(result)
            return result == "Rome" or "it begins with no capital letter"

        ids = [
            manager.dispatch_task("What is the average of 3, 5 and 10?"),
            manager.dispatch_task("What is the capital of Italy?", check=check, on_step=steps.append),
            manager.dispatch_task("print(6 * 7)"),
        ]
        results = manager.wait_for_all(ids, timeout=60)
        self.assertEqual([r.output for r in results], ["The average is 6.0.\n", "Rome\n", "42\n"])
        self.assertEqual([r.mode for r in results], ["model", "model", "code"])
        self.assertEqual((checked, [s.turn for s in steps]), (["rome", "Rome"], [1, 3]))
        self.assertEqual(manager.wait_for_task(ids[1]).result, "Rome")
        self.assertEqual(len(steps), 2)  # nothing is told twice
        self.assertEqual(manager.get_task_status(ids[0]).description, "What is the average of 3, 5 and 10?")
        self.assertIn("turn 1", "".join(e.text for e in manager.stream_task(ids[0]) if e.stream == "stderr"))

    def test_asyncio(self) -> None:
        async def main() -> None:
            checked: list[Any] = []

            async def check(result: Any) -> Any:
                await asyncio.sleep(0)
                checked.append(result)
                return result == "Rome" or "it begins with no capital letter"

            agent = aio.create_agent()
            self.assertEqual((await agent.execute_task("What is the capital of Italy?", check=check)).result, "Rome")
            self.assertEqual((await aio.execute_task("What is the average of 3, 5 and 10?")).result, "The average is 6.0.")
            manager = aio.TaskManager(agent)
            task = await manager.dispatch_task("What is the capital of Italy?", check=check)
            self.assertEqual((await manager.wait_for_task(task, timeout=60)).result, "Rome")
            self.assertEqual(checked, ["rome", "Rome"] * 2)

        asyncio.run(main())

    def test_lines_that_are_none(self) -> None:
        """What a program logs by itself is no step, and in a folder nothing that breaks the one who reads."""
        steps: list[Step] = []
        code = "from kernel import log\nlog({'task': {'step': {'turn': 1}}})\nprint('x')"
        self.assertTrue(create_agent().execute_task(code, on_step=steps.append))
        manager = TaskManager()
        self.assertTrue(manager.wait_for_task(manager.dispatch_task(code, on_step=steps.append)))
        self.assertEqual(steps, [])
        pid = self.client.spawn("from kernel import log\nlog('{\"task\":')\nlog({'task': 7})\nlog({'task': {'step': 7, 'result': {}, 'answered': 'no'}})").pid
        self.assertTrue(manager.wait_for_task(pid, on_step=steps.append, check=lambda r: 1 / 0))
        self.assertEqual(steps, [])

    def test_streams(self) -> None:
        events = list(create_agent().stream("What is the average of 3, 5 and 10?"))
        self.assertEqual("".join(e.text for e in events if e.stream == "stdout"), "The average is 6.0.\n")
        with self.assertRaises(errors.InvalidArgument):
            create_agent().stream("write a poem", check=lambda r: True).__next__()

    def test_what_cannot_be_asked_for(self) -> None:
        agent = create_agent()
        for task, options in [
            ("print(1)", {"schema": {"type": "number"}}),
            ("print(1)", {"check": lambda r: True}),
            ("write a poem", {"check": "no function"}),
            ("write a poem", {"on_step": 7}),
            ("write a poem", {"schema": "number"}),
            ("write a poem", {"model": 7}),
            ("write a poem", {"turns": "many"}),
            ("write a poem", {"args": ["a"]}),
        ]:
            with self.subTest(options), self.assertRaises(errors.InvalidArgument):
                agent.execute_task(task, **options)
        unknown = agent.execute_task("write a poem", model="clever")
        self.assertIn("clever", str(unknown.error))
        with self.assertRaises(TypeError):
            agent.execute_code("print(1)", schema={"type": "number"})


class Killer(logging.Handler):
    """Keeps what is said of a process that waits, and ends it when that is why."""

    def __init__(self, client: Client) -> None:
        super().__init__(logging.WARNING)
        self.client = client
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())
        assert isinstance(record.args, tuple) and isinstance(record.args[0], int)
        if "refused" in self.said[-1]:
            self.client.kill(record.args[0])


class Down(support.KernelTest):
    """The provider does not answer: nothing listens where its server should be."""

    def test_it_is_said_what_is_waited_for(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as held:
            port = held.getsockname()[1]
        models = [f"fast vllm:any url=http://127.0.0.1:{port}/v1 price=0/0"]

        async def waits() -> Any:
            result: Any = await aio.create_agent(models=models).execute_task("Wait for it.")
            return result

        log = logging.getLogger("agentkernel")
        for run in (lambda: create_agent(models=models).execute_task("Wait for it."), lambda: asyncio.run(waits())):
            killer = Killer(self.client)
            log.addHandler(killer)
            try:
                with mock.patch.object(_kernel, "_SILENCE", 0.05):
                    result = run()
            finally:
                log.removeHandler(killer)
            self.assertEqual((result.success, result.state), (False, "killed"))
            self.assertRegex(killer.said[-1], rf"^process {result.pid} is waiting for fast, .*connection refused")
            self.assertIn("`agentkernel doctor` looks where its server should be", killer.said[-1])


class Brought(support.KernelTest):
    """The kernel declares no model; the agent brings one."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        os.environ.pop("OPENAI_API_KEY", None)
        cls.provider = Provider(cls, "azure")

    def agent(self) -> agentkernel.AgentHelper:
        return create_agent(
            llm_enabled=True, llm_provider="azure_openai", llm_azure_endpoint=self.provider.url, llm_model="gpt-dev-mini", llm_api_key=KEY,
        )  # fmt: skip

    def test_the_agents_own_model(self) -> None:
        agent = self.agent()
        result, output, error = agent.execute_task("What is the average of 3, 5 and 10?")
        self.assertEqual((result, output, error), (True, "The average is 6.0.\n", None))
        manager = TaskManager(agent)
        task = manager.dispatch_task("What is the capital of Italy?")
        self.assertEqual(manager.wait_for_task(task).result, "rome")
        given = create_agent().execute_task(
            "What is the capital of Italy?", models=[f"mine openai:gpt-dev-mini url={self.provider.url}/openai/v1 key=given"], keys={"mine": KEY}
        )
        self.assertEqual((given.result, given.error), ("rome", None))
        self.client.shutdown()
        support.eventually("the kernel has ended", lambda: not os.path.exists(os.path.join(self.home, "kernel.sock")))
        for path in Path(self.home).rglob("*"):
            if path.is_file():
                self.assertNotIn(KEY.encode(), path.read_bytes(), path)

    def test_without_it(self) -> None:
        agent = create_agent()
        recipe = agent.execute_task("Calculate fibonacci(30)")
        self.assertEqual((recipe.output, recipe.mode), ("832040\n", "template"))
        poem = agent.execute_task("write a poem")
        self.assertEqual((poem.success, poem.pid, poem.mode), (False, None, "template"))
        assert poem.error is not None
        self.assertIn('models = ["fast openai:gpt-5-mini"]', poem.error.hint)
        self.assertIn("llm_enabled=True", poem.error.hint)
        for asked in ({"schema": {"type": "number"}}, {"check": lambda r: True}, {"model": "fast"}):
            refused = agent.execute_task("Calculate fibonacci(30)", **asked)
            assert refused.error is not None
            self.assertEqual((refused.pid, refused.error.code), (None, "unsupported"))
            self.assertIn("no model is configured", refused.error.message)
            self.assertIn('models = ["fast openai:gpt-5-mini"]', refused.error.hint)
        manager = TaskManager(agent)
        task = manager.dispatch_task("Calculate fibonacci(30)", schema={"type": "number"})
        self.assertLess(task, 0)
        self.assertEqual(manager.wait_for_task(task).error.code, "unsupported")
        self.assertTrue(agent.execute_task("Calculate fibonacci(30)", turns=3))


if __name__ == "__main__":
    unittest.main()
