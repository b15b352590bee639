"""What a program is started with: its text, its limits, its folders and permissions."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from ._limits import OFF, LimitFields, Size, Span
from ._span import seconds, span
from .errors import InvalidArgument, NotFound, ProgramSyntaxError
from .model import parse_time

PathLike = Union[str, "os.PathLike[str]"]

def moment(value: Union[datetime.datetime, Span], what: str, past: bool = False) -> str:
    """A moment as the kernel reads it: from a datetime (one without a zone is local), an RFC 3339 text or a span from now; with ``past`` so long ago."""
    try:
        if isinstance(value, str) and re.match(r"\d{4,}-", value):
            value = parse_time(value)
        elif not isinstance(value, datetime.datetime):
            away = datetime.timedelta(seconds=float(seconds(value, what)[:-1]))
            value = datetime.datetime.now(datetime.timezone.utc) + (-away if past else away)
        return value.astimezone(datetime.timezone.utc).isoformat()
    except (OverflowError, ValueError):
        raise InvalidArgument(f"{what}={value!r} is not a time", hint='a datetime, a text such as "2026-12-01T10:00:00Z", or a span from now') from None


def whole(value: Any, what: str, least: int = 1) -> int:
    """A whole number, also as text: 5, "5"."""
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,18}\s*", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgument(f"{what}={value!r} is not a whole number from {least}")
    return value


_SUFFIXES = {"k": 10**3, "m": 10**6}


def spending(values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """What a budget bounds, above zero, as the kernel reads it. A number of things may be a text: "200k", "1.5M"; a time is a span: 90, "10m"."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        if name not in ("usd", "tokens", "calls", "turns", "time"):
            raise InvalidArgument(f"{what} has no {name!r}: it has usd, tokens, calls, turns and time", hint='{"usd": 2, "tokens": "200k", "calls": 50}')
        if value is None:
            continue
        if name == "time":
            out[name] = seconds(value, f"{what}: time")
            continue
        number = decimal.Decimal(0)
        if isinstance(value, (int, float, str, decimal.Decimal)) and not isinstance(value, bool):
            text = str(value).strip()
            times = 1 if name == "usd" else _SUFFIXES.get(text[-1:].lower(), 1)
            try:
                number = decimal.Decimal(text if times == 1 else text[:-1]) * times
            except decimal.DecimalException:
                pass
        if not number.is_finite() or not 0 < number < 2**63 or name != "usd" and number % 1:
            kind = "a number of dollars" if name == "usd" else "a whole number"
            raise InvalidArgument(f"{what}: {name}={value!r} is not {kind} above zero", hint="leave out what is not to be bounded")
        out[name] = format(number, "f") if name == "usd" else int(number)
    return out


def _items(value: Any, what: str) -> list[Any]:
    if value is not None and not isinstance(value, Iterable):
        raise InvalidArgument(f"{what}={value!r} is not a list")
    return list(value or ())


def texts(value: Any, what: str) -> list[str]:
    """A list of texts; None is none, one text is a list of one."""
    if value is not None and not isinstance(value, Iterable) or isinstance(value, (bytes, Mapping)):
        raise InvalidArgument(f"{what}={value!r} is not a text or a list of texts")
    found = [value] if isinstance(value, str) else list(value or ())
    for text in found:
        if not isinstance(text, str):
            raise InvalidArgument(f"{what} holds {text!r}, which is not a text")
    return found


_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size(value: Union[int, str], what: str) -> int:
    """A number of bytes: 1048576, "64k", "512m", "1g"."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    m = re.fullmatch(r"(\d+)\s*([kmg]?)i?b?", str(value).strip().lower())
    if m is None or isinstance(value, (bool, int)) or int(m[1]) == 0:
        raise InvalidArgument(f"{what}={value!r} is not a size", hint="a number of bytes, or a text such as '64k', '512m', '2g'")
    return int(m[1]) * _SIZES[m[2]]


class Limits(LimitFields):
    """Limits of a process. Spans are seconds, texts such as "1m30s" or timedeltas; sizes are bytes or "512m"."""

    def to_wire(self) -> dict[str, Any]:
        readers = {"Span": seconds, "Size": size, "int": _number, "float": _processors}
        out: dict[str, Any] = {}
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if value is not None:
                out[f.name] = readers[str(f.type).removeprefix("Optional[").rstrip("]")](value, f.name)
        return out


def _number(value: Any, what: str) -> int:
    return whole(value, what, 0 if what in OFF else 1)


def _processors(value: Any, what: str) -> float:
    number = span(value, what)
    if number <= 0:
        raise InvalidArgument(f"{what}={value!r} is not a number above zero")
    return number


@dataclass(frozen=True)
class Volume:
    """A further folder of this machine, which a program sees as ``/volumes/NAME``. Changes to one that is not read-only
    are applied when the program exits with 0, unless the folder would then hold more than ``size``."""

    path: PathLike
    read_only: bool = False
    size: Optional[Size] = None

    @classmethod
    def of(cls, value: Union[PathLike, "Volume"]) -> "Volume":
        return value if isinstance(value, Volume) else cls(value)

    def to_wire(self, name: str) -> dict[str, Any]:
        out: dict[str, Any] = {"name": name, "path": folder(self.path, f"volume {name}")}
        if self.read_only:
            out["read_only"] = True
        if self.size is not None:
            out["size"] = size(self.size, "size")
        return out


@dataclass(frozen=True)
class Spec:
    """Everything that is needed to start a program.

    ``tools`` are MCP configuration files whose servers the program may import; ``allow`` are patterns of calls
    that may change things ("filesystem.write_*"), ``allow_hosts`` hosts that it may reach with ``http.fetch``; ``modules``
    are sources that travel with the program, by dotted name. ``workspace`` is the folder that the program works in; what
    it changes there is kept apart until it is applied, or with ``publish`` applied when it exits with 0. ``volumes`` are
    further folders by name (a path or a :class:`Volume`), ``stdin`` is a file that it reads as its standard input.
    ``deadline`` is when it is asked to stop, as ``stop`` asks: a datetime, or a span from the moment at which it is started.
    ``budget`` is what it and all below it may spend, ``{"usd": 2, "tokens": "200k", "calls": 50, "turns": 20, "time": "10m"}`` or some of them, and ``on_budget``
    what happens before a call for which too little is left: "pause" (default), "raise" or "kill".
    ``models`` are declarations of language models of its own, which come before those of the kernel: "fast openai:gpt-5-mini key=given"; their
    keys are ``keys``, by alias, which the kernel keeps in memory alone, and which are given to the next kernel again when you wait for the process.
    ``interactive`` says that you read the events and answer those of kind "ask". ``environment`` is the path of a virtual
    environment whose packages the program has, as ``agentkernel env build`` prints it.
    """

    source: str
    name: str = ""
    args: Union[str, Sequence[Any]] = ()
    tools: Union[PathLike, Sequence[PathLike]] = ()
    allow: Union[str, Sequence[str]] = ()
    allow_hosts: Union[str, Sequence[str]] = ()
    deny: Union[str, Sequence[str]] = ()
    modules: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    workspace: Optional[PathLike] = None
    publish: bool = False
    volumes: Mapping[str, Union[PathLike, Volume]] = field(default_factory=dict)
    stdin: Optional[PathLike] = None
    namespace: str = ""
    backend: str = ""
    isolation: str = ""
    priority: int = 0
    on_unknown: str = ""
    durability: str = ""
    restart: str = ""
    deadline: Union[datetime.datetime, Span, None] = None
    budget: Optional[Mapping[str, Any]] = None
    on_budget: str = ""
    idempotency_key: Optional[str] = None
    interactive: bool = False
    language: str = "python"
    environment: str = ""
    models: Union[str, Sequence[str]] = ()
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def file(cls, path: PathLike, **options: Any) -> "Spec":
        """The program in a file, with the local tools in a folder ``tools`` beside it."""
        path = Path(path)
        try:
            text = path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode()
        except UnicodeDecodeError:
            raise ProgramSyntaxError(f"{path} is not valid UTF-8", hint="save it as UTF-8") from None
        except OSError as e:
            raise NotFound(f"{path} cannot be read: {e.strerror}") from None
        modules = {**local_tools(path.parent, text), **options.pop("modules", {})}
        options.setdefault("name", path.name)
        return cls(text, modules=modules).with_options(**options)

    def with_options(self, **options: Any) -> "Spec":
        """A copy in which these fields have other values; ``timeout`` stands for the limit ``wall``."""
        if "timeout" in options:
            limits = options.get("limits") or self.limits
            timeout = options.pop("timeout")
            if timeout is not None:
                seconds(timeout, "timeout")
            options["limits"] = dataclasses.replace(limits, wall=timeout)
        unknown = set(options) - {f.name for f in dataclasses.fields(self)}
        if unknown:
            known = ", ".join(f.name for f in dataclasses.fields(self) if f.name != "source")
            raise TypeError(f"a program has no option {sorted(unknown)[0]!r}; the options are timeout, {known}")
        return dataclasses.replace(self, **options)

    def to_wire(self) -> dict[str, Any]:
        if not isinstance(self.source, str):
            raise InvalidArgument(f"a program is a text, not {type(self.source).__name__}")
        out: dict[str, Any] = {"program": self._program(), **self._files()}
        if not isinstance(self.limits, Limits):
            raise InvalidArgument(f"limits={self.limits!r} is not a Limits", hint='Limits(time=10, memory="64m")')
        if limits := self.limits.to_wire():
            out["limits"] = limits
        if tools := files(self.tools):
            out["tools"] = tools
        self._check_keys()
        if self.idempotency_key == "":  # it would be none, and whoever gives one relies on it
            raise InvalidArgument("idempotency_key='' is no key", hint="KernelGone has one where the call created a process; without idempotency_key= there is a new one")
        for name in ("allow", "allow_hosts", "deny", "models"):
            if value := texts(getattr(self, name), name):
                out[name] = value
        if self.priority:
            out["priority"] = whole(self.priority, "priority")
        for name in ("namespace", "backend", "isolation", "on_unknown", "durability", "restart", "on_budget", "idempotency_key"):
            if value := getattr(self, name):
                if not isinstance(value, str):
                    raise InvalidArgument(f"{name}={value!r} is not a text")
                out[name] = value
        if self.deadline is not None:
            out["deadline"] = moment(self.deadline, "deadline")
        if self.budget is not None:
            if not isinstance(self.budget, Mapping):
                raise InvalidArgument(f"budget={self.budget!r} is not a dict", hint='budget={"usd": 2, "tokens": "200k", "calls": 50}')
            if budget := spending(self.budget, "budget"):
                out["budget"] = budget
        if self.interactive:
            out["interactive"] = True
        return out

    def _check_keys(self) -> None:
        """Refuses keys that are for no model of the program. The keys themselves are in no message, and in no Spec of the kernel."""
        if not isinstance(self.keys or {}, Mapping) or not all(isinstance(text, str) and text for pair in (self.keys or {}).items() for text in pair):
            raise InvalidArgument("keys is not a dict of aliases and keys", hint='keys={"fast": os.environ["MY_KEY"]}')
        aliases = {text.split()[0] for text in texts(self.models, "models") if text.strip()}
        for name in self.keys or {}:
            if name.partition("#")[0] not in aliases:
                raise InvalidArgument(f"keys has one for {name!r}, which is none of models", hint='models=["fast openai:gpt-5-mini key=given"] declares one; client.give_key gives that of a model of the kernel')

    def _program(self) -> dict[str, Any]:
        language = self.language or "python"
        if not isinstance(language, str) or not isinstance(self.name, str):
            raise InvalidArgument("the name and the language of a program are texts")
        name = self.name or ("program.py" if language == "python" else "program")
        program: dict[str, Any] = {"name": name, "language": language, "source": self.source}
        if args := texts(self.args if isinstance(self.args, str) else [str(a) for a in _items(self.args, "args")], "args"):
            program["args"] = args
        if self.modules:
            program["modules"] = dict(self.modules)
        if self.environment:
            program["host"] = os.fspath(self.environment)
        for text in (self.source, *program.get("modules", {}).values(), *program.get("args", ())):
            if not isinstance(text, str):
                raise InvalidArgument(f"a module of a program is a text, not {type(text).__name__}")
            _utf8(text)
        return program

    def _files(self) -> dict[str, Any]:
        """The folders and the standard input, as the kernel wants them."""
        out: dict[str, Any] = {}
        if self.workspace is not None:
            out["workspace"] = {"path": folder(self.workspace, "workspace"), **({"publish": True} if self.publish else {})}
        elif self.publish:
            raise InvalidArgument("publish=True without a workspace: there is nothing to publish", hint="workspace= names the folder")
        if not isinstance(self.volumes or {}, Mapping):
            raise InvalidArgument(f"volumes={self.volumes!r} is not a dict of names and folders", hint='volumes={"raw": "/srv/raw"}')
        volumes = [Volume.of(v).to_wire(str(name)) for name, v in (self.volumes or {}).items()]
        if volumes:
            out["volumes"] = volumes
        if self.stdin is not None:
            out["stdin"] = absolute(self.stdin)
        return out


def absolute(path: PathLike) -> str:
    return os.path.abspath(os.path.expanduser(os.fspath(path)))


def folder(path: PathLike, what: str) -> str:
    """A folder that is there; the kernel checks the rest."""
    found = absolute(path)
    if not os.path.exists(found):
        raise NotFound(f"{what} {found} does not exist", hint="name a folder that is there, or make it first: os.makedirs(...)")
    if not os.path.isdir(found):
        raise InvalidArgument(f"{what} {found} is not a folder")
    return found


def files(tools: Union[PathLike, Sequence[PathLike]]) -> list[str]:
    """Configuration files as the kernel wants them: absolute."""
    if isinstance(tools, (str, os.PathLike)):
        tools = [tools]
    try:
        return [absolute(t) for t in tools or ()]
    except TypeError:
        raise InvalidArgument(f"tools={tools!r} are not paths of configuration files", hint='tools="mcp.json", or a list of such') from None


def present(tools: Union[PathLike, Sequence[PathLike]]) -> None:
    """Refuses configuration files that are not there; the kernel reads them, and says what else is wrong."""
    for file in files(tools):
        path = re.sub(r"#sha256=[0-9a-f]{64}\Z", "", file)  # what it has to hold is the kernel's to compare
        if not os.path.exists(path):
            raise NotFound(f"the tools file {path} does not exist", hint='name an MCP configuration file, {"mcpServers": {...}}')


def _utf8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as e:
        line = text.count("\n", 0, e.start) + 1
        raise ProgramSyntaxError(f"the program is not valid UTF-8: line {line}", hint="it holds half of a surrogate pair") from None


_MODULE_LIMIT, _ALL_LIMIT, _COUNT_LIMIT = 1 << 20, 16 << 20, 1000


def local_tools(folder: PathLike, source: str = "tools") -> dict[str, str]:
    """Local tools of a folder: ``tools/<server>/<tool>.py`` becomes the module ``tools.<server>.<tool>``. A program
    whose source does not speak of tools has none."""
    root = Path(folder) / "tools"
    if "tools" not in source or not root.is_dir():
        return {}
    found: dict[str, str] = {}
    real, total = root.resolve(), 0
    try:
        parts = real.relative_to(Path(folder).resolve()).parts
    except ValueError:
        raise InvalidArgument(f"{root} is a link that leads out of its folder", hint="copy the folder") from None
    if any(part.startswith(".") or part.endswith(".git") for part in parts):
        raise InvalidArgument(f"{root} is a link to {real}, where keys may lie", hint="name a folder of local tools")
    for path in sorted(root.glob("*/*.py")):
        if path.name.startswith(("_", ".")) or path.parent.name.startswith(("_", ".")):
            continue
        file = path.resolve()
        if real not in file.parents:
            raise InvalidArgument(f"the local tool {path} is a link that leads out of {root}")
        if file.suffix != ".py" or any(part.startswith(".") or part.endswith(".git") for part in file.relative_to(real).parts):
            raise InvalidArgument(f"the local tool {path} is a link to {file}, where keys may lie", hint="name a file of Python")
        text = path.read_bytes()
        total += len(text)
        if len(text) > _MODULE_LIMIT or total > _ALL_LIMIT or len(found) == _COUNT_LIMIT:
            raise InvalidArgument(f"the local tools below {root} are too large", hint="1 MB a file, 16 MB and 1,000 files together")
        try:
            found[f"tools.{path.parent.name}.{path.stem}"] = text.removeprefix(b"\xef\xbb\xbf").decode()
        except UnicodeDecodeError:
            raise ProgramSyntaxError(f"the local tool {path} is not valid UTF-8", hint="save it as UTF-8") from None
    return found
