"""Where things are: the data directory, the kernel's socket, the ``agentkernel`` binary."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

from ._http import API_VERSION
from .errors import BinaryNotFound, InvalidArgument, KernelError, Unavailable, VersionMismatch
from .values import parse

PathLike = Union[str, "os.PathLike[str]"]

#: sun_path holds 108 bytes on Linux and 104 on macOS, one of them the closing zero.
_MAX_SOCKET_PATH = 103
_START_PATIENCE = 30.0
_PLAN_PATIENCE = 30.0
_BUILD_PATIENCE = 900.0  # a slow network, large wheels


def data_directory(explicit: Optional[PathLike] = None, env: Mapping[str, str] = os.environ) -> str:
    """The data directory, absolute: the argument, else $AGENTKERNEL_HOME, else ``home`` of the user's settings file,
    else $XDG_STATE_HOME/agentkernel, else ~/.local/state/agentkernel. The same as for the command line."""
    path = os.fspath(explicit) if explicit is not None else env.get("AGENTKERNEL_HOME", "")
    if explicit is not None and not path:
        raise InvalidArgument("home is empty", hint="leave it out for the default data directory")
    if not path:
        path = _configured_home(env)
    if not path:
        state = env.get("XDG_STATE_HOME", "")
        path = os.path.join(state, "agentkernel") if os.path.isabs(state) else "~/.local/state/agentkernel"
    return os.path.abspath(os.path.expanduser(path))


def _configured_home(env: Mapping[str, str]) -> str:
    base = env.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~/.config"))
    try:
        text = (folder / "agentkernel" / "config.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    top = re.split(r"(?m)^\s*\[", text)[0]
    m = re.search(r"""(?m)^\s*home\s*=\s*(?:"([^"\n]*)"|'([^'\n]*)')""", top)
    if m is None:
        return ""
    path = os.path.expanduser(m[1] or m[2] or "")
    return os.path.join(folder, "agentkernel", path) if path else ""


def socket_path(home: str) -> str:
    """Where the kernel of a data directory listens: in it, or below /tmp if that path is too long for a socket."""
    path = os.path.join(home, "kernel.sock")
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
        return path
    digest = hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:24]
    return f"/tmp/agentkernel-{os.geteuid()}/{digest}.sock"


_INSTALL = "run `make build` in a checkout of AgentKernel; then put ./agentkernel on PATH, or name it with AGENTKERNEL_BIN or binary="


def find_binary(explicit: Optional[PathLike] = None, env: Mapping[str, str] = os.environ) -> str:
    """The ``agentkernel`` binary: the argument, else $AGENTKERNEL_BIN, else PATH, else the one that was built in a checkout:
    that which this package is part of, or in which the running script lies (of a notebook or a prompt: the working
    directory)."""
    for what, value in (("binary=", explicit), ("AGENTKERNEL_BIN", env.get("AGENTKERNEL_BIN"))):
        if not value:
            continue
        path = os.path.abspath(os.path.expanduser(os.fspath(value)))
        if _executable(path):
            return path
        raise BinaryNotFound(f"{what} names {path}, which is not an executable file", hint=_INSTALL)
    found = shutil.which("agentkernel", path=env.get("PATH"))
    if found:
        return os.path.abspath(found)
    tried = ["binary= and AGENTKERNEL_BIN are not set", "there is no agentkernel on PATH"]
    for checkout in checkouts():
        built = os.path.join(checkout, "agentkernel")
        if _executable(built):
            return built
        tried.append(f"{built} is not built")
    if len(tried) == 2:
        tried.append("neither this package nor the running script lies in a checkout of AgentKernel")
    raise BinaryNotFound(f"the agentkernel binary was not found: {'; '.join(tried)}", hint=_INSTALL)


def _executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def checkouts() -> list[str]:
    """The checkouts of AgentKernel in which this package or the running program lie. A program that was not started from a
    file trusts its working directory anyway: Python imports modules from there."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    places = [Path(__file__), Path(main) if main else Path("prompt")]
    found: list[str] = []
    for place in map(Path.resolve, places):
        for folder in place.parents:
            if (folder / "sdk" / "python" / "pyproject.toml").is_file() and (folder / "cmd" / "agentkernel").is_dir():
                if str(folder) not in found:
                    found.append(str(folder))
                break
    return found


def embeddings_settings(embeddings: Optional[Mapping[str, str]]) -> dict[str, str]:
    """The environment variables of an ``embeddings=`` argument."""
    known = ("url", "model", "key")
    for name, value in (embeddings or {}).items():
        if name not in known or not isinstance(value, str):
            raise InvalidArgument(f"embeddings={{{name!r}: ...}} is not known, or no text", hint="url, model and key (env:VARIABLE or file:/PATH), all text")
    return {"AGENTKERNEL_EMBEDDINGS_" + name.upper(): value for name, value in (embeddings or {}).items()}


def run_binary(
    binary: str, arguments: list[str], given: Any = None, patience: float = _START_PATIENCE, settings: Optional[Mapping[str, str]] = None
) -> Any:
    """Runs the binary with --json and gives what it prints. Errors come as the binary reports them."""
    try:
        done = subprocess.run(
            [binary, *arguments],
            input=b"" if given is None else json.dumps(given, ensure_ascii=False).encode("utf-8", "surrogateescape"),
            capture_output=True,
            timeout=patience,
            env={**os.environ, **settings} if settings else None,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{binary} {arguments[0]} did not answer within {patience:.0f} s", hint="agentkernel doctor says what is wrong") from None
    except (OSError, UnicodeEncodeError) as e:
        raise BinaryNotFound(f"{binary} cannot be run: {e}", hint=_INSTALL) from None
    said = done.stderr.decode("utf-8", "replace").strip()
    try:
        answer = parse(done.stdout)
    except KernelError:
        answer = None
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
        if f'no command "{arguments[0]}"' in str(answer["error"].get("message")):
            raise VersionMismatch(f"{binary} is of another version: it has no command {arguments[0]!r}", hint=_INSTALL)
        raise KernelError.from_wire(answer["error"])
    if done.returncode != 0 or answer is None:
        raise BinaryNotFound(
            f"{binary} {arguments[0]} ended with {done.returncode} and is probably not AgentKernel: {said[:300] or 'it said nothing'}", hint=_INSTALL
        )
    return answer


def start_kernel(binary: str, home: str, settings: Optional[Mapping[str, str]] = None) -> str:
    """Starts a kernel for the data directory, unless one runs. Gives the path of its socket."""
    answer = run_binary(binary, ["start", "--json", "--home", home], settings=settings)
    if answer.get("api") != API_VERSION:
        raise VersionMismatch(
            f"{binary} (version {answer.get('version')}) speaks version {answer.get('api')} of the API, and this SDK version {API_VERSION}",
            hint="install SDK and binary of the same release; `agentkernel shutdown` ends a kernel that runs",
        )
    return str(answer["socket"])


def build_environment(binary: str, home: str, packages: Sequence[str]) -> str:
    """The environment with these packages, built by the binary with the user's pip if it is not there yet."""
    return str(run_binary(binary, ["env", "build", "--json", "--home", home, "--", *packages], None, _BUILD_PATIENCE)["path"])


def make_plan(binary: str, task: str, tools: list[Mapping[str, Any]]) -> Any:
    """A program for a task in plain language, by template mode of the binary."""
    return run_binary(binary, ["task", "--plan", "--json", "--given", "-"], {"task": task, "tools": tools}, _PLAN_PATIENCE)
