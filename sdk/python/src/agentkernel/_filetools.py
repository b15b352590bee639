"""The files of a workspace as local tools, ``tools.workspace``: functions that run inside the sandbox, in its folder."""

from __future__ import annotations

#: What each function needs besides its own text.
_ROOT = """import os


def _inside(path):
    return os.path.join("/workspace", path)


"""

_FUNCTIONS = {
    "list_directory": '''def list_directory(path: str = ".") -> str:
    """Lists a directory of the workspace: a line "[FILE] name" or "[DIR] name" for each entry."""
    entries = sorted(os.scandir(_inside(path)), key=lambda e: e.name)
    return "\\n".join(("[DIR] " if e.is_dir() else "[FILE] ") + e.name for e in entries)
''',
    "read_text_file": '''def read_text_file(path: str) -> str:
    """Reads a text file (UTF-8) of the workspace, whole."""
    with open(_inside(path), encoding="utf-8", newline="") as f:
        return f.read()
''',
    "write_text_file": '''def write_text_file(path: str, content: str) -> str:
    """Writes a text file of the workspace, whole; directories on the way are made."""
    os.makedirs(os.path.dirname(_inside(path)), exist_ok=True)
    with open(_inside(path), "w", encoding="utf-8", newline="") as f:
        f.write(content)
    return f"{len(content.encode())} bytes written to {path}"
''',
    "append_text_file": '''def append_text_file(path: str, content: str) -> str:
    """Adds text to the end of a file of the workspace."""
    with open(_inside(path), "a", encoding="utf-8", newline="") as f:
        f.write(content)
    return f"{len(content.encode())} bytes added to {path}"
''',
    "file_info": '''def file_info(path: str) -> dict:
    """Kind, size in bytes and time of change of a file or directory of the workspace."""
    found = os.stat(_inside(path))
    return {"kind": "directory" if os.path.isdir(_inside(path)) else "file", "size": found.st_size, "modified": found.st_mtime}
''',
}


def file_tools(source: str) -> dict[str, str]:
    """The modules of a program that speaks of them."""
    if "tools" not in source:
        return {}
    return {f"tools.workspace.{name}": _ROOT + text for name, text in _FUNCTIONS.items()}
