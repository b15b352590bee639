# Runs one module of CPython's tests and tells how each case ended.
import importlib
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(sys.prefix, "cpython"))
from test import support
from test.support import os_helper

RANK = ("ok", "expected failure", "skip", "unexpected success", "fail")


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.cases = {}
        self.times = {}

    def startTest(self, test):
        super().startTest(test)
        os.write(2, b"at %s\n" % test.id().encode("ascii", "replace"))  # shown if the module does not end
        key = test.id()
        self.times[key] = self.times.get(key, 0) + 1

    def note(self, test, outcome, why=""):
        key = test.id().split(" [")[0]
        if self.times.get(key, 1) > 1:  # classes that are made in a loop have one name
            key += " #%d" % self.times[key]
        old = self.cases.get(key, ["ok", ""])
        if RANK.index(outcome) >= RANK.index(old[0]):
            self.cases[key] = [outcome, why]

    def addSuccess(self, test):
        self.note(test, "ok")

    def addSkip(self, test, reason):
        self.note(getattr(test, "test_case", test), "skip", reason)

    def addExpectedFailure(self, test, err):
        self.note(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self.note(test, "unexpected success")

    def addError(self, test, err):
        self.note(test, "fail", self._exc_info_to_string(err, test)[-1500:])

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.note(test, "fail", self._exc_info_to_string(err, test)[-1500:])


def run(name):
    result = Result()
    support.use_resources = ["cpu", "subprocess", "decimal"]
    support.verbose = 0
    with os_helper.temp_cwd():
        module = importlib.import_module("test." + name)
        unittest.defaultTestLoader.loadTestsFromModule(module).run(result)
    return json.dumps(result.cases)
