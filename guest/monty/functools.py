"""The parts of functools that the engine lacks."""


def wraps(wrapped, assigned=None, updated=None):
    return lambda wrapper: wrapper


def _key(args, kwargs):
    return (args, tuple(kwargs.items())) if kwargs else args


def cache(user_function):
    seen = {}

    def call(*args, **kwargs):
        key = _key(args, kwargs)
        if key in seen:
            return seen[key]
        out = user_function(*args, **kwargs)
        seen[key] = out
        return out
    return call


def _bounded(user_function, maxsize):
    seen = {}

    def call(*args, **kwargs):
        key = _key(args, kwargs)
        if key in seen:
            out = seen.pop(key)
            seen[key] = out
            return out
        out = user_function(*args, **kwargs)
        seen[key] = out
        if len(seen) > maxsize:
            seen.pop(next(iter(seen)))
        return out
    return call


def lru_cache(maxsize=128, typed=False):
    if maxsize is None:
        return cache
    if type(maxsize) is not int:
        return _bounded(maxsize, 128)
    if maxsize <= 0:
        return lambda user_function: user_function
    return lambda user_function: _bounded(user_function, maxsize)


def partialmethod(func, *args, **keywords):
    return lambda self, *more, **kw: func(self, *args, *more, **{**keywords, **kw})
