"""The zygote: an interpreter that has everything imported and runs no program itself. The kernel asks it, over a
socket of messages, for children; each is cloned into its own namespaces and waits on its own channel. Their parent is
the zygote's own (module undertaker).

It holds no secret: a program can read the memory that it was forked from.
"""
import base64
import gc
import importlib
import json
import os
import socket
import sys
import threading
import time

from _agentkernel import loop, output, pages, program, steps, walls, wire

MESSAGE = 256 << 10
PLANS = 300  # that are remembered; the kernel asks for those of the last 200 at most


class Zygote:
    def __init__(self, config):
        os.closerange(walls.CONTROL + 1, 1 << 16)  # what comes with a request has numbers above null's, which end with it
        self.null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.control = socket.socket(fileno=walls.CONTROL)
        self.calls = config["calls"]
        self.runner = steps.load(base64.b64decode(config["runner"]))
        self.channel = wire.Channel()  # of a child, made here once for all
        self.plans = {}  # name -> plan; "-" is no walls
        self.plan = self.learned({"plan": "-", "steps": {}, "memory": 0})  # of the last request

    def serve(self):
        request = None
        while True:
            plan = self.plan
            at = plan.serve(request)
            if at >= plan.child:
                try:
                    self.child(plan, at)
                finally:
                    os._exit(70)
            if at == plan.clone:
                errno = -plan.list.results[0]
                self.failed(plan.number(), OSError(errno, os.strerror(errno)))
                request = None
            else:
                request = self.request()

    def request(self):
        """Takes a request that a plan does not serve by itself. If it is for a child, gives it as Plan.serve wants it."""
        data, fds, _, _ = socket.recv_fds(self.control, MESSAGE, 250)
        if not data:
            os._exit(0)  # the kernel has gone; children die with this process
        number = 0
        try:
            if data[:1] == b"{":
                self.learned(json.loads(data))
                return None
            number, *plan = data.split()
            if plan:
                self.plan = self.plans[plan[0].decode()]
            return int(number), fds
        except Exception as e:  # none of it may end the zygote
            self.failed(int(number), e)
            return None

    def failed(self, number, error):
        os.closerange(self.null + 1, 1 << 16)
        self.control.send(json.dumps({"failed": number, "error": "%s: %s" % (type(error).__name__, error)}).encode())

    def learned(self, request):
        if request["steps"]:
            threading.main_thread()._native_id = 1  # of a child that has a pid namespace; nothing else in it tells that it was forked
        name = request["plan"]
        self.plans[name] = walls.Plan(request["steps"], request["memory"], self.runner, self.calls, self.null)
        while len(self.plans) > PLANS:
            del self.plans[next(n for n in self.plans if n != "-")]  # the oldest
        return self.plans[name]

    def child(self, plan, at):
        """A child that has made its calls up to at."""
        if at < plan.sealed:
            failed = plan.failed(at)
            text = json.dumps({"type": "refused", "list": failed[0], "step": failed[1], "errno": failed[2]}).encode()
            os.write(walls.CHANNEL if failed[0] == "seal" else plan.sock(), wire.HEAD.pack(len(text), wire.JSON) + text)
            return
        self.channel.open(walls.CHANNEL, plan.inbox[:plan.list.results[0]])
        if not plan.walls:
            threading.main_thread()._set_native_id()
        if plan.reads:
            output.read()
        program.serve(self.channel)


def main(config, apart):
    """apart: undoes pages.together."""
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
    apart()
    pages.gather()
    zygote.control.send(json.dumps({"ready": "%d.%d.%d" % sys.version_info[:3], "process": os.getpid(), "took": time.monotonic() - begun}).encode())
    zygote.serve()
