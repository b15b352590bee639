"""Tool search and skills, of the client, of agents, and with await."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import unittest

import support
from agentkernel import Tool, aio, create_agent, errors

REPORT = """
    def monthly(rows, year=None):
        return sum(rows)

    def _hidden():
        pass
"""


class Search(support.KernelTest):
    def test_search_tools(self) -> None:
        os.makedirs(self.path("files"))
        agent = create_agent(workspace_dir=self.path("files"))
        found = agent.search_tools("put text at the end of a file", 2)
        self.assertEqual((len(found), found[0].import_line), (2, "from tools.workspace import append_text_file"))
        self.assertIsInstance(found[0], Tool)
        self.assertEqual(agent.search_tools("zzzz"), [])
        self.assertEqual(len(agent.search_tools("", 3)), 3)
        self.assertEqual(create_agent().search_tools("anything"), [])
        with self.assertRaises(errors.InvalidArgument):
            agent.search_tools("x", -1)
        with self.assertRaises(errors.InvalidArgument):
            agent.search_tools(None)  # type: ignore[arg-type]

    def test_a_server_that_cannot_be_asked(self) -> None:
        broken = self.write("broken.json", json.dumps({"mcpServers": {"broken": {"command": "false"}}}))
        with self.assertLogs("agentkernel", logging.WARNING) as logs:
            self.assertEqual(self.client.search_tools(broken, "read"), [])
        self.assertIn("broken", logs.output[0])


class Skills(support.KernelTest):
    def test_skills(self) -> None:
        agent = create_agent()
        saved = agent.save_skill("report", REPORT, "Monthly sums.", ["sales"])
        self.assertEqual((saved.version, saved.functions, saved.tags, saved.import_line), (1, ("monthly(rows, year=None)",), ("sales",), "from skills.report import monthly"))
        self.assertEqual(agent.execute_task("from skills.report import monthly\nmonthly([1, 2])").result, 3)
        self.assertEqual(agent.save_skill("report", REPORT.replace("sum", "max")).version, 2)
        self.assertEqual(agent.execute_task("from skills.report import monthly\nmonthly([1, 2])").result, 2)
        self.assertIn("sum(rows)", agent.get_skill("report", 1).code)
        self.assertEqual([(s.name, s.version, s.code) for s in agent.list_skills()], [("report", 2, "")])
        self.assertEqual([s.name for s in self.client.search_skills("reports")], ["report"])
        self.assertEqual(create_agent(namespace="other").list_skills(), [])
        agent.delete_skill("report")
        with self.assertRaises(errors.NotFound):
            agent.get_skill("report")
        self.assertFalse(agent.execute_task("from skills.report import monthly"))

    def test_skills_that_cannot_be(self) -> None:
        with self.assertRaises(errors.ProgramSyntaxError):
            self.client.save_skill("bad", "def f(:")
        with self.assertRaises(errors.InvalidArgument):
            self.client.save_skill("../bad", "def f():\n    pass")
        with self.assertRaises(errors.InvalidArgument):
            self.client.save_skill("nothing", "x = 1")
        self.assertEqual(self.client.list_skills(), [])

    def test_with_await(self) -> None:
        async def all_of_it() -> None:
            os.makedirs(self.path("more"))
            agent = aio.create_agent(workspace_dir=self.path("more"))
            self.assertEqual((await agent.search_tools("read a file", 1))[0].python_server, "workspace")
            await agent.save_skill("later", "def f():\n    return 5\n", tags="one")
            self.assertEqual((await agent.execute_code("from skills.later import f\nf()")).result, 5)
            self.assertEqual([s.tags for s in await agent.list_skills()], [("one",)])
            await agent.delete_skill("later")

        asyncio.run(all_of_it())


if __name__ == "__main__":
    unittest.main()
