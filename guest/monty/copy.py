"""copy of builtin containers and dataclasses. Other instances have no list of their attributes here."""

Error = RuntimeError
_atoms = ('NoneType', 'int', 'float', 'bool', 'str', 'bytes', 'type', 'function', 'builtin_function_or_method', 'range', 'date',
          'datetime', 'time', 'timedelta', 'timezone', 'ellipsis', 'PosixPath', 'Path', 'Pattern', 'module')


def _fail(x):
    raise TypeError('copy of ' + type(x).__name__ + ' is not available on the monty backend')


def copy(x):
    kind = type(x)
    if kind.__name__ in _atoms or kind is tuple or kind is frozenset:
        return x
    if kind is list or kind is dict or kind is set or kind.__name__ in ('deque', 'defaultdict', 'Counter'):
        return x.copy()
    if hasattr(kind, '__dataclass_fields__'):
        return kind(**{n: getattr(x, n) for n in kind.__dataclass_fields__})
    return _fail(x)


def deepcopy(x, memo=None):
    return _deep(x, {} if memo is None else memo)


def _deep(x, memo):
    kind = type(x)
    if kind.__name__ in _atoms:
        return x
    key = id(x)
    if key in memo:
        return memo[key][0]
    if kind is list:
        out = []
        memo[key] = (out, x)
        for v in x:
            out.append(_deep(v, memo))
    elif kind is dict:
        out = {}
        memo[key] = (out, x)
        for k, v in x.items():
            out[_deep(k, memo)] = _deep(v, memo)
    elif kind is tuple:
        out = tuple([_deep(v, memo) for v in x])
        memo[key] = (out, x)
    elif kind is set:
        out = set([_deep(v, memo) for v in x])
        memo[key] = (out, x)
    elif kind is frozenset:
        out = frozenset([_deep(v, memo) for v in x])
        memo[key] = (out, x)
    elif kind.__name__ == 'Counter' or kind.__name__ == 'defaultdict':
        out = x.copy()
        memo[key] = (out, x)
        for k, v in x.items():
            out[k] = _deep(v, memo)
    elif kind.__name__ == 'deque':
        out = x.copy()
        out.clear()
        memo[key] = (out, x)
        for v in x:
            out.append(_deep(v, memo))
    elif hasattr(kind, '__dataclass_fields__'):
        out = kind(**{n: _deep(getattr(x, n), memo) for n in kind.__dataclass_fields__})
        memo[key] = (out, x)
    else:
        out = _fail(x)
    return out
