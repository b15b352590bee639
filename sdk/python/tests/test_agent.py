"""Agents: code, tasks, state, workspace."""

from __future__ import annotations

import json
import logging
import os
import unittest
from pathlib import Path

import support
import agentkernel
from agentkernel import TaskManager, create_agent, errors, execute_code, execute_task

COUNT = """
    from kernel import state
    state.set('n', state.get('n', 0) + 1)
    print(state.get('n'))
"""


class Agents(support.KernelTest):
    def test_template_mode(self) -> None:
        with self.assertLogs("agentkernel", logging.INFO) as logs:
            r = create_agent().execute_task("Calculate fibonacci(30)")
        self.assertEqual((r.output, r.result, r.mode, r.success), ("832040\n", 832040, "template", True))
        self.assertIn("answer = fibonacci(30)", r.code)
        self.assertIn("Fibonacci number 30", r.title)
        self.assertIn("template mode (no model is asked)", logs.output[0])
        result, output, error = execute_task("What is 15% of 240?")
        self.assertEqual((result, output, error), (True, "36.0\n", None))

    def test_template_mode_refuses(self) -> None:
        for task, says in [("write a poem", "template mode"), ("Calculate fibonacci(30) and mail it", "template mode"), ("Process x.csv", "reads text files")]:
            before = len(self.client.ps(all=True))
            ok, output, error = r = create_agent().execute_task(task)
            self.assertEqual((ok, output, r.pid, r.state), (False, "", None, "refused"))
            self.assertIsInstance(error, errors.Unsupported)
            self.assertIn(says, str(error))
            self.assertTrue(error.hint)
            self.assertEqual(len(self.client.ps(all=True)), before)

    def test_code_is_detected_and_dedented(self) -> None:
        r = create_agent().execute_task("""
            import json
            for i in range(2):
                print(json.dumps({"i": i}))
            1 / 0
        """)
        self.assertEqual((r.output, r.mode), ('{"i": 0}\n{"i": 1}\n', "code"))
        assert r.error is not None
        self.assertIn("line 5, in <module>", r.error.traceback)  # the user's own lines

    def test_execute_code(self) -> None:
        self.assertEqual(execute_code("6 * 7").result, 42)
        r = create_agent().execute_code("fibonacci(3)")
        assert r.error is not None
        self.assertIn("NameError", str(r.error))
        ran = create_agent().execute_code("import sys\nprint(sys.argv[1:])", args=["a b"], name="named.py")
        self.assertEqual(ran.output, "['a b']\n")
        assert ran.process is not None
        self.assertEqual(ran.process.name, "named.py")

    def test_callbacks_and_streams(self) -> None:
        seen: list[str] = []
        agent = create_agent()
        agent.execute_task("print('a')", on_output=lambda e: seen.append(e.text))
        self.assertEqual(seen, ["a\n"])
        self.assertEqual([e.text for e in agent.stream("7 times 6") if e.kind == "output"], ["42\n"])
        with self.assertRaises(errors.Unsupported):
            list(agent.stream("write a poem"))

    def test_timeout_and_limits(self) -> None:
        agent = create_agent(timeout=0.3, limits=agentkernel.Limits(output="1k"))
        for code, says in [("from kernel import sleep\nsleep(9)", "wall limit"), ("while True: print('x' * 100)", "output limit")]:
            r = agent.execute_task(code)
            assert r.error is not None
            self.assertEqual(r.error.code, "limit_exceeded")
            self.assertIn(says, r.error.message)
        self.assertTrue(agent.execute_task("from kernel import sleep\nsleep(0.5)", timeout=20).success)

    def test_planner(self) -> None:
        seen = []

        def planner(task: str, tools: list[agentkernel.Tool]) -> str:
            seen.append((task, tools))
            return "```python\nprint('planned')\n```"

        r = create_agent(planner=planner).execute_task("write a poem")
        self.assertEqual((r.output, r.mode, r.code), ("planned\n", "planner", "print('planned')"))
        self.assertEqual(seen, [("write a poem", [])])  # there is no folder tools here
        with self.assertRaises(errors.InvalidArgument):
            create_agent(planner=lambda task, tools: None).execute_task("write a poem")
        with self.assertRaises(ZeroDivisionError):
            create_agent(planner=lambda task, tools: 1 / 0).execute_task("write a poem")

    def test_context_manager(self) -> None:
        with create_agent() as agent:
            self.assertTrue(agent.execute_task("x = 1").success)
        self.assertEqual(agent.client.home, self.home)


class State(support.KernelTest):
    def test_in_memory(self) -> None:
        agent = create_agent(state_enabled=True)
        self.assertEqual([agent.execute_task(COUNT).output for _ in range(3)], ["1\n", "2\n", "3\n"])
        self.assertEqual(agent.get_state(), {"n": 3})
        self.assertEqual(create_agent(state_enabled=True).execute_task(COUNT).output, "1\n")
        self.assertEqual(create_agent().execute_task(COUNT).output, "1\n")

    def test_file(self) -> None:
        file = self.path("flow.json")
        for n in (1, 2, 3):
            self.assertEqual(create_agent(state_enabled=True, state_file=file).execute_task(COUNT).output, f"{n}\n")
        self.assertEqual(json.loads(Path(file).read_text()), {"n": 3})

    def test_values_survive(self) -> None:
        agent = create_agent(state_enabled=True, state_file=self.path("values.json"))
        source = "import datetime\nfrom pathlib import Path\nv = (1, 2.5, b'x', {1: 'a', (1, 2): None}, {3}, frozenset(['b']), float('inf'), 10**400, 'é\"\\'\\n', " \
                 "datetime.datetime(2026, 11, 21, 1, 2, 3, tzinfo=datetime.timezone.utc), datetime.timedelta(days=1), datetime.date(2026, 1, 2), " \
                 "Path('a/b'), [True, None])\n"  # fmt: skip
        agent.execute_task(source + "from kernel import state\nstate.set('v', v)").check()
        again = create_agent(state_enabled=True, state_file=self.path("values.json"))
        r = again.execute_task(source + "from kernel import state\nw = state.get('v')\nfor a, b in zip(v, w):\n    if a != b: print(a, b)\nprint(len(w))").check()
        self.assertEqual(r.output, "14\n")

    def test_auto_save_off(self) -> None:
        file = self.path("manual.json")
        agent = create_agent(state_enabled=True, state_file=file, state_auto_save=False)
        agent.execute_task(COUNT).check()
        self.assertEqual((agent.state, os.path.exists(file)), ({"n": 1}, False))
        agent.state["host"] = [1]
        agent.save_state()
        self.assertEqual(json.loads(Path(file).read_text()), {"n": 1, "host": [1]})
        agent.save_state({"n": 41})
        self.assertEqual(agent.execute_task(COUNT).output, "42\n")

    def test_what_a_failing_program_set_stays_set(self) -> None:
        agent = create_agent(state_enabled=True)
        r = agent.execute_task("from kernel import state\nstate.set('step', 3)\nraise ValueError('no')")
        self.assertFalse(r.success)
        self.assertEqual(agent.state, {"step": 3})

    def test_lines_of_tracebacks_do_not_move(self) -> None:
        agent = create_agent(state_enabled=True)
        agent.state["k"] = 1
        for source, line in [("1 / 0", 1), ("def f():\n    1 / 0\nf()", 3), ("\n\n1 / 0", 3), ("# c\n1 / 0", 2), ("for i in [1]:\n    1 / 0", 2), ("'''doc'''\n1 / 0", 2)]:
            r = agent.execute_code(source)
            assert r.error is not None
            self.assertIn(f"line {line}, in", r.error.traceback, source)
            self.assertEqual(r.code, source)

    def test_deleted_keys_are_deleted(self) -> None:
        agent = create_agent(state_enabled=True, state_file=self.path("deleted.json"))
        agent.save_state({"a": 1, "b": 2})
        agent.execute_task("from kernel import state\nstate.delete('a')").check()
        self.assertEqual(json.loads(Path(self.path("deleted.json")).read_text()), {"b": 2})

    def test_without_state(self) -> None:
        agent = create_agent()
        self.assertEqual(agent.state, {})
        with self.assertRaises(errors.InvalidArgument):
            agent.save_state({"a": 1})

    def test_a_state_that_cannot_be_kept_replaces_nothing(self) -> None:
        agent = create_agent(state_enabled=True)
        agent.save_state({"a": 1})
        for wrong in ({"a": object()}, {5: 1}, "text", [("a", 1)]):
            with self.assertRaises(errors.InvalidArgument):
                agent.save_state(wrong)  # type: ignore[arg-type]
            self.assertEqual(agent.state, {"a": 1})

    def test_state_that_cannot_be_handed_to_a_program(self) -> None:
        agent = create_agent(state_enabled=True)
        agent.state["f"] = open
        with self.assertRaises(errors.InvalidArgument):
            agent.execute_task("x = 1")


class Shim(support.KernelTest):
    def test_old_imports_work(self) -> None:
        import code_execution_mcp
        import code_execution_mcp.server as server

        self.assertIs(code_execution_mcp.create_agent, create_agent)
        self.assertIs(code_execution_mcp.TaskManager, TaskManager)
        self.assertIs(code_execution_mcp.run_server, agentkernel.run_server)
        self.assertIs(server.run_server, agentkernel.run_server)
        result, output, error = code_execution_mcp.execute_task("Calculate fibonacci(10)")
        self.assertEqual((result, output, error), (True, "55\n", None))

    def test_all_names_exist(self) -> None:
        import agentkernel.aio
        import code_execution_mcp

        for module in (agentkernel, agentkernel.aio, code_execution_mcp):
            for name in module.__all__:
                self.assertTrue(hasattr(module, name), name)
        with self.assertRaises(AttributeError):
            agentkernel.no_such_name


if __name__ == "__main__":
    unittest.main()
