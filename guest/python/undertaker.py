"""The first process of a zygote, and the parent of all its children: it says how each of them ended.

It parts from the zygote before anything is imported, so that of the two only the zygote has much memory, and only this
one writes to any while programs come and go.
"""
import os
import signal
import sys

CONTROL = 3  # descriptor of the socket to the kernel
SPARED = ("_ssl", "_uuid")  # which asyncio and uuid take if they can: libraries that would be in every child, and that none can use


def main(config):
    forker = os.fork()
    if forker == 0:
        _zygote(config)
        return
    while True:
        # A child stays a zombie while its group is killed, so that its number is nobody else's. Behind walls everything
        # that it started has ended with it; elsewhere this is what is left of it.
        pid = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid
        try:
            if pid != forker:
                os.killpg(pid, signal.SIGKILL)
        except OSError:
            pass  # nothing is left
        _, status, usage = os.wait4(pid, 0)
        if pid == forker:
            os._exit(1)  # children die with this process
        # The system gives a number again only after all the others.
        os.write(CONTROL, b'{"exited":%d,"status":%d,"cpu":%f,"memory":%d}'
                 % (pid, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10))


def _zygote(config):
    from _agentkernel import pages
    apart = pages.together()
    sys.modules.update(dict.fromkeys(SPARED))
    from _agentkernel import zygote
    for name in SPARED:
        del sys.modules[name]  # a program that imports it gets it
    zygote.main(config, apart)
