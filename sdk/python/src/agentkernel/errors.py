"""Errors: one class for each code of the kernel, all of them :class:`KernelError`.

A program that fails is no exception: it comes back in a result. Raised is what is wrong with a call, with
the installation or with the kernel.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional

from ._limits import FLAGS


class KernelError(Exception):
    """An error of the kernel, of a program or of the SDK.

    ``code`` is one of the kernel's codes ("not_found"), ``message`` says what was wrong and ``hint`` what to
    do. ``traceback`` and ``exception`` are the program's own, if it raised.
    """

    code = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: Optional[str] = None,
        hint: str = "",
        op: str = "",
        pid: int = 0,
        traceback: str = "",
        exception: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.message = message
        self.hint = hint
        self.op = op
        self.pid = pid
        self.traceback = traceback
        self.exception = exception

    def __str__(self) -> str:
        text = self.traceback.rstrip() or f"{self.code}: {self.message}"
        return f"{text}\nhint: {self.hint}" if self.hint else text

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.message, self.details())

    def details(self) -> dict[str, Any]:
        """Everything but the message, as keyword arguments."""
        return {
            "code": self.code,
            "hint": self.hint,
            "op": self.op,
            "pid": self.pid,
            "traceback": self.traceback,
            "exception": self.exception,
        }

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> "KernelError":
        """The error that the kernel wrote as JSON; an unknown code gives a plain KernelError."""
        code = str(data.get("code", "internal"))
        return CLASSES.get(code, KernelError)(
            str(data.get("message", code)),
            code=code,
            hint=in_python(str(data.get("hint", ""))),
            op=str(data.get("op", "")),
            pid=int(data.get("pid", 0)),
            traceback=str(data.get("traceback", "")),
            exception=str(data.get("exception", "")),
        )


#: What the flags of the command line are called here. A hint of the kernel names flags: it does not know who asked.
_FLAGS = {
    "allow": "allow=", "allow-host": "allow_hosts=", "deny": "deny=", "tools": "tools=", "with": "packages=", "workspace": "workspace_dir= (of a Spec: workspace=)",
    "publish": "publish=True", "volume": "volumes=", "stdin": "stdin=", "timeout": "timeout=", "backend": "backend=", "isolation": "isolation=",
    "namespace": "namespace=", "priority": "priority=", "restart": "restart=", "deadline": "deadline=", "on-budget": "on_budget=", "budget-usd": 'budget={"usd": ...}', "budget-tokens": 'budget={"tokens": ...}', "budget-calls": 'budget={"calls": ...}', "budget-turns": 'budget={"turns": ...}', "budget-time": 'budget={"time": ...}', "on-unknown": "on_unknown=", "durability": "durability=", "lang": "language=",
    "idempotency-key": "idempotency_key=", "force": "force=True", "patch": "patch()", "home": "home=",
    **{flag: f"limits=Limits({name}=...)" for flag, name in FLAGS.items()},
}  # fmt: skip


#: What commands are called here. What has no counterpart (`agentkernel setup`) stays as it is typed.
_END = r"(?= *(?:[;:,.)·`]|$))"  # nothing more belongs to the command
_COMMANDS = [(re.compile(f"`?agentkernel {typed}`?"), here) for typed, here in (
    (r"(recover|resume|pause|kill|wait|inspect|trace|logs|artifacts) (\d+)(?: --wait)?(?! +-)", r"client.\1(\2)"),
    (r"logs (?:-f|--follow) (\d+)", r"client.logs(\1, follow=True)"),
    (r"diff (\d+) --patch", r"client.patch(\1)"),
    (r"diff (\d+)(?! +-| +\d| +PID)", r"client.diff(\1)"),
    (r"apply (\d+) --force", r"client.apply(\1, force=True)"),
    (r"(apply|discard) (\d+)" + _END, r"client.\1(\2)"),
    (r"llm key (\S+) --pid (\d+)" + _END, r'client.give_key("\1", ..., \2)'),
    (r"llm key (\S+?)" + _END, r'client.give_key("\1", ...)'),
    (r"get (\d+) (\S+) -o (\S+)" + _END, lambda m: f"client.save_file({m[1]}, {_quoted(m[2])}, {_quoted(m[3])})"),
    (r"budget show (\d+)" + _END, r"client.budget(\1)"),
    (r"budget add (\d+) --(usd|tokens|calls|turns|time) ([\w.]+)", lambda m: f"client.add_budget({m[1]}, {m[2]}={_amount(m[3])})"),
    (r"budget add (\d+) \.\.\.", r"client.add_budget(\1, ...)"),
    (r"spawn --budget-(usd|tokens|calls|turns|time) ([\w.]+)(?: \.\.\.)?", lambda m: f'client.spawn(..., budget={{"{m[1]}": {_amount(m[2])}}})'),
    (r"ps (?:-a|--all)\b", "client.ps(all=True)"),
    (r"(ps|recover|shutdown)\b(?! +-| +\d)", r"client.\1()"),
    (r"(halt|thaw) --namespace ('[^']*'|[^\s;,'`]+)(?! +-|[^\s;,`])", lambda m: f"client.{m[1]}(namespace={_quoted(m[2])})"),
    (r"(halt|thaw) --tree (\d+)\b(?! +-)", r"client.\1(tree=\2)"),
    (r"(halt|thaw)\b(?! +-)", r"client.\1()"),
    (r"tools (?:list|search)\b(?: [\w-]+" + _END + ")?", "agent.search_tools(...)"),
)]  # fmt: skip


def _quoted(word: str) -> str:
    return repr(word.strip("'"))


def _amount(word: str) -> str:
    """An amount as it is typed: 2, 0.5, 10k, or the word that stands for one."""
    if word.isupper():
        return "..."
    return word if re.fullmatch(r"\d+(?:\.\d+)?", word) else f'"{word}"'


def in_python(hint: str) -> str:
    """A hint with the SDK's names for commands and flags in it. A clause with a command that only a terminal has
    (``agentkernel setup --x``) stays as it is typed."""
    return "".join(map(_clause_in_python, re.split(r"((?:;| ·) )", hint)))


def _clause_in_python(clause: str) -> str:
    for typed, here in _COMMANDS:
        clause = typed.sub(here, clause)
    if "agentkernel " in clause:
        return clause
    clause = _PACKAGES.sub(lambda m: "packages=[" + ", ".join(f'"{name}"' for name in m[0].split() if name != "--with") + "]", clause)
    return _FLAG.sub(_argument, clause)


#: A flag with what stands for its value: a word in capitals, a text in quotes, or one of a few words.
_FLAG = re.compile(r"--([a-z][a-z-]*)\b(?: (?:[A-Z]+\b|'[A-Z]+'|('[^']*'|(?:auto|monty|process|interpreter|kernel|vm|relaxed)\b)))?")


#: Packages by their names, each behind a flag of its own; a word in capitals only stands for one.
_PACKAGES = re.compile(r"--with (?![A-Z]+\b(?![.-]))[A-Za-z0-9][\w.-]*\w(?: --with [A-Za-z0-9][\w.-]*\w)*")


def _argument(m: "re.Match[str]") -> str:
    name = _FLAGS.get(m[1])
    if name is None or m[2] is None:
        return name or m[0]
    return name + _quoted(m[2]) if name.endswith("=") else m[0].replace("--" + m[1], name)


def _rebuild(cls: type[KernelError], message: str, details: dict[str, Any]) -> KernelError:
    return cls(message, **details)


class InvalidArgument(KernelError, ValueError):
    """The arguments are wrong."""

    code = "invalid_argument"


class ProgramSyntaxError(KernelError):
    """The program does not parse."""

    code = "syntax_error"


class Unsupported(KernelError, NotImplementedError):
    """The backend cannot run this program, template mode cannot do this task, or the kernel lacks a feature."""

    code = "unsupported"


class NotFound(KernelError, LookupError):
    """There is no such process, tool, server or file."""

    code = "not_found"


class Conflict(KernelError):
    """The thing exists already, or is in another state."""

    code = "conflict"


class PermissionDenied(KernelError, PermissionError):
    """A capability or an approval is missing."""

    code = "permission_denied"


class LimitExceeded(KernelError):
    """A limit of the process was hit."""

    code = "limit_exceeded"


class Timeout(KernelError, TimeoutError):
    """Something did not happen in time."""

    code = "timeout"


class Unavailable(KernelError, ConnectionError):
    """An engine, a server, the binary or the kernel cannot be reached."""

    code = "unavailable"


class KernelGone(Unavailable):
    """The kernel ended while a call was under way. Processes stand where their journals say. ``pid`` is the process that
    the call was about, 0 if it did not arrive; ``idempotency_key`` is set where the call created the process: the same call
    with this key gives that process, and continues it if it is unfinished."""

    def __init__(self, message: str, *, idempotency_key: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        self.idempotency_key = idempotency_key

    def details(self) -> dict[str, Any]:
        return {**super().details(), "idempotency_key": self.idempotency_key}


class BinaryNotFound(Unavailable):
    """The ``agentkernel`` binary is missing or does not work."""


class ToolFailed(KernelError):
    """A tool answered with an error."""

    code = "tool_error"


class AnswerLost(ToolFailed):
    """A call was made, and its answer cannot be given."""

    code = "answer_lost"


class OutcomeUnknown(KernelError):
    """A write was begun and nobody knows whether it happened."""

    code = "outcome_unknown"


class SessionLost(KernelError):
    """A server that keeps a session was restarted."""

    code = "session_lost"


class Interrupted(KernelError):
    """A signal asked the program to stop."""

    code = "interrupted"


#: The name that programs in sandboxes know. Here it is no KeyboardInterrupt: one would end the loop of all coroutines.
KernelInterrupt = Interrupted


class Killed(KernelError):
    """The process was ended from outside."""

    code = "killed"


class ProgramError(KernelError):
    """An exception that the program did not catch; ``traceback`` has it."""

    code = "program_error"


class Diverged(KernelError):
    """Replay did not repeat what the journal says."""

    code = "diverged"


class Crashed(KernelError):
    """The sandbox died under the program."""

    code = "crashed"


class Corrupt(KernelError):
    """Stored bytes are not what was written."""

    code = "corrupt"


class VersionMismatch(KernelError):
    """Two versions met that cannot work together."""

    code = "version_mismatch"


class StorageFailed(KernelError):
    """The store could not write or read."""

    code = "storage_failed"


class Fenced(KernelError):
    """Another kernel holds the process's tree now, and continues it; or another program is the host of a process."""

    code = "fenced"


class Canceled(KernelError):
    """The caller gave up."""

    code = "canceled"


class InternalError(KernelError):
    """A defect of AgentKernel itself."""

    code = "internal"


#: The class of each code.
CLASSES: dict[str, type[KernelError]] = {
    c.code: c
    for c in (
        InvalidArgument, ProgramSyntaxError, Unsupported, NotFound, Conflict, PermissionDenied, LimitExceeded, Timeout,
        Unavailable, ToolFailed, AnswerLost, OutcomeUnknown, SessionLost, Interrupted, Killed, ProgramError, Diverged, Crashed,
        Corrupt, VersionMismatch, StorageFailed, Fenced, Canceled, InternalError,
    )
}  # fmt: skip
