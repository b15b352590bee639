"""What running something gives, as data. The faces :class:`agentkernel.Result` and its asyncio twin add the verbs."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, TypeVar

from .changes import Changes
from .errors import InvalidArgument, KernelError, in_python
from .model import Process, Usage

if TYPE_CHECKING:
    from ._kernel import Kernel

R = TypeVar("R", bound="Outcome")


#: What the kernel says to somebody who can type a flag.
_PERMISSION = re.compile(r"--allow '([^']+)'")

#: What a program was told to pass on.
_PASSED_ON = re.compile(r"[(;·] ?for whoever runs agentkernel: (.*)\)\s*$")


@dataclass
class Outcome:
    """The outcome of a program or task. It unpacks to three: ``ok, output, error = result``."""

    success: bool
    output: str = ""  #: what it printed to standard output
    error: Optional[KernelError] = None  #: why it failed; ``str(error)`` has the traceback
    stderr: str = ""
    result: Any = None  #: the value of the program's last expression
    pid: Optional[int] = None  #: None if it was refused before it became a process
    state: str = "refused"  #: exited, failed, killed, paused or refused
    exit_code: int = 0  #: 130 of one that is paused, 2 of one that was refused
    usage: Usage = field(default_factory=Usage)
    duration: float = 0.0  #: seconds from start to end
    mode: str = "code"  #: "code": run as it was given; "template" or "planner": written for a task; "model": a model did the task
    code: str = ""  #: the program that ran; of mode "model" there are several, which on_step and trace show
    title: str = ""  #: of a program that was written for a task: what it does
    process: Optional[Process] = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._changes: Optional[Changes] = None
        self._kernel: Optional["Kernel[Any]"] = None
        self._unheard = False

    def __iter__(self) -> Iterator[Any]:
        return iter((self.success, self.output, self.error))

    def __bool__(self) -> bool:
        return self.success

    @property
    def stdout(self) -> str:
        """Another name for ``output``."""
        return self.output

    @property
    def changes(self) -> Optional[Changes]:
        """What it did to the files of its workspace and volumes, as it ended; None: it had no folder."""
        self._unheard = False
        return self._changes

    def check(self: R) -> R:
        """Raises the error if there is one; else gives the result itself."""
        if self.error is not None:
            raise self.error
        return self

    @classmethod
    def of(cls: type[R], process: Process, printed: Mapping[str, list[str]], source: str) -> R:
        """The result of a process that has ended or is paused."""
        paused = process.paused and not process.done
        error = process.error
        if error is None and not process.success:
            error = KernelError(_why(process, paused), code="conflict" if paused else "program_error", pid=process.pid,
                                hint=_goes_on(process) if paused else "")  # fmt: skip
        if error is not None and not error.hint and (needed := _PERMISSION.search(error.message)):
            error.hint = f"in Python: allow={needed[1]!r} of create_agent, or of a Spec"
        elif error is not None and not error.hint and (passed_on := _PASSED_ON.search(error.message)):
            error.hint = "in Python: " + in_python(passed_on[1])
        span = process.ended - process.created if process.ended and process.created else None
        return cls(
            success=process.success,
            output="".join(printed.get("stdout", ())),
            error=error,
            stderr="".join(printed.get("stderr", ())),
            result=process.result,
            pid=process.pid,
            state="paused" if paused else process.state,
            exit_code=_PAUSED if paused else process.exit_code,
            usage=process.usage,
            duration=span.total_seconds() if span else 0.0,
            code=source,
            process=process,
        )

    @classmethod
    def refused(cls: type[R], error: KernelError, source: str) -> R:
        """The result of what never became a process."""
        return cls(success=False, error=error, exit_code=2, code=source)

    def attach(self, kernel: "Kernel[Any]", changes: Optional[Changes]) -> None:
        """Makes the verbs on files possible. Changes that wait must not be dropped in silence."""
        self._kernel, self._changes = kernel, changes
        self._unheard = changes is not None and changes.state == "kept" and len(changes) > 0

    def files_of(self) -> tuple["Kernel[Any]", int]:
        """Where the verbs on files go."""
        if self.pid is None or self._kernel is None:
            raise InvalidArgument("this result has no process, and so no files", hint="it was refused before it ran: see error")
        self._unheard = False
        return self._kernel, self.pid

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_unheard": False}  # a copy is not the one that somebody has to look at

    def __del__(self) -> None:
        if not getattr(self, "_unheard", False) or self._changes is None:
            return
        warnings.warn(
            f"process {self.pid} changed files of {self._changes.folder or 'its volumes'} ({self._changes.counts}), and its result was dropped unseen. They are kept apart: "
            f"client.apply({self.pid}) writes them to the folder, client.discard({self.pid}) throws them away; publish=True applies without asking",
            UserWarning,
            stacklevel=2,
        )


#: The exit code of agentkernel for a process that is paused: it can go on.
_PAUSED = 130


def _goes_on(process: Process) -> str:
    """What lets a process go on that is paused; resume alone would have it paused again for what it lacks."""
    why = process.paused_for
    if why is not None and why.kind == "allowance":
        at = f"{why.until:%Y-%m-%d %H:%M} UTC" if why.until else "the end of its period"
        return f"it goes on by itself at {at}, or as soon as the setting allowances is raised; resume({process.pid}) alone would have it paused again"
    if why is not None and why.kind == "budget":
        return f"add_budget({why.budget}, ...) raises it, and it goes on; resume({process.pid}) alone would have it paused again"
    if why is not None and why.kind == "functions":
        return f"your program, run again, starts a new process; kill({process.pid}) ends this one, resume({process.pid}) lets it go on without its functions"
    return f"resume({process.pid}) lets it go on"


def _why(process: Process, paused: bool) -> str:
    if paused:
        return "the process is paused" + (f": {process.pause_note}" if process.pause_note else "")
    if process.state == "exited":
        return f"the program ended with exit code {process.exit_code}"
    return f"the process is {process.state}"
