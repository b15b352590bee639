"""The event loop of a program: its only source of events is the channel to the kernel.

Timers are kernel sleeps. The channel is read only when nothing is ready to run, and one result is taken a turn, so
that a replay which hands over the same results in the same order makes the same program.
"""
import asyncio
import os
import select
import threading
from asyncio import base_events, events

from _agentkernel import calls, values, wire


class _Timer(calls.Call):
    """A kernel sleep that runs a callback of the loop."""

    __slots__ = ("_handle", "_loop")

    def __init__(self, loop, delay, handle):
        self._loop, self._handle = loop, handle
        super().__init__("time.sleep", '{"seconds":%s}' % values.encode(max(delay, 0)))

    def settle(self, value, error):
        if not self._handle._cancelled and not self._loop.is_closed():
            self._loop._ready.append(self._handle)


class KernelLoop(base_events.BaseEventLoop):
    """asyncio on top of system calls. There are no sockets and no signals to wait for."""

    def __init__(self):
        super().__init__()
        self._wake = None  # pipe that other threads write to
        self._sent = False  # a wait has gone to the kernel and is not answered yet

    def time(self):
        return wire.channel.ask("time.now", "{}")

    def call_later(self, delay, callback, *args, context=None):
        if delay is None:
            raise TypeError("delay must not be None")
        return self._timer(self.time() + delay, delay, callback, args, context)

    def call_at(self, when, callback, *args, context=None):
        if when is None:
            raise TypeError("when cannot be None")
        return self._timer(when, when - self.time(), callback, args, context)

    def _timer(self, when, delay, callback, args, context):
        self._check_closed()
        handle = events.TimerHandle(when, callback, args, self, context)
        _Timer(self, delay, handle)
        return handle

    def _timer_handle_cancelled(self, handle):
        pass  # its sleep ends when it ends, and wakes nobody

    def run_in_executor(self, executor, func, *args):
        """Without an executor of the program's own the function runs at once, not in a thread: so it runs at the
        same point in every replay."""
        if executor is not None or self._default_executor is not None:
            return super().run_in_executor(executor, func, *args)
        self._check_closed()
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as e:
            future.set_exception(e)
        return future

    def _run_once(self):
        if not self._ready and not self._stopping:
            self._idle()
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _idle(self):
        """Nothing is ready: takes one result from the kernel, or waits for another thread of the program."""
        c = wire.channel
        if c is None or not (c.flying or c.early or self._sent):
            if not self._others():
                raise RuntimeError("the program waits for something that can never happen: no call is under way")
            self._listen(None)
            return
        with c.asking:
            if not self._sent and not c.early:
                c.wait()
                self._sent = True
            if not self._others() or c.early or c._buffer or self._listen(c):
                self._sent = False
                c.settle_one()

    def _others(self):
        return threading.active_count() > 1

    def _listen(self, c):
        """Waits until the kernel answers (True) or another thread has something for the loop."""
        if self._wake is None:
            self._wake = os.pipe()
        if self._ready:
            return False
        fds = [self._wake[0]] + ([c.fd] if c is not None else [])
        ready = select.select(fds, [], [])[0]
        if self._wake[0] in ready:
            os.read(self._wake[0], 4096)
        return c is not None and c.fd in ready

    def _write_to_self(self):
        if self._wake is not None:
            os.write(self._wake[1], b"\0")

    async def _make_subprocess_transport(self, *args, **kwargs):
        raise NotImplementedError("asyncio has no child processes here: use subprocess.run, or asyncio.to_thread(subprocess.run, ...)")

    def add_reader(self, fd, callback, *args):
        raise NotImplementedError("asyncio waits for the kernel alone here, not for descriptors")

    add_writer = add_reader

    def _process_events(self, event_list):
        pass

    def close(self):
        super().close()
        if self._wake is not None and not self.is_running():
            for fd in self._wake:
                os.close(fd)
            self._wake = None


def sleep(delay, result=None):
    """asyncio.sleep: a kernel sleep, which begins when it is called."""
    return _Sleep("time.sleep", '{"seconds":%s}' % values.encode(max(delay, 0)), result)


class _Sleep(calls.Call):
    __slots__ = ("_result",)

    def __init__(self, op, args, result):
        self._result = result
        super().__init__(op, args)

    def settle(self, value, error):
        super().settle(self._result if error is None else None, error)


def install():
    """Makes every new loop a KernelLoop."""
    asyncio.sleep = asyncio.tasks.sleep = sleep
    base = getattr(events, "_DefaultEventLoopPolicy", None) or events.BaseDefaultEventLoopPolicy

    class Policy(base):
        _loop_factory = KernelLoop

    setter = getattr(events, "_set_event_loop_policy", None) or events.set_event_loop_policy
    setter(Policy())
