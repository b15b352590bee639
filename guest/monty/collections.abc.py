"""Names for annotations."""
from typing import Any as _Any, Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set

AsyncGenerator = _Any
AsyncIterable = _Any
AsyncIterator = _Any
Awaitable = _Any
ByteString = _Any
Collection = _Any
Container = _Any
Coroutine = _Any
Hashable = _Any
ItemsView = _Any
KeysView = _Any
MappingView = _Any
MutableMapping = _Any
MutableSequence = _Any
MutableSet = _Any
Reversible = _Any
Sized = _Any
ValuesView = _Any
Buffer = _Any
