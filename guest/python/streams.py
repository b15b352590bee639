"""What llm.stream gives: an answer that comes bit by bit. Monty has the same classes (guest/monty/builtins.py)."""
from _agentkernel import values, wire


class _Reader:
    """What reading a stream needs, waiting or awaiting."""

    def __init__(self, handle):
        self.handle = handle
        self._items = []
        self._open = True

    def _args(self):
        return values.encode({"handle": self.handle})

    def _take(self, items):
        self._items = items
        if not items:
            self._open = False

    def close(self):
        """Ends the answer; nothing happens if it has ended."""
        if self._open:
            self._open = False
            wire.channel.ask("stream.close", self._args())


class Stream(_Reader):
    """An answer that comes bit by bit: iterate over it. close() ends it early, and so does a with block. next() is for Monty, too, which
    has no such loop: it returns the pieces that are there, and an empty list at the end."""

    def next(self):
        if not self._items and self._open:
            try:
                self._take(wire.channel.ask("stream.next", self._args()))
            except BaseException:
                self.close()
                raise
        items, self._items = self._items, []
        return items

    def __iter__(self):
        return self

    def __next__(self):
        if not self._items:
            self._items = self.next()
        if not self._items:
            raise StopIteration
        return self._items.pop(0)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class AsyncStream(_Reader):
    """The same for `async for`."""

    async def next(self):
        from _agentkernel.calls import Call
        if not self._items and self._open:
            try:
                self._take(await Call("stream.next", self._args()))
            except BaseException:
                self.close()
                raise
        items, self._items = self._items, []
        return items

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self._items:
            self._items = await self.next()
        if not self._items:
            raise StopAsyncIteration
        return self._items.pop(0)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        self.close()
