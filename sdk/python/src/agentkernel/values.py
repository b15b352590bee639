"""Values of programs as JSON and back (docs/values.md): tuples, sets, bytes, dates and the rest survive."""

from __future__ import annotations

import base64
import builtins
import collections
import dataclasses
import datetime
import json
import math
from pathlib import PurePath, PurePosixPath
from typing import Any, Callable

from .errors import InternalError, InvalidArgument

#: CPython refuses to read longer integers in one piece.
_DIGITS = 4000


def _integer(text: str) -> int:
    if len(text) <= _DIGITS:
        return int(text)
    sign = -1 if text[0] == "-" else 1
    return sign * _magnitude(text.lstrip("-"))


def _magnitude(digits: str) -> int:
    if len(digits) <= _DIGITS:
        return int(digits)
    half = len(digits) // 2
    power: int = 10**half
    return _magnitude(digits[:-half]) * power + _magnitude(digits[-half:])


def parse(text: str | bytes) -> Any:
    """JSON as the kernel writes it; integers have any size."""
    try:
        return json.loads(text, parse_int=_integer)
    except (ValueError, RecursionError) as e:
        raise InternalError(f"the kernel's answer is not JSON: {e}") from None


def from_wire(value: Any) -> Any:
    """A Python value from parsed JSON in the kernel's form."""
    if isinstance(value, list):
        return [from_wire(v) for v in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((tag, inner),) = value.items()
        if tag in _READERS:
            return _READERS[tag](inner)
    return {k: from_wire(v) for k, v in value.items()}


def _hashable(value: Any) -> Any:
    return tuple(_hashable(v) for v in value) if isinstance(value, (list, tuple)) else value


def _pairs(inner: Any) -> dict[Any, Any]:
    return {_hashable(from_wire(k)): from_wire(v) for k, v in inner}


def _time(text: str) -> datetime.time:
    return datetime.time.fromisoformat(text.replace("Z", "+00:00"))


def _datetime(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def _timezone(inner: Any) -> datetime.timezone:
    offset = datetime.timedelta(seconds=inner[0])
    return datetime.timezone(offset) if inner[1] is None else datetime.timezone(offset, inner[1])


def _named(inner: Any) -> Any:
    name = inner["type"] if str(inner["type"]).isidentifier() else "Tuple"
    return collections.namedtuple(name, inner["fields"], rename=True)(*map(from_wire, inner["values"]))


def _exception(inner: Any) -> BaseException:
    kind = getattr(builtins, str(inner["type"]), None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind() if inner["arg"] is None else kind(inner["arg"])
        except TypeError:
            pass  # UnicodeDecodeError and the like want more than a text
    return RuntimeError(f"{inner['type']}: {inner['arg']}")


_READERS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$bytes": base64.b64decode,
    "$tuple": lambda v: tuple(map(from_wire, v)),
    "$set": lambda v: {_hashable(from_wire(x)) for x in v},
    "$frozenset": lambda v: frozenset(_hashable(from_wire(x)) for x in v),
    "$dict": _pairs,
    "$date": datetime.date.fromisoformat,
    "$time": _time,
    "$datetime": _datetime,
    "$timedelta": lambda v: datetime.timedelta(days=v[0], seconds=v[1], microseconds=v[2]),
    "$timezone": _timezone,
    "$path": PurePosixPath,
    "$namedtuple": _named,
    "$exception": _exception,
    "$object": lambda v: {k: from_wire(x) for k, x in v["fields"].items()},
    "$repr": str,
}


def canonical(wire: Any) -> str:
    """The canonical text of a value in the kernel's form: what equal values have in common."""
    try:
        return json.dumps(wire, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError as e:
        raise InvalidArgument(f"the value cannot be written: {e}") from None


def to_wire(value: Any) -> Any:
    """A Python value in the kernel's form, ready for ``json.dumps``. What cannot come back is refused."""
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return {"$float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        return _tuple_to_wire(value)
    if isinstance(value, list):
        return [to_wire(v) for v in value]
    if isinstance(value, (set, frozenset)):
        items = sorted((to_wire(v) for v in value), key=canonical)
        return {"$frozenset" if isinstance(value, frozenset) else "$set": items}
    if isinstance(value, dict):
        if all(isinstance(k, str) and not k.startswith("$") for k in value):
            return {k: to_wire(v) for k, v in value.items()}
        return {"$dict": [[to_wire(k), to_wire(v)] for k, v in value.items()]}
    return _other_to_wire(value)


def _tuple_to_wire(value: tuple[Any, ...]) -> Any:
    fields = getattr(value, "_fields", None)
    items = [to_wire(v) for v in value]
    if fields is None:
        return {"$tuple": items}
    return {"$namedtuple": {"type": type(value).__name__, "fields": list(fields), "values": items}}


def _other_to_wire(value: Any) -> Any:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, datetime.datetime):
        return {"$datetime": value.isoformat()}
    if isinstance(value, datetime.date):
        return {"$date": value.isoformat()}
    if isinstance(value, datetime.time):
        return {"$time": value.isoformat()}
    if isinstance(value, datetime.timedelta):
        return {"$timedelta": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, datetime.timezone):
        offset = value.utcoffset(None)
        named = value != datetime.timezone(offset) or value.tzname(None) != datetime.timezone(offset).tzname(None)
        return {"$timezone": [int(offset.total_seconds()), value.tzname(None) if named else None]}
    if isinstance(value, PurePath):
        return {"$path": value.as_posix()}
    if isinstance(value, BaseException):
        return {"$exception": {"type": type(value).__name__, "arg": str(value.args[0]) if value.args else None}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_wire(getattr(value, f.name)) for f in dataclasses.fields(value)}
    raise InvalidArgument(
        f"a value of type {type(value).__name__} cannot be handed to a program",
        hint="plain data can: numbers, texts, lists, dicts, sets, bytes, dates",
    )


def plain(wire: Any) -> Any:
    """The plain form (docs/values.md): only what JSON itself has, as the command line prints it."""
    if isinstance(wire, list):
        return [plain(v) for v in wire]
    if not isinstance(wire, dict):
        return wire
    if len(wire) == 1:
        ((tag, inner),) = wire.items()
        if tag in ("$tuple", "$set", "$frozenset", "$timezone"):
            return [plain(v) for v in inner]
        if tag in ("$bytes", "$date", "$time", "$datetime", "$path", "$repr"):
            return inner
        if tag == "$float":
            return None
        if tag == "$timedelta":
            return inner[0] * 86400 + inner[1] + inner[2] / 1e6
        if tag == "$namedtuple":
            return [plain(v) for v in inner["values"]]
        if tag == "$object":
            return plain(inner["fields"])
        if tag == "$exception":
            return plain(inner)
        if tag == "$dict":
            if any(isinstance(k, (list, dict)) for k, _ in inner):
                return [[plain(k), plain(v)] for k, v in inner]
            return {k if isinstance(k, str) else canonical(k): plain(v) for k, v in inner}
    return {k: plain(v) for k, v in wire.items()}


def source(value: Any) -> str:
    """A value as Python source that a program can evaluate; the module ``datetime`` and the class ``Path`` of
    ``pathlib`` are expected to be imported."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**300:
        return hex(value)
    if isinstance(value, tuple):
        items = "".join(source(v) + ", " for v in value)
        return f"({items})"
    if isinstance(value, list):
        return "[" + ", ".join(map(source, value)) + "]"
    if isinstance(value, (set, frozenset)):
        inner = "[" + ", ".join(source(v) for v in sorted(value, key=lambda v: canonical(to_wire(v)))) + "]"
        return f"{type(value).__name__}({inner})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{source(k)}: {source(v)}" for k, v in value.items()) + "}"
    if isinstance(value, PurePath):
        return f"Path({value.as_posix()!r})"
    if isinstance(value, BaseException):
        return f"{type(value).__name__}({', '.join(repr(str(a)) for a in value.args[:1])})"
    return repr(value)
