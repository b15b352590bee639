"""dataclass with field(), __post_init__, asdict, astuple, replace and fields."""
from dataclasses import FrozenInstanceError as _FrozenInstanceError, is_dataclass as _is_dataclass


class _Missing:
    def __repr__(self):
        return 'MISSING'


MISSING = _Missing()


class Field:
    def __init__(self, default, default_factory, init, repr, compare, kw_only, metadata):
        self.name = None
        self.type = None
        self.default = default
        self.default_factory = default_factory
        self.init = init
        self.repr = repr
        self.compare = compare
        self.kw_only = kw_only
        self.metadata = metadata


def field(default=MISSING, default_factory=MISSING, init=True, repr=True, hash=None, compare=True, metadata=None, kw_only=False):
    if default is not MISSING and default_factory is not MISSING:
        raise ValueError('cannot specify both default and default_factory')
    return Field(default, default_factory, init, repr, compare, kw_only, metadata or {})


def dataclass(cls=None, init=True, repr=True, eq=True, order=False, unsafe_hash=False, frozen=False, match_args=True, kw_only=False, slots=False):
    if order:
        raise TypeError('dataclass(order=True) is not available on the monty backend')
    if cls is None:
        return lambda c: _make(c, init, repr, eq, frozen or unsafe_hash, kw_only)
    return _make(cls, init, repr, eq, frozen or unsafe_hash, kw_only)


def _collect(cls, kw_only):
    out = []
    for name, kind in cls.__annotations__.items():
        text = str(kind)
        if 'ClassVar' in text:
            continue
        f = getattr(cls, name) if hasattr(cls, name) else MISSING
        if type(f) is not Field:
            if type(f).__name__ in ('list', 'dict', 'set'):
                raise ValueError('mutable default ' + str(type(f)) + ' for field ' + name + ' is not allowed: use default_factory')
            f = Field(f, MISSING, True, True, True, kw_only, {})
        f.name = name
        f.type = kind
        out.append(f)
    return out


def _make(cls, init, repr_, eq, hashed, kw_only):
    all_fields = _collect(cls, kw_only)
    seen = None
    for f in all_fields:
        if f.default is not MISSING:
            setattr(cls, f.name, f.default)
        if f.init and not f.kw_only:
            if f.default is not MISSING or f.default_factory is not MISSING:
                seen = f.name
            elif seen is not None:
                raise TypeError('non-default argument ' + repr(f.name) + ' follows default argument')
    cls.__dataclass_fields__ = {f.name: f for f in all_fields}
    positional = [f for f in all_fields if f.init and not f.kw_only]
    post = hasattr(cls, '__post_init__')
    name = cls.__name__

    def __init__(self, *args, **kwargs):
        if len(args) > len(positional):
            raise TypeError(name + '.__init__() takes ' + str(len(positional) + 1) + ' positional arguments but ' + str(len(args) + 1) + ' were given')
        given = {}
        for f, v in zip(positional, args):
            given[f.name] = v
        for k, v in kwargs.items():
            if k in given:
                raise TypeError(name + ".__init__() got multiple values for argument '" + k + "'")
            given[k] = v
        missing = []
        for f in all_fields:
            if f.init and f.name in given:
                setattr(self, f.name, given.pop(f.name))
            elif f.default_factory is not MISSING:
                setattr(self, f.name, f.default_factory())
            elif f.default is not MISSING:
                setattr(self, f.name, f.default)
            elif f.init:
                missing.append("'" + f.name + "'")
        if given:
            raise TypeError(name + ".__init__() got an unexpected keyword argument '" + list(given)[0] + "'")
        if missing:
            last = missing[-1] if len(missing) == 1 else ', '.join(missing[:-1]) + (',' if len(missing) > 2 else '') + ' and ' + missing[-1]
            raise TypeError(name + '.__init__() missing ' + str(len(missing)) + ' required positional argument' + ('s' if len(missing) > 1 else '') + ': ' + last)
        if post:
            self.__post_init__()

    def __repr__(self):
        return name + '(' + ', '.join([f.name + '=' + repr(getattr(self, f.name)) for f in all_fields if f.repr]) + ')'

    def __eq__(self, other):
        if type(other) is not type(self):
            return False
        for f in all_fields:
            if f.compare and getattr(self, f.name) != getattr(other, f.name):
                return False
        return True

    def __hash__(self):
        return hash(tuple([getattr(self, f.name) for f in all_fields if f.compare]))

    if init:
        cls.__init__ = __init__
    if repr_ and not _own(cls, '__repr__'):
        cls.__repr__ = __repr__
    if eq and not _own(cls, '__eq__'):
        cls.__eq__ = __eq__
        if hashed:
            cls.__hash__ = __hash__
    return cls


def _own(cls, name):
    return name in _methods(cls)


def _methods(cls):
    return [n for n in ('__repr__', '__eq__') if hasattr(cls, n)]


def is_dataclass(obj):
    return hasattr(obj, '__dataclass_fields__') or _is_dataclass(obj)


def fields(class_or_instance):
    return tuple(class_or_instance.__dataclass_fields__.values())


def asdict(obj, dict_factory=dict):
    return dict_factory([(n, _inner(getattr(obj, n), dict_factory)) for n in obj.__dataclass_fields__])


def _inner(v, dict_factory):
    kind = type(v)
    if hasattr(v, '__dataclass_fields__'):
        return asdict(v, dict_factory)
    if kind is list:
        return [_inner(x, dict_factory) for x in v]
    if kind is tuple:
        return tuple([_inner(x, dict_factory) for x in v])
    if kind is dict:
        return {_inner(k, dict_factory): _inner(x, dict_factory) for k, x in v.items()}
    return v


def astuple(obj, tuple_factory=tuple):
    return tuple_factory([_inner_tuple(getattr(obj, n), tuple_factory) for n in obj.__dataclass_fields__])


def _inner_tuple(v, tuple_factory):
    kind = type(v)
    if hasattr(v, '__dataclass_fields__'):
        return astuple(v, tuple_factory)
    if kind is list:
        return [_inner_tuple(x, tuple_factory) for x in v]
    if kind is tuple:
        return tuple([_inner_tuple(x, tuple_factory) for x in v])
    if kind is dict:
        return {_inner_tuple(k, tuple_factory): _inner_tuple(x, tuple_factory) for k, x in v.items()}
    return v


def replace(obj, **changes):
    values = {n: getattr(obj, n) for n in obj.__dataclass_fields__}
    for k in changes:
        if k not in values:
            raise TypeError(type(obj).__name__ + ".__init__() got an unexpected keyword argument '" + k + "'")
    values.update(changes)
    return type(obj)(**values)
