"""The parts of asyncio that can be had without an event loop of one's own."""
from asyncio import gather as _gather
from engine import TimeoutError
from kernel.aio import sleep as _sleep


def sleep(delay, result=None):
    waiting = _sleep(max(delay, 0))
    if result is None:
        return waiting
    return _then(waiting, result)


async def _then(waiting, result):
    await waiting
    return result


async def _caught(awaitable):
    try:
        return await awaitable
    except Exception as e:
        return e


def gather(*aws, return_exceptions=False):
    if return_exceptions:
        return _gather(*[_caught(a) for a in aws])
    return _gather(*aws)


async def to_thread(func, *args, **kwargs):
    return func(*args, **kwargs) if kwargs else func(*args)


def iscoroutine(obj):
    return type(obj).__name__ == 'coroutine'
