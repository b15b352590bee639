"""The parts of json that the engine lacks: files, default=, hooks."""
from json import dumps as _dumps, loads as _loads


def dump(obj, fp, **kw):
    fp.write(dumps(obj, **kw))


def load(fp, **kw):
    return loads(fp.read(), **kw)


def _plain(obj, default, skipkeys):
    kind = type(obj)
    if obj is None or kind is str or kind is int or kind is float or kind is bool:
        return obj
    if kind is dict or kind.__name__ in ('defaultdict', 'Counter'):
        return {k: _plain(v, default, skipkeys) for k, v in obj.items()}
    if kind is list or kind is tuple or kind.__name__ not in _values and hasattr(obj, '_fields'):
        return [_plain(v, default, skipkeys) for v in obj]
    return _plain(default(obj), default, skipkeys)


_values = ('date', 'datetime', 'time', 'timedelta', 'timezone', 'set', 'frozenset', 'bytes', 'deque')


def dumps(obj, default=None, **kw):
    if default is None:
        return _dumps(obj, **kw)
    return _dumps(_plain(obj, default, False), **kw)


def _hooked(value, object_hook, pairs_hook, parse_float):
    kind = type(value)
    if kind is list:
        return [_hooked(v, object_hook, pairs_hook, parse_float) for v in value]
    if kind is dict:
        out = {k: _hooked(v, object_hook, pairs_hook, parse_float) for k, v in value.items()}
        if pairs_hook is not None:
            return pairs_hook(list(out.items()))
        return object_hook(out) if object_hook is not None else out
    if kind is float and parse_float is not None:
        return parse_float(repr(value))
    return value


def loads(s, object_hook=None, object_pairs_hook=None, parse_float=None):
    value = _loads(s)
    if object_hook is None and object_pairs_hook is None and parse_float is None:
        return value
    return _hooked(value, object_hook, object_pairs_hook, parse_float)
