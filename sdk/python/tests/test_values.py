"""Values survive the way to a program and back (docs/values.md)."""

from __future__ import annotations

import collections
import datetime
import json
import math
import random
import unittest
from pathlib import PurePosixPath

import support  # noqa: F401 - finds the package
from agentkernel.errors import InternalError, InvalidArgument
from agentkernel.values import canonical, from_wire, parse, plain, source, to_wire

Point = collections.namedtuple("Point", ["x", "y"])

TABLE = [
    (None, "null"),
    (True, "true"),
    (0, "0"),
    (-(2**200), str(-(2**200))),
    (1.0, "1.0"),
    (1e22, "1e+22"),
    (-0.0, "-0.0"),
    (math.inf, '{"$float":"inf"}'),
    (-math.inf, '{"$float":"-inf"}'),
    ("é\n\u2028", json.dumps("é\n\u2028", ensure_ascii=False)),
    (b"x\x00", '{"$bytes":"eAA="}'),
    ([1, "a"], '[1,"a"]'),
    ((1, (2,)), '{"$tuple":[1,{"$tuple":[2]}]}'),
    ({3, 1}, '{"$set":[1,3]}'),
    (frozenset(["b", "a"]), '{"$frozenset":["a","b"]}'),
    ({"a": 1}, '{"a":1}'),
    ({"$a": 1}, '{"$dict":[["$a",1]]}'),
    ({1: {2: 3}}, '{"$dict":[[1,{"$dict":[[2,3]]}]]}'),
    ({(1, 2): 3}, '{"$dict":[[{"$tuple":[1,2]},3]]}'),
    (datetime.date(2026, 11, 21), '{"$date":"2026-11-21"}'),
    (datetime.time(13, 45, 0, 1), '{"$time":"13:45:00.000001"}'),
    (datetime.datetime(2026, 11, 21, tzinfo=datetime.timezone.utc), '{"$datetime":"2026-11-21T00:00:00+00:00"}'),
    (datetime.timedelta(days=-1, seconds=5), '{"$timedelta":[-1,5,0]}'),
    (datetime.timezone(datetime.timedelta(hours=2)), '{"$timezone":[7200,null]}'),
    (datetime.timezone(datetime.timedelta(hours=2), "X"), '{"$timezone":[7200,"X"]}'),
    (PurePosixPath("a/b"), '{"$path":"a/b"}'),
    (Point(1, 2), '{"$namedtuple":{"fields":["x","y"],"type":"Point","values":[1,2]}}'),
]


class Values(unittest.TestCase):
    def test_table(self) -> None:
        for value, text in TABLE:
            with self.subTest(value=value):
                self.assertEqual(canonical(to_wire(value)), text)
                back = from_wire(parse(text))
                self.assertEqual(back, value)
                self.assertEqual(type(back).__name__, type(value).__name__)

    def test_nan_and_minus_zero(self) -> None:
        self.assertTrue(math.isnan(from_wire(to_wire(math.nan))))
        self.assertEqual(math.copysign(1, from_wire(parse("-0.0"))), -1)

    def test_long_integers(self) -> None:
        n = 7**12345
        digits = 0
        text = []
        rest = n
        while rest:  # str(n) is refused by CPython
            rest, digits = divmod(rest, 10**4000)
            text.append(f"{digits:04000d}" if rest else str(digits))
        self.assertEqual(parse("".join(reversed(text))), n)
        self.assertEqual(parse("-" + "".join(reversed(text))), -n)

    def test_exceptions_and_one_way_values(self) -> None:
        e = from_wire({"$exception": {"type": "ValueError", "arg": "no"}})
        self.assertIsInstance(e, ValueError)
        self.assertEqual(str(e), "no")
        self.assertIsInstance(from_wire({"$exception": {"type": "UnicodeDecodeError", "arg": "x"}}), RuntimeError)
        self.assertIsInstance(from_wire({"$exception": {"type": "SystemExit", "arg": "x"}}), RuntimeError)
        self.assertEqual(from_wire({"$object": {"type": "P", "fields": {"x": {"$tuple": []}}}}), {"x": ()})
        self.assertEqual(from_wire({"$repr": "<function f>"}), "<function f>")
        self.assertEqual(from_wire({"$unknown": [1]}), {"$unknown": [1]})
        self.assertEqual(from_wire({"$namedtuple": {"type": "a b", "fields": ["class"], "values": [1]}})[0], 1)

    def test_plain(self) -> None:
        wire = to_wire({"t": (1, 2), "b": b"x", "n": math.nan, "d": {1: 2}, "s": {1}, "w": datetime.timedelta(seconds=1.5), "m": {(1,): 2}})
        self.assertEqual(plain(wire), {"t": [1, 2], "b": "eA==", "n": None, "d": {"1": 2}, "s": [1], "w": 1.5, "m": [[[1], 2]]})

    def test_refused(self) -> None:
        for value in (object(), lambda: 1, {"a": object()}, iter([])):
            with self.assertRaises(InvalidArgument):
                to_wire(value)
        with self.assertRaises(InternalError):
            parse("{")
        with self.assertRaises(InternalError):
            parse("[" * 100_000)

    def test_source_is_python_for_the_same_value(self) -> None:
        scope = {"datetime": datetime, "Path": PurePosixPath}
        for value, _ in TABLE:
            with self.subTest(value=value):
                self.assertEqual(eval(source(value), scope), tuple(value) if isinstance(value, Point) else value)
        self.assertEqual(eval(source(9**9999), scope), 9**9999)

    def test_random_values(self) -> None:
        rng = random.Random(1)

        def make(depth: int) -> object:
            kind = rng.randrange(10 if depth < 4 else 6)
            if kind < 6:
                return [None, rng.random() < 0.5, rng.randrange(-(10**20), 10**20), rng.uniform(-1e9, 1e9), "".join(rng.choices("ab\"\\$\n\0é😀", k=4)),
                        rng.randbytes(3)][kind]  # fmt: skip
            items = [make(depth + 1) for _ in range(rng.randrange(4))]
            if kind == 6:
                return items
            if kind == 7:
                return tuple(items)
            keys = [rng.choice(["a", "$b", 1, 2.5, (1, 2), b"k"]) for _ in items]
            return dict(zip(keys, items))

        for _ in range(2000):
            value = make(0)
            self.assertEqual(from_wire(parse(canonical(to_wire(value)))), value)


if __name__ == "__main__":
    unittest.main()
