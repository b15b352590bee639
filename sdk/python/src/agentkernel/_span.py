"""Spans of time, as people and the kernel write them."""

from __future__ import annotations

import datetime
import re
from typing import Any

from ._limits import Span
from .errors import InvalidArgument

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(h|ms|us|µs|ns|m|s)"


def span(value: Any, what: str) -> float:
    """A span of time in seconds: from a number of them (also as text), "1m30s" or a timedelta."""
    given, number = value, float("nan")
    if isinstance(value, datetime.timedelta):
        number = value.total_seconds()
    elif isinstance(value, str) and re.fullmatch(f"(?:{_PART})+\\s*", value):
        number = sum(float(n) * _UNITS[unit] for n, unit in re.findall(_PART, value))
    elif isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            pass
    if not abs(number) < 1e9:  # also what is not a number
        raise InvalidArgument(f"{what}={given!r} is not a span of time", hint="seconds, or a text such as '1m30s'")
    return number


def seconds(value: Span, what: str) -> str:
    """A span of time above zero as the kernel reads it."""
    number = span(value, what)
    if number <= 0:
        raise InvalidArgument(f"{what}={value!r} is not a span of time", hint="seconds above zero, or a text such as '1m30s'")
    return f"{number:.6f}s"
