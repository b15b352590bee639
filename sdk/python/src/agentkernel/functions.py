"""Functions of your own program as tools: what the kernel is told of them, and how a call's arguments and result are read.

    from agentkernel import create_agent, effect

    @effect("read")
    def stock(item: str, warehouse: str = "north") -> dict:
        \"\"\"How many pieces of an item are in a warehouse.\"\"\"

    agent = create_agent(functions=[stock])

Programs of the agent import them from ``tools.host``. They run in your program, and each call is in the journal.
"""

from __future__ import annotations

import inspect
import keyword
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, TypeVar, get_type_hints

from ._schema import Kind, Unreadable, kind_of, plain

F = TypeVar("F", bound=Callable[..., Any])

#: What a function may do, and how MCP says so.
EFFECTS = {
    "read": {"readOnlyHint": True},
    "idempotent": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True},
    "write": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False},
}

_MARK = "__agentkernel_effect__"


def effect(what: str) -> Callable[[F], F]:
    """Says what a function of ``create_agent(functions=)`` does: "read" changes nothing, "idempotent" may be made again, "write" (the
    default) must not be: after a crash in the middle of it the program is told that its outcome is unknown."""
    if what not in EFFECTS:
        raise ValueError(f'effect({what!r}): it is one of {", ".join(map(repr, EFFECTS))}, as in @effect("read")')

    def mark(function: F) -> F:
        setattr(function, _MARK, what)
        return function

    return mark


@dataclass(frozen=True)
class Function:
    """A function that programs call, and what is known of it."""

    name: str
    call: Callable[..., Any]
    effect: str
    description: str
    parameters: dict[str, "Parameter"]
    result: Kind

    def tool(self) -> dict[str, Any]:
        """The function as tools/list shows it. The result is a member of an object, as MCP wants it; the kernel takes it out again."""
        properties = {p.name: p.schema() for p in self.parameters.values()}
        required = [p.name for p in self.parameters.values() if p.required]
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": {"type": "object", "properties": properties, "required": required, "additionalProperties": False},
            "outputSchema": {"type": "object", "properties": {"result": self.result.schema}, "required": ["result"]},
            "annotations": EFFECTS[self.effect],
        }

    def arguments(self, given: Any) -> dict[str, Any]:
        """The arguments as the function takes them. Unreadable: they do not fit."""
        if not isinstance(given, dict):
            raise Unreadable("the arguments are no object")
        if unknown := sorted(set(given) - set(self.parameters)):
            raise Unreadable(f"there is no parameter {unknown[0]}")
        if missing := [p.name for p in self.parameters.values() if p.required and p.name not in given]:
            raise Unreadable(f"the argument {missing[0]} is missing")
        return {name: self.parameters[name].kind.read(value, name) for name, value in given.items()}


@dataclass(frozen=True)
class Parameter:
    name: str
    kind: Kind
    required: bool
    doc: str = ""
    default: Any = field(default=None, compare=False)

    def schema(self) -> dict[str, Any]:
        schema = dict(self.kind.schema)
        if self.doc:
            schema["description"] = self.doc
        if not self.required:
            try:
                schema["default"] = plain(self.default)
            except Unreadable:
                pass  # it is left out of calls that do not give it, and the function has it
        return schema


def functions_of(given: Any) -> dict[str, Function]:
    """What ``functions=`` names, by name. TypeError: one of them cannot be described, and why."""
    if callable(given):
        given = [given]
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, dict)):
        raise TypeError(f"functions={given!r} is not a list of functions")
    found: dict[str, Function] = {}
    for function in given:
        described = _describe(function)
        if described.name in found:
            raise TypeError(f"functions= has two functions of the name {described.name}: rename one of them")
        found[described.name] = described
    return found


def _describe(function: Any) -> Function:
    name = getattr(function, "__name__", None)
    if not callable(function) or inspect.isclass(function):
        raise TypeError(f"functions= holds {function!r}, which is not a function")
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise TypeError(f"functions= holds {function!r}, which has no name that programs could import: define it with def")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name}() yields its results one by one, which a call cannot: return a list of them")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise TypeError(f"{name}() does not say what its parameters are: wrap it into a function of yours") from None
    text = inspect.getdoc(function) or ""
    docs = _parameter_docs(text)
    hints = _hints(function, name, signature)
    parameters = {p.name: _parameter(name, p, hints, docs.get(p.name, "")) for p in signature.parameters.values()}
    try:
        result = kind_of(hints.get("return", Any))
    except Unreadable as e:
        raise TypeError(f"{name}(): programs cannot be given its result: {e}") from None
    return Function(name, function, getattr(function, _MARK, "write"), _summary(text), parameters, result)


def _parameter(function: str, p: inspect.Parameter, hints: dict[str, Any], doc: str) -> Parameter:
    where = f"{function}(): the parameter {p.name}"
    if p.kind is p.POSITIONAL_ONLY:
        raise TypeError(f"{where} is positional-only: arguments of tools have names, so take out the /")
    if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
        star = "*" if p.kind is p.VAR_POSITIONAL else "**"
        raise TypeError(f"{where} is {star}{p.name}: a tool says what its arguments are, so name each of them, or take a list or a dict")
    try:
        kind = kind_of(hints.get(p.name, Any))
    except Unreadable as e:
        raise TypeError(f"{where} cannot be described: {e}") from None
    required = p.default is p.empty
    return Parameter(p.name, kind, required, doc or kind.doc, None if required else p.default)


def _hints(function: Any, name: str, signature: inspect.Signature) -> dict[str, Any]:
    """The types of parameters and result; a hint that is a text, as with ``from __future__ import annotations``, is read where the function was written."""
    try:
        return get_type_hints(function, include_extras=True)
    except Exception as e:
        unknown = f"{type(e).__name__}: {e}"
        for p in signature.parameters.values():
            if isinstance(p.annotation, str) and isinstance(e, NameError) and e.name and re.search(rf"\b{re.escape(e.name)}\b", p.annotation):
                raise TypeError(f"{name}(): the parameter {p.name} has a hint that cannot be read ({unknown}): define {e.name} at the top of its module") from None
        raise TypeError(f"{name}(): its hints cannot be read ({unknown}): define what they name at the top of its module") from None


_SECTION = re.compile(r"(?m)^(Args|Arguments|Parameters):[ \t]*$")
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)[ \t]*(?:\([^)]*\))?:[ \t]*(.*)$")


def _summary(doc: str) -> str:
    """The first paragraph of a docstring, on one line."""
    first = re.split(r"\n[ \t]*\n", _SECTION.split(doc)[0].strip(), maxsplit=1)[0]
    return " ".join(first.split())


def _parameter_docs(doc: str) -> dict[str, str]:
    """What the lines below ``Args:`` say of each parameter, as Google's style has them."""
    found: dict[str, str] = {}
    match = _SECTION.search(doc)
    if match is None:
        return found
    name, indent = "", -1
    for line in doc[match.end() :].splitlines()[1:]:
        if line.strip() and not line[0].isspace():
            break  # the next section
        depth = len(line) - len(line.lstrip())
        argument = _ARGUMENT.match(line.strip())
        if argument and (indent < 0 or depth <= indent):
            name, indent = argument[1], depth
            found[name] = argument[2].strip()
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found
