"""The zygote: an interpreter that has everything imported and runs no program itself. The kernel asks it, over a
socket of messages, for children; each is cloned into its own namespaces and waits on its own channel.

It holds no secret: a program can read the memory that it was forked from.
"""
import array
import base64
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time

from _agentkernel import loop, output, pages, program, steps, walls, wire

CONTROL = 3  # descriptor of the socket to the kernel
MESSAGE = 256 << 10
PLANS = 300  # that are remembered; the kernel asks for those of the last 200 at most


class Zygote:
    def __init__(self, config):
        self.control = socket.socket(fileno=CONTROL)
        self.null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.calls = config["calls"]
        self.runner = steps.load(base64.b64decode(config["runner"]))
        self.channel = wire.Channel()  # of a child, made here once for all
        self.plans = {b"-": walls.Plan({}, 0, self.runner, self.calls)}  # name -> plan; "-" is no walls
        self.children = {}  # pidfd -> (number, pid, whether it has walls)
        self.poll = select.poll()
        self.poll.register(self.control, select.POLLIN)

    def serve(self):
        while True:
            for fd, _ in self.poll.poll():
                if fd == CONTROL:
                    self.request()
                else:
                    self.bury(fd)

    def request(self):
        data, fds, _, _ = socket.recv_fds(self.control, MESSAGE, 250)
        if not data:
            os._exit(0)  # the kernel has gone; children die with this process
        number = 0
        try:
            if data[:1] == b"{":
                self.learn(json.loads(data))
            else:
                number, plan, flags = data.split()
                self.fork(int(number), plan, flags, fds)
        except Exception as e:  # none of it may end the zygote
            self.control.send(json.dumps({"failed": int(number), "error": "%s: %s" % (type(e).__name__, e)}).encode())
        finally:
            for fd in fds:
                os.close(fd)

    def learn(self, request):
        threading.main_thread()._native_id = 1  # of a child that has a pid namespace; nothing else in it tells that it was forked
        self.plans[request["plan"].encode()] = walls.Plan(request["steps"], request["memory"], self.runner, self.calls)
        while len(self.plans) > PLANS:
            del self.plans[next(name for name in self.plans if name != b"-")]  # the oldest

    def fork(self, number, name, flags, fds):
        """flags: "r", the fourth descriptor is its standard input."""
        plan = self.plans[name]
        reads = b"r" in flags
        late = {"channel": fds[0], "out": fds[1], "err": fds[2], "in": fds[3] if reads else self.null}
        for tree, fd in zip(plan.trees, fds[3 + reads:]):
            late["tree " + tree] = fd
        pid, pidfd = plan.fork(late)
        if pid == 0:
            try:
                self.child(plan, pidfd, fds[0], reads)
            finally:
                os._exit(70)
        self.children[pidfd] = (number, pid, name != b"-")
        self.poll.register(pidfd, select.POLLIN)
        self.control.sendmsg([b'{"forked":%d}' % number], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", (pidfd,)))])

    def bury(self, pidfd):
        """A child has ended: says how. Behind walls everything that it started has ended with it; elsewhere what is
        left of its group is killed."""
        number, pid, walled = self.children.pop(pidfd)
        self.poll.unregister(pidfd)
        os.close(pidfd)
        if not walled:
            try:
                os.killpg(pid, signal.SIGKILL)
            except OSError:
                pass  # nothing is left
        _, status, usage = os.wait4(pid, 0)
        self.control.send(b'{"exited":%d,"status":%d,"cpu":%f,"memory":%d}'
                          % (number, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10))

    def child(self, plan, at, sock, reads):
        """A child that has made its calls up to at."""
        if at < plan.sealed:
            failed = plan.failed(at)
            text = json.dumps({"type": "refused", "list": failed[0], "step": failed[1], "errno": failed[2]}).encode()
            os.write(walls.CHANNEL if failed[0] == "seal" else sock, wire.HEAD.pack(len(text), wire.JSON) + text)
            return
        self.channel.open(walls.CHANNEL, plan.inbox[:plan.list.results[0]])
        if not plan.walls:
            threading.main_thread()._set_native_id()
        if reads:
            output.read()
        program.serve(self.channel)


def main(config):
    begun = time.monotonic()
    for name in config["imports"]:
        try:
            importlib.import_module(name)
        except ImportError:
            if name in config.get("needed", ()):
                raise
    loop.install()
    program.prepare()
    zygote = Zygote(config)
    gc.collect()
    program.rehearse(program.REHEARSALS)
    gc.freeze()
    gc.disable()
    pages.gather()
    zygote.control.send(json.dumps({"ready": "%d.%d.%d" % sys.version_info[:3], "took": time.monotonic() - begun}).encode())
    zygote.serve()
