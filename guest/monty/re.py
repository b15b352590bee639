"""The parts of re that the engine lacks: functions as replacements, subn."""
from re import sub as _sub, finditer as _finditer

U = 0
UNICODE = 0


def _replace(pattern, repl, string, count, flags):
    out = []
    at = 0
    n = 0
    found = pattern.finditer(string) if hasattr(pattern, 'pattern') else _finditer(pattern, string, flags)
    for m in found:
        if count and n >= count:
            break
        n += 1
        out.append(string[at:m.start()])
        out.append(repl(m))
        at = m.end()
    out.append(string[at:])
    return ''.join(out), n


def sub(pattern, repl, string, count=0, flags=0):
    if type(repl) is str:
        if hasattr(pattern, 'pattern'):
            return pattern.sub(repl, string, count)
        return _sub(pattern, repl, string, count, flags)
    return _replace(pattern, repl, string, count, flags)[0]


def subn(pattern, repl, string, count=0, flags=0):
    n = 0
    found = pattern.finditer(string) if hasattr(pattern, 'pattern') else _finditer(pattern, string, flags)
    for _ in found:
        n += 1
    return sub(pattern, repl, string, count, flags), min(n, count) if count else n


def purge():
    pass


def split(pattern, string, maxsplit=0, flags=0):
    out = []
    at = 0
    found = pattern.finditer(string) if hasattr(pattern, 'pattern') else _finditer(pattern, string, flags)
    n = 0
    for m in found:
        if maxsplit and n >= maxsplit:
            break
        n += 1
        out.append(string[at:m.start()])
        out.extend(m.groups())
        at = m.end()
    out.append(string[at:])
    return out
