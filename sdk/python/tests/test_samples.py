"""What users of the earlier AgentKernel know: their calls, under the names that they know, as far as they go without a model.
What needs a model says so, and leaves the rest of the program running."""

from __future__ import annotations

import os
import sys
import unittest
import warnings

import support
from agentkernel import Limits, errors

ROWS = 10_000_000


class Samples(support.KernelTest):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.makedirs(self.path("work"), exist_ok=True)
        os.chdir(self.path("work"))

    def needs_a_model(self, result: object) -> None:
        ok, output, error = result  # type: ignore[misc]
        self.assertEqual((ok, output), (False, ""))
        self.assertIsInstance(error, errors.Unsupported)
        self.assertIn("needs a model", error.hint)
        self.assertIn("planner=", error.hint)

    def test_first_steps(self) -> None:
        from code_execution_mcp import create_agent, execute_task

        result, output, error = execute_task("Calculate fibonacci(30)")
        self.assertEqual((result, output.strip(), error), (True, "832040", None))
        self.needs_a_model(create_agent().execute_task("Get weather for Paris"))

    def test_the_first_two_steps_in_one_turn(self) -> None:
        from agentkernel import create_agent

        self.write("work/tools/data_analysis/load_dataset.py", "import csv\n\ndef load_dataset(path):\n    with open(path) as f:\n        return list(csv.DictReader(f))\n")
        self.write("work/large_file.csv", "a,b\n1,2\n3,4\n")
        result = create_agent(workspace_dir=".").execute_task("""
            from tools.data_analysis import load_dataset

            # Load and process data locally in the sandbox
            rows = load_dataset("large_file.csv")
            print(len(rows), sum(int(row["b"]) for row in rows))
        """)
        self.assertEqual(result.output, "2 6\n")
        missing = create_agent().execute_task("import no_such_pandas as pd\nprint(pd)")
        self.assertIsInstance(missing.error, errors.Unsupported)
        self.assertIn("no_such_pandas", str(missing.error))
        self.assertIn("packages=", str(missing.error))

    def test_three_tasks_in_the_background(self) -> None:
        from code_execution_mcp import TaskManager, create_agent

        manager = TaskManager(create_agent())
        task1 = manager.dispatch_task("Analyze 1M row CSV")
        task2 = manager.dispatch_task("Scrape 50 websites")
        task3 = manager.dispatch_task("Calculate fibonacci(40)")
        results = [manager.wait_for_task(task) for task in [task1, task2, task3]]
        self.needs_a_model(results[0])
        self.needs_a_model(results[1])
        self.assertEqual((results[2].success, results[2].result), (True, 102334155))
        self.assertEqual([status.status for status in manager.list_tasks()], ["failed", "failed", "completed"])

    def test_a_hundred_files(self) -> None:
        from code_execution_mcp import TaskManager, create_agent

        for i in range(100):
            self.write(f"work/file_{i}.csv", f"name,value\na,{i}\nb,{2 * i}\n")
        manager = TaskManager(create_agent(workspace_dir="."))
        # Of "Process file_1.csv" only a model knows what it means; each file gets the same program.
        tasks = [manager.dispatch_task(f"import csv\nprint(sum(int(row['value']) for row in csv.DictReader(open('file_{i}.csv'))))") for i in range(100)]
        self.assertEqual([manager.wait_for_task(t).check().output for t in tasks], [f"{3 * i}\n" for i in range(100)])

    def test_ten_million_rows(self) -> None:
        """168 MB, streamed: the program may hold less memory than the file has, and nothing of it passes through here."""
        from code_execution_mcp import create_agent, execute_task

        task = "Analyze sales_data.csv (10M rows) and generate monthly revenue report"
        self.needs_a_model(execute_task(task))
        rows = "".join(f"2026-{1 + i % 12:02d},{i % 1000:03d},{i % 89 + 10}.5\n" for i in range(12_000))
        with open("sales_data.csv", "w") as f:
            f.write("month,item,amount\n")
            for _ in range(ROWS // 12_000):
                f.write(rows)
            f.write("".join(rows.splitlines(True)[: ROWS % 12_000]))
        size = os.path.getsize("sales_data.csv")
        self.assertGreater(size, 160_000_000)
        program = """
            totals, rows = {}, 0
            with open("sales_data.csv") as f:
                next(f)
                for line in f:
                    totals[line[:7]] = totals.get(line[:7], 0.0) + float(line[12:])
                    rows += 1
            with open("report.csv", "w") as out:
                for month in sorted(totals):
                    out.write(f"{month},{totals[month]:.2f}\\n")
            print(rows, len(totals))
        """
        agent = create_agent(workspace_dir=".", planner=lambda task, tools: program, limits=Limits(memory="96m", time="1h"))
        result = agent.execute_task(task).check()
        self.assertEqual((result.mode, result.output), ("planner", f"{ROWS} 12\n"))
        self.assertEqual([a.name for a in result.artifacts()], ["report.csv"])
        result.apply()
        with open("report.csv") as report:
            self.assertEqual([line.split(",")[0] for line in report], [f"2026-{m:02d}" for m in range(1, 13)])
        print(f"\n{size / 1e6:.0f} MB, {ROWS:,} rows in {result.duration:.1f} s with 96 MB of memory", file=sys.stderr)
        os.unlink("sales_data.csv")

    def test_settings_for_models(self) -> None:
        from code_execution_mcp import create_agent

        azure = {"llm_enabled": True, "llm_provider": "azure_openai", "llm_azure_endpoint": "https://your-resource.openai.azure.com", "llm_api_key": "your_key"}
        with self.assertRaisesRegex(errors.InvalidArgument, "without a model") as caught:
            create_agent(**azure)
        self.assertNotIn("your_key", str(caught.exception))
        agent = create_agent(llm_azure_deployment="gpt-4o", **azure)
        self.assertNotIn("your_key", repr(agent) + repr(agent.agent.settings))
        self.assertEqual(agent.execute_code("1 + 1").check().result, 2)  # a task in plain language would be the model's

    def test_state(self) -> None:
        from code_execution_mcp import create_agent

        agent = create_agent(state_enabled=True, state_file="workflow_state.json", state_auto_save=True)
        agent.execute_task("from kernel import state\nstate.set('step', 2)").check()
        self.assertTrue(os.path.exists("workflow_state.json"))
        again = create_agent(state_enabled=True, state_file="workflow_state.json", state_auto_save=True)
        self.assertEqual(again.get_state(), {"step": 2})

    def test_a_pooled_sandbox_is_reused(self) -> None:
        """Nothing is configured for it."""
        from code_execution_mcp import create_agent

        agent = create_agent()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual([agent.execute_task("1 + 1").result for _ in range(3)], [2, 2, 2])


if __name__ == "__main__":
    unittest.main()
