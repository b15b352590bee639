"""Packages of an agent's programs: from a folder of wheels, with the real pip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

import support
from agentkernel import create_agent, errors


def wheel(folder: Path, name: str, version: str, text: str) -> None:
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": text,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as z:
        for path, content in files.items():
            z.writestr(path, content)
        z.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"]))


class Packages(support.KernelTest):
    def setUp(self) -> None:
        super().setUp()
        if subprocess.run(["python3", "-m", "pip", "--version"], capture_output=True).returncode != 0:
            support.missing("pip of python3")
        self.wheels = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.wheels)
        wheel(self.wheels, "greeter", "1.5", "def hello(name): return 'hello ' + name\n")
        shop = mock.patch.dict(os.environ, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)})
        shop.start()
        self.addCleanup(shop.stop)

    def test_programs_have_packages(self) -> None:
        agent = create_agent(packages=["greeter>=1"])
        for name in ("Ada", "Bob"):
            ran = agent.execute_code(f"import greeter\nprint(greeter.hello({name!r}))")
            self.assertEqual((ran.output, ran.error), (f"hello {name}\n", None))
        assert ran.pid is not None
        self.assertEqual(self.client.ps(all=True)[0].backend, "process")
        with_one = create_agent(packages="greeter").execute_code("import greeter\ngreeter.hello('Cy')")
        self.assertEqual(with_one.result, "hello Cy")
        self.assertIsNotNone(create_agent().execute_code("import greeter").error)

    def test_deleted_environments_are_built_again(self) -> None:
        agent = create_agent(packages="greeter")
        self.assertIsNone(agent.execute_code("import greeter").error)
        subprocess.run([support.binary(), "env", "rm", "--all"], check=True, capture_output=True)
        self.assertIsNone(agent.execute_code("import greeter").error)

    def test_what_cannot_be_had(self) -> None:
        for packages, says in [("nowhere", "nowhere"), (["greeter", "x @ https://evil.test/x.whl"], "links and paths"), ("--index-url=http://evil.test", "is not a package")]:
            before = len(self.client.ps(all=True))
            with self.assertRaises(errors.InvalidArgument) as raised:
                create_agent(packages=packages).execute_code("1")
            self.assertIn(says, str(raised.exception))
            self.assertEqual(len(self.client.ps(all=True)), before)


if __name__ == "__main__":
    unittest.main()
