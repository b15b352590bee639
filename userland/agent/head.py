"""Does a task in plain language: a model writes programs, the kernel runs them. docs/do.md says how it is used."""
import base64
import json
import re
import sys

from kernel import exit, llm, log, signals, spawn, tool, wait

setup = {"skills": [], "save": "", "steps": False, "agents": 0, "parted": False, "rules": ""}  # what a caller may leave out
setup.update(json.loads(sys.argv[1]))  # what agent.Task has, with local tools and prompts; the user's pictures follow, in base64
