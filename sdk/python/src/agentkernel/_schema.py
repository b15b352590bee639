"""Type hints as JSON Schemas, and JSON as values of these types and back."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import math
import types
import typing
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Callable, Union, get_args, get_origin

#: Reads a value of JSON; the text is where it stands, for errors.
Read = Callable[[Any, str], Any]


class Unreadable(Exception):
    """A hint says nothing that a schema could, or a value is not what it should be."""


@dataclass(frozen=True)
class Kind:
    """A type: the schema that says it, and how its values are read."""

    schema: dict[str, Any]
    read: Read
    doc: str = ""


def _is(names: str, *classes: type) -> Read:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, classes) or isinstance(value, bool) and bool not in classes:
            raise Unreadable(f"{where} is not {names}")
        return value

    return read


def _float(value: Any, where: str) -> float:
    return float(_is("a number", int, float)(value, where))


def _int(value: Any, where: str) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # for JSON, 2.0 is a whole number
    return int(_is("a whole number", int)(value, where))


_SIMPLE: dict[Any, Kind] = {
    Any: Kind({}, lambda value, where: value),
    object: Kind({}, lambda value, where: value),
    str: Kind({"type": "string"}, _is("a text", str)),
    bool: Kind({"type": "boolean"}, _is("true or false", bool)),
    int: Kind({"type": "integer"}, _int),
    float: Kind({"type": "number"}, _float),
    type(None): Kind({"type": "null"}, _is("null", type(None))),
}

_LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def kind_of(hint: Any, inside: tuple[Any, ...] = ()) -> Kind:
    """The kind of a hint. Unreadable: a schema cannot say it."""
    if hint is None:
        hint = type(None)
    try:
        if (simple := _SIMPLE.get(hint)) is not None:
            return simple
    except TypeError:  # Literal of a list and the like
        pass
    if hint in inside:
        raise Unreadable(f"{_name(hint)} contains itself")
    inside = (*inside, hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        kind = kind_of(args[0], inside)
        said = next((text for text in args[1:] if isinstance(text, str)), kind.doc)
        return dataclasses.replace(kind, doc=said)
    if origin in (Union, types.UnionType):
        return _union([kind_of(a, inside) for a in args])
    if origin is typing.Literal:
        return _choice(list(args), {a: a for a in args})
    plain_type = origin or hint
    if plain_type in _LISTS:
        return _list(kind_of(args[0] if args else Any, inside), list)
    if plain_type is tuple and (not args or len(args) == 2 and args[1] is Ellipsis):
        return _list(kind_of(args[0] if args else Any, inside), tuple)
    if plain_type in _DICTS:
        if args and args[0] is not str:
            raise Unreadable(f"{_name(hint)} has keys that are no texts")
        return _dict(kind_of(args[1] if args else Any, inside))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _choice([m.value for m in hint], {m.value: m for m in hint})
    if typing.is_typeddict(hint):
        hints = typing.get_type_hints(hint)
        return _object({n: kind_of(h, inside) for n, h in hints.items()}, hint.__required_keys__, dict)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = typing.get_type_hints(hint, include_extras=True)
        taken = [f for f in dataclasses.fields(hint) if f.init]
        required = frozenset(f.name for f in taken if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING)
        return _object({f.name: kind_of(hints[f.name], inside) for f in taken}, required, hint)
    raise Unreadable(f"{_name(hint)} is none of the types that a schema can say: str, int, float, bool, None, list, dict, Literal, unions of them, a TypedDict, a dataclass, an Enum, Any")


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")


def _union(kinds: list[Kind]) -> Kind:
    def read(value: Any, where: str) -> Any:
        problems = []
        for kind in kinds:
            try:
                return kind.read(value, where)
            except Unreadable as e:
                problems.append(str(e))
        raise Unreadable("; ".join(problems))

    choices: list[dict[str, Any]] = []  # Python 3.10 puts an Optional around a parameter whose default is None, whatever it is
    for kind in kinds:
        for choice in kind.schema["anyOf"] if set(kind.schema) == {"anyOf"} else [kind.schema]:
            if choice not in choices:
                choices.append(choice)
    return Kind({"anyOf": choices}, read, next((k.doc for k in kinds if k.doc), ""))


def _choice(values: list[Any], meant: dict[Any, Any]) -> Kind:
    if not all(value is None or isinstance(value, (str, int, bool)) for value in values):
        raise Unreadable("its choices are not texts, numbers, True, False or None")

    def read(value: Any, where: str) -> Any:
        for choice in values:
            if choice == value and isinstance(choice, bool) == isinstance(value, bool):
                return meant[choice]
        raise Unreadable(f"{where} is not one of {', '.join(map(repr, values))}")

    return Kind({"enum": values}, read)


def _list(item: Kind, make: type) -> Kind:
    def read(value: Any, where: str) -> Any:
        return make(item.read(v, f"{where}[{i}]") for i, v in enumerate(_is("a list", list)(value, where)))

    return Kind({"type": "array", **({"items": item.schema} if item.schema else {})}, read)


def _dict(item: Kind) -> Kind:
    def read(value: Any, where: str) -> Any:
        return {k: item.read(v, f"{where}[{k!r}]") for k, v in _is("an object", dict)(value, where).items()}

    return Kind({"type": "object", "additionalProperties": item.schema or True}, read)


def _object(members: dict[str, Kind], required: frozenset[str], make: Callable[..., Any]) -> Kind:
    def read(value: Any, where: str) -> Any:
        given = _is("an object", dict)(value, where)
        if missing := sorted(required - set(given)):
            raise Unreadable(f"{where}.{missing[0]} is missing")
        if unknown := sorted(set(given) - set(members)):
            raise Unreadable(f"{where} has no member {unknown[0]}")
        return make(**{n: members[n].read(v, f"{where}.{n}") for n, v in given.items()})

    properties = {n: {**k.schema, "description": k.doc} if k.doc else k.schema for n, k in members.items()}
    return Kind({"type": "object", "properties": properties, "required": [n for n in members if n in required], "additionalProperties": False}, read)


def plain(value: Any, where: str = "the result") -> Any:
    """A value as JSON has it. Unreadable: it has nothing for it, or would say something else."""
    if value is None or isinstance(value, (str, bool)) and not isinstance(value, enum.Enum):
        return value
    if isinstance(value, enum.Enum):
        return plain(value.value, where)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Unreadable(f"{where} is {value}, which JSON has not")
        return float(value)
    if isinstance(value, (list, tuple)):
        return [plain(v, f"{where}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, collections.abc.Mapping):
        for key in value:
            if not isinstance(key, str):
                raise Unreadable(f"{where} has the key {key!r}, which is no text")
        return {k: plain(v, f"{where}[{k!r}]") for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name), f"{where}.{f.name}") for f in dataclasses.fields(value)}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    raise Unreadable(f"{where} is of type {type(value).__name__}: plain data can be returned, that is texts, numbers, lists, dicts, dataclasses and dates")
