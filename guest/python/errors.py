"""What the kernel answers as an exception: one table for all guests (docs/errors.md). str(e) is "code: message"."""
import builtins

from _agentkernel import wire


class ToolError(RuntimeError):
    """The tool, or what it stands on, answered with an error."""


class LimitError(MemoryError):
    """A limit of the process was hit."""


class OutcomeUnknown(OSError):
    """A write was begun before a crash, and nobody knows whether it happened."""


class SessionLost(OSError):
    """A server that keeps a session was restarted."""


class KernelInterrupt(KeyboardInterrupt):
    """A signal asked the program to stop."""


NAMES = ("ToolError", "LimitError", "OutcomeUnknown", "SessionLost", "KernelInterrupt")
for _name in NAMES:
    globals()[_name].__module__ = "builtins"  # tracebacks say "ToolError: ...", as they do for builtins


def find(name):
    """The exception type of this name; None if there is none."""
    kind = globals()[name] if name in NAMES else getattr(builtins, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, BaseException) else None


def make(error):
    """The exception for an error of a reply."""
    kind = find(error.get("exception", "")) or ToolError
    made = kind(error["text"])
    made.code = error.get("code", "")
    return made


wire.Channel.error = staticmethod(make)
