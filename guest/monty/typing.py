"""The names of typing that the engine lacks; annotations are not evaluated."""
from collections import namedtuple as _namedtuple
from typing import Any as _Any

AbstractSet = _Any
AnyStr = _Any
AsyncContextManager = _Any
AsyncGenerator = _Any
AsyncIterable = _Any
AsyncIterator = _Any
Awaitable = _Any
BinaryIO = _Any
ByteString = _Any
ChainMap = _Any
Collection = _Any
Concatenate = _Any
Container = _Any
ContextManager = _Any
Coroutine = _Any
Counter = _Any
DefaultDict = _Any
Deque = _Any
ForwardRef = _Any
Hashable = _Any
IO = _Any
ItemsView = _Any
KeysView = _Any
LiteralString = _Any
Match = _Any
MutableMapping = _Any
MutableSequence = _Any
MutableSet = _Any
NamedTuple = _Any
NotRequired = _Any
OrderedDict = _Any
Pattern = _Any
ReadOnly = _Any
Required = _Any
Reversible = _Any
Sized = _Any
SupportsAbs = _Any
SupportsFloat = _Any
SupportsIndex = _Any
SupportsInt = _Any
SupportsRound = _Any
Text = str
TextIO = _Any
TypeAlias = _Any
TypedDict = _Any
TypeGuard = _Any
TypeIs = _Any
Unpack = _Any
ValuesView = _Any


def cast(typ, val):
    return val


def overload(func):
    return func


def override(func):
    return func


def final(f):
    return f


def no_type_check(arg):
    return arg


def runtime_checkable(cls):
    return cls


def NewType(name, tp):
    return lambda x: x


def TypeVar(name, *constraints, **kwargs):
    return name


def ParamSpec(name, **kwargs):
    return name


def TypeVarTuple(name, **kwargs):
    return name


def assert_never(arg):
    raise AssertionError('Expected code to be unreachable, but got: ' + repr(arg))


def assert_type(val, typ):
    return val


def reveal_type(obj):
    return obj


def _named(cls):
    if not hasattr(cls, '_named_'):
        names = list(cls.__annotations__)
        cls._named_ = _namedtuple(cls.__name__, names, defaults=[getattr(cls, n) for n in names if hasattr(cls, n)])
    return cls._named_
