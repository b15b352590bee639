"""What a tool says of a function: its signature, its docstring, its effect. No kernel is asked."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import sys
import unittest
from pathlib import Path
from typing import Annotated, Any, Callable, Iterator, Literal, Mapping, Optional, Sequence, TypedDict, Union

import support  # noqa: F401  (it finds the package)
from agentkernel import create_agent, effect
from agentkernel._schema import Unreadable, kind_of, plain
from agentkernel.functions import functions_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Line:
    item: str
    count: int = 1
    colour: Colour = Colour.RED


class Address(TypedDict):
    city: str
    zip: Optional[str]


class Node(TypedDict):
    next: "Node"


TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


class Hints(unittest.TestCase):
    def test_schemas(self) -> None:
        cases: list[tuple[Any, dict[str, Any]]] = [
            (Any, {}), (str, TEXT), (int, WHOLE), (float, NUMBER), (bool, {"type": "boolean"}), (None, {"type": "null"}),
            (list, {"type": "array"}), (list[int], {"type": "array", "items": WHOLE}), (Sequence[str], {"type": "array", "items": TEXT}),
            (tuple[int, ...], {"type": "array", "items": WHOLE}),
            (dict, {"type": "object", "additionalProperties": True}), (Mapping[str, float], {"type": "object", "additionalProperties": NUMBER}),
            (Optional[int], {"anyOf": [WHOLE, {"type": "null"}]}), (Union[int, str], {"anyOf": [WHOLE, TEXT]}),
            (Optional[Annotated[Optional[int], "how many"]], {"anyOf": [WHOLE, {"type": "null"}]}),
            (Literal["a", "b"], {"enum": ["a", "b"]}), (Colour, {"enum": ["red", "blue"]}), (Annotated[int, "how many"], WHOLE),
            (list[dict[str, Optional[str]]], {"type": "array", "items": {"type": "object", "additionalProperties": {"anyOf": [TEXT, {"type": "null"}]}}}),
            (Address, {"type": "object", "properties": {"city": TEXT, "zip": {"anyOf": [TEXT, {"type": "null"}]}}, "required": ["city", "zip"], "additionalProperties": False}),
            (Line, {"type": "object", "properties": {"item": TEXT, "count": WHOLE, "colour": {"enum": ["red", "blue"]}}, "required": ["item"], "additionalProperties": False}),
        ]  # fmt: skip
        for hint, schema in cases:
            with self.subTest(hint=hint):
                self.assertEqual(kind_of(hint).schema, schema)

    def test_what_a_schema_cannot_say(self) -> None:
        for hint in (bytes, set[str], dict[int, str], tuple[int, str], Callable[[], None], datetime.date, Node, Iterator[int], type):
            with self.subTest(hint=hint), self.assertRaises(Unreadable):
                kind_of(hint)

    def test_values(self) -> None:
        read = kind_of(list[Line]).read
        self.assertEqual(read([{"item": "a"}, {"item": "b", "count": 2, "colour": "blue"}], "lines"), [Line("a"), Line("b", 2, Colour.BLUE)])
        self.assertEqual(kind_of(tuple[int, ...]).read([1, 2.0], "t"), (1, 2))
        self.assertIs(type(kind_of(float).read(2, "n")), float)
        for hint, value, says in [
            (list[Line], [{"item": 1}], "lines[0].item is not a text"), (list[Line], [{}], "lines[0].item is missing"), (list[Line], [{"item": "a", "x": 1}], "lines[0] has no member x"),
            (int, True, "lines is not a whole number"), (int, 1.5, "lines is not a whole number"), (Literal["a", 1], True, "lines is not one of 'a', 1"), (dict[str, int], {"a": "b"}, "lines['a'] is not a whole number"),
        ]:  # fmt: skip
            with self.subTest(says), self.assertRaises(Unreadable) as refused:
                kind_of(hint).read(value, "lines")
            self.assertEqual(str(refused.exception), says)

    def test_results(self) -> None:
        value = {"a": (1, 2.5, None, True), "line": Line("x"), "day": datetime.date(2026, 1, 2), "path": Path("a/b")}
        self.assertEqual(plain(value), {"a": [1, 2.5, None, True], "line": {"item": "x", "count": 1, "colour": "red"}, "day": "2026-01-02", "path": "a/b"})
        for wrong, says in [({"n": [float("nan")]}, "the result['n'][0] is nan"), ({1: 2}, "the key 1"), ({"b": b""}, "of type bytes"), ({1, 2}, "of type set")]:
            with self.subTest(says), self.assertRaises(Unreadable) as refused:
                plain(wrong)
            self.assertIn(says, str(refused.exception))


class Functions(unittest.TestCase):
    def test_a_tool(self) -> None:
        @effect("read")
        def stock(item: str, warehouse: str = "north", limit: Annotated[Optional[int], "at most so many"] = None, *, exact=False) -> dict:  # type: ignore[no-untyped-def, type-arg]
            """How many pieces of an item
            are in a warehouse.

            Looks into the books.

            Args:
                item (str): its number,
                    as in the catalogue
                warehouse: north: or south

            Returns:
                limit: of no importance here
            """

        tool = functions_of(stock)["stock"].tool()
        self.assertEqual(tool["description"], "How many pieces of an item are in a warehouse.")
        self.assertEqual(tool["inputSchema"]["required"], ["item"])
        self.assertEqual(tool["inputSchema"]["properties"], {
            "item": {"type": "string", "description": "its number, as in the catalogue"},
            "warehouse": {"type": "string", "description": "north: or south", "default": "north"},
            "limit": {"anyOf": [WHOLE, {"type": "null"}], "description": "at most so many", "default": None},
            "exact": {"default": False},
        })  # fmt: skip
        self.assertEqual(tool["outputSchema"]["properties"]["result"], {"type": "object", "additionalProperties": True})
        self.assertEqual(tool["annotations"], {"readOnlyHint": True})

    def test_effects(self) -> None:
        def change() -> None: ...

        self.assertEqual(functions_of([change])["change"].tool()["annotations"]["destructiveHint"], True)
        self.assertEqual(functions_of(effect("idempotent")(change))["change"].tool()["annotations"]["idempotentHint"], True)
        with self.assertRaisesRegex(ValueError, "'reads'.*'read', 'idempotent', 'write'"):
            effect("reads")

    def test_a_default_that_a_schema_cannot_say_is_left_out(self) -> None:
        def f(a: Any = object()) -> None: ...

        self.assertEqual(functions_of(f)["f"].tool()["inputSchema"]["properties"], {"a": {}})

    def test_methods(self) -> None:
        class Shop:
            @effect("read")
            def stock(self, item: str) -> int:
                return len(item)

        function = functions_of([Shop().stock])["stock"]
        self.assertEqual((list(function.parameters), function.effect, function.call(item="abc")), (["item"], "read", 3))

    def test_what_cannot_be_described(self) -> None:
        def positional(a: int, /) -> None: ...
        def many(*rest: int) -> None: ...
        def named(**rest: int) -> None: ...
        def raw(a: int, data: bytes) -> None: ...
        def result() -> set[int]: ...
        def yields() -> Iterator[int]:
            yield 1
        def unknown(a: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821
        def same(a: int) -> None: ...

        for given, says in [
            (positional, r"positional\(\): the parameter a is positional-only"), (many, r"many\(\): the parameter rest is \*rest"), (named, r"named\(\): the parameter rest is \*\*rest"),
            (raw, r"raw\(\): the parameter data cannot be described: bytes is none of the types"), (result, r"result\(\): programs cannot be given its result: set\[int\]"),
            (yields, r"yields\(\) yields its results"), (unknown, r"unknown\(\): the parameter a has a hint that cannot be read \(NameError: name 'Missing' is not defined\)"),
            ([same, same], "two functions of the name same"), (lambda: 1, "no name that programs could import"), (functools.partial(same, 1), "no name that programs could import"),
            (Line, "is not a function"), ("same", "is not a list of functions"), ({"same": same}, "is not a list of functions"), ([1], "holds 1, which is not a function"),
        ]:  # fmt: skip
            with self.subTest(says), self.assertRaisesRegex(TypeError, says):
                create_agent(functions=given)  # type: ignore[arg-type]

    def test_arguments(self) -> None:
        def f(a: int, b: str = "x") -> None: ...

        function = functions_of(f)["f"]
        self.assertEqual(function.arguments({"a": 1}), {"a": 1})
        for given, says in [({}, "the argument a is missing"), ({"a": 1, "c": 2}, "there is no parameter c"), ({"a": "1"}, "a is not a whole number"), ([1], "no object")]:
            with self.subTest(says), self.assertRaisesRegex(Unreadable, says):
                function.arguments(given)


if __name__ == "__main__":
    sys.exit(unittest.main())
