"""os.path for POSIX: texts only, and the three questions that pathlib can answer."""
from pathlib import Path as _Path

sep = '/'
curdir = '.'
pardir = '..'
extsep = '.'


def _text(p):
    return p if type(p) is str else str(p)


def join(a, *p):
    path = _text(a)
    for b in p:
        b = _text(b)
        if b.startswith('/'):
            path = b
        elif not path or path.endswith('/'):
            path += b
        else:
            path += '/' + b
    return path


def split(p):
    p = _text(p)
    i = p.rfind('/') + 1
    head = p[:i]
    if head and head != '/' * len(head):
        head = head.rstrip('/')
    return head, p[i:]


def basename(p):
    p = _text(p)
    return p[p.rfind('/') + 1:]


def dirname(p):
    return split(p)[0]


def splitext(p):
    p = _text(p)
    dot = p.rfind('.')
    start = p.rfind('/') + 1
    if dot > start:
        i = start
        while i < dot:
            if p[i] != '.':
                return p[:dot], p[dot:]
            i += 1
    return p, ''


def isabs(s):
    return _text(s).startswith('/')


def normpath(path):
    path = _text(path)
    if not path:
        return '.'
    lead = ''
    if path.startswith('/'):
        lead = '//' if path.startswith('//') and not path.startswith('///') else '/'
    out = []
    for c in path.split('/'):
        if not c or c == '.':
            continue
        if c != '..' or (not lead and not out) or (out and out[-1] == '..'):
            out.append(c)
        elif out:
            out.pop()
    return lead + '/'.join(out) or '.'


def abspath(path):
    path = _text(path)
    return normpath(path if path.startswith('/') else '/' + path)


def realpath(path):
    return abspath(path)


def relpath(path, start='.'):
    a = [x for x in abspath(start).split('/') if x]
    b = [x for x in abspath(path).split('/') if x]
    i = len(commonprefix([a, b]))
    return '/'.join(['..'] * (len(a) - i) + b[i:]) or '.'


def commonprefix(m):
    if not m:
        return ''
    low = min(m)
    high = max(m)
    for i in range(len(low)):
        if low[i] != high[i]:
            return low[:i]
    return low


def commonpath(paths):
    parts = [[x for x in _text(p).split('/') if x and x != '.'] for p in paths]
    lead = '/' if _text(paths[0]).startswith('/') else ''
    return lead + '/'.join(commonprefix(parts))


def expanduser(path):
    return _text(path)


def normcase(s):
    return _text(s)


def exists(path):
    return _Path(path).exists()


def isfile(path):
    return _Path(path).is_file()


def isdir(path):
    return _Path(path).is_dir()
