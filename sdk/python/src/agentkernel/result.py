"""What running something gives."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Optional

from .errors import KernelError
from .model import Process, Usage


#: What the kernel says to somebody who can type a flag.
_PERMISSION = re.compile(r"--allow '([^']+)'")


@dataclass
class Result:
    """The outcome of a program or task. It unpacks to three: ``ok, output, error = result``."""

    success: bool
    output: str = ""  #: what it printed to standard output
    error: Optional[KernelError] = None  #: why it failed; ``str(error)`` has the traceback
    stderr: str = ""
    result: Any = None  #: the value of the program's last expression
    pid: Optional[int] = None  #: None if it was refused before it became a process
    state: str = "refused"  #: exited, failed, killed, paused or refused
    exit_code: int = 0
    usage: Usage = field(default_factory=Usage)
    duration: float = 0.0  #: seconds from start to end
    mode: str = "code"  #: "code": run as it was given; "template" or "planner": written for a task
    code: str = ""  #: the program that ran
    title: str = ""  #: of a program that was written for a task: what it does
    process: Optional[Process] = field(default=None, repr=False)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.success, self.output, self.error))

    def __bool__(self) -> bool:
        return self.success

    @property
    def stdout(self) -> str:
        """Another name for ``output``."""
        return self.output

    def check(self) -> "Result":
        """Raises the error if there is one; else gives the result itself."""
        if self.error is not None:
            raise self.error
        return self

    @classmethod
    def of(cls, process: Process, printed: Mapping[str, list[str]], source: str) -> "Result":
        """The result of a process that has ended or is paused."""
        paused = process.paused and not process.done
        error = process.error
        if error is None and not process.success:
            error = KernelError(_why(process, paused), code="conflict" if paused else "program_error", pid=process.pid,
                                hint=f"resume({process.pid}) lets it go on" if paused else "")  # fmt: skip
        if error is not None and not error.hint and (needed := _PERMISSION.search(error.message)):
            error.hint = f"in Python: allow={needed[1]!r} of create_agent, or of a Spec"
        span = process.ended - process.created if process.ended and process.created else None
        return cls(
            success=process.success,
            output="".join(printed.get("stdout", ())),
            error=error,
            stderr="".join(printed.get("stderr", ())),
            result=process.result,
            pid=process.pid,
            state="paused" if paused else process.state,
            exit_code=process.exit_code,
            usage=process.usage,
            duration=span.total_seconds() if span else 0.0,
            code=source,
            process=process,
        )

    @classmethod
    def refused(cls, error: KernelError, source: str) -> "Result":
        """The result of what never became a process."""
        return cls(success=False, error=error, exit_code=2, code=source)


def _why(process: Process, paused: bool) -> str:
    if paused:
        return "the process is paused" + (f": {process.pause_note}" if process.pause_note else "")
    if process.state == "exited":
        return f"the program ended with exit code {process.exit_code}"
    return f"the process is {process.state}"
