"""Builds the distribution with the standard library alone (PEP 517, PEP 660): a wheel is a zip with metadata.

It knows this project and no other: pure Python under src/, metadata in pyproject.toml. pip imports it because
pyproject.toml names it; nothing is downloaded, with or without build isolation.
"""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
SUFFIXES = {".py", ".typed", ".pyi"}
STAMP = (2020, 1, 1, 0, 0, 0)  # the same files give the same wheel


def project() -> dict[str, Any]:
    """The table [project] of pyproject.toml. Python 3.10 has no TOML reader, so what stands there is read
    by a reader of the little that is used: strings, one-line tables, lists of strings."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    try:
        import tomllib
    except ImportError:
        return _read_project(text)
    table: dict[str, Any] = tomllib.loads(text)["project"]
    return table


def _read_project(text: str) -> dict[str, Any]:
    import ast

    table: dict[str, Any] = {}
    inside, gathered = False, ""
    for line in text.splitlines():
        if line.startswith("["):
            inside = line.strip() == "[project]"
            continue
        if not inside or not line.strip() or line.startswith("#"):
            continue
        gathered += line.strip()
        if gathered.count("[") > gathered.count("]"):
            continue
        name, _, value = gathered.partition("=")
        gathered, value = "", value.strip()
        if value.startswith("{"):
            key, _, inner = value.strip("{} ").partition("=")
            table[name.strip()] = {key.strip(): ast.literal_eval(inner.strip())}
        else:
            table[name.strip()] = ast.literal_eval(value)
    return table


def metadata() -> str:
    p = project()
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {p['name']}",
        f"Version: {p['version']}",
        f"Summary: {p['description']}",
        f"License: {p['license']['text']}",
        f"Keywords: {','.join(p['keywords'])}",
        f"Requires-Python: {p['requires-python']}",
        *[f"Classifier: {c}" for c in p["classifiers"]],
        "Description-Content-Type: text/markdown",
    ]
    readme = (ROOT / str(p["readme"])).read_text(encoding="utf-8")
    return "\n".join(lines) + "\n\n" + readme


def _names() -> tuple[str, str]:
    p = project()
    name = p["name"].replace("-", "_")
    return f"{name}-{p['version']}", f"{name}-{p['version']}.dist-info"


def _sources() -> list[tuple[str, bytes]]:
    found = [f for f in SOURCE.rglob("*") if f.is_file() and f.suffix in SUFFIXES and "__pycache__" not in f.parts]
    return [(f.relative_to(SOURCE).as_posix(), f.read_bytes()) for f in sorted(found)]


def _write_wheel(directory: str, files: list[tuple[str, bytes]]) -> str:
    name, info = _names()
    files = [
        *files,
        (f"{info}/METADATA", metadata().encode()),
        (f"{info}/WHEEL", b"Wheel-Version: 1.0\nGenerator: agentkernel_build\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
    ]
    record = []
    for path, content in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{path},sha256={digest},{len(content)}\n")
    record.append(f"{info}/RECORD,,\n")
    files.append((f"{info}/RECORD", "".join(record).encode()))
    wheel = f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(Path(directory) / wheel, "w", zipfile.ZIP_DEFLATED) as z:
        for path, content in files:
            entry = zipfile.ZipInfo(path, STAMP)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            z.writestr(entry, content)
    return wheel


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    return _write_wheel(wheel_directory, _sources())


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    return _write_wheel(wheel_directory, [("agentkernel_runtime.pth", f"{SOURCE}\n".encode())])


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    name, _ = _names()
    archive = f"{name}.tar.gz"
    wanted = [f"src/{path}" for path, _ in _sources()] + ["pyproject.toml", "README.md", "backend/agentkernel_build.py"]
    with tarfile.open(Path(sdist_directory) / archive, "w:gz") as tar:
        for path in sorted(wanted):
            tar.add(ROOT / path, arcname=f"{name}/{path}")
        info = tarfile.TarInfo(f"{name}/PKG-INFO")
        content = metadata().encode()
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return archive
