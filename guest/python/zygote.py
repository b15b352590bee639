"""The zygote: an interpreter that has everything imported and runs no program itself. The kernel asks it, over a
socket of messages, for children; each is cloned into its own namespaces and waits on its own channel.

It holds no secret: a program can read the memory that it was forked from.
"""
import array
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time

from _agentkernel import clone, loop, output, program, walls, wire

CONTROL = 3  # descriptor of the socket to the kernel
CHANNEL = 3  # and, in a child, of its channel
MESSAGE = 256 << 10
PLANS = 300  # that are remembered; the kernel asks for those of the last 200 at most


class Zygote:
    def __init__(self, config):
        self.control = socket.socket(fileno=CONTROL)
        self.null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.cloner = clone.Cloner()
        self.channel = wire.Channel()  # of a child, made here once for all
        self.plans = {}
        self.children = {}  # pidfd -> (number, pid)
        self.poll = select.poll()
        self.poll.register(self.control, select.POLLIN)

    def serve(self):
        while True:
            for fd, _ in self.poll.poll():
                if fd == self.control.fileno():
                    self.request()
                else:
                    self.bury(fd)

    def request(self):
        data, fds, _, _ = socket.recv_fds(self.control, MESSAGE, 250)
        if not data:
            os._exit(0)  # the kernel has gone; children die with this process
        request = json.loads(data)
        try:
            if request["op"] == "plan":
                self.plans[request["plan"]] = walls.Plan(request["steps"])
                while len(self.plans) > PLANS:
                    del self.plans[next(iter(self.plans))]  # the oldest
            else:
                self.fork(request, fds)
        except Exception as e:  # none of it may end the zygote
            self.tell({"failed": request.get("id", 0), "error": "%s: %s" % (type(e).__name__, e)})
        finally:
            for fd in fds:
                os.close(fd)

    def tell(self, message, fds=()):
        data = json.dumps(message).encode()
        if fds:
            self.control.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        else:
            self.control.send(data)

    def fork(self, request, fds):
        plan = self.plans[request["plan"]] if request.get("plan") else None
        gate = os.pipe() if plan is not None and plan.maps else None
        pid = self.cloner.clone(plan.clone if plan is not None else 0)
        if pid == 0:
            try:
                self.child(plan, fds, gate, request.get("waits", False), request.get("stdin", False))
            finally:
                os._exit(70)
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self.children[pidfd] = (request["id"], pid)
        self.poll.register(pidfd, select.POLLIN)
        if gate is not None:
            os.close(gate[0])
            try:
                plan.write_maps(pid)
                os.write(gate[1], b"g")
            except OSError:
                os.kill(pid, signal.SIGKILL)
                raise
            finally:
                os.close(gate[1])
        self.tell({"forked": request["id"], "pid": pid}, [pidfd])

    def bury(self, pidfd):
        """A child has ended: kills what is left of its group, and says how it ended."""
        number, pid = self.children.pop(pidfd)
        self.poll.unregister(pidfd)
        os.close(pidfd)
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            pass  # nothing is left
        _, status, usage = os.wait4(pid, 0)
        self.tell({"exited": number, "status": status, "cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss << 10})

    def child(self, plan, fds, gate, waits, reads):
        """Becomes a child: behind its walls, with its own descriptors and nothing else."""
        clone.die_with_parent()
        os.setsid()
        sock, out, err = fds[:3]
        if gate is not None:
            os.close(gate[1])
            if not os.read(gate[0], 1):
                os._exit(70)
        try:
            if plan is not None:
                walls.carry_out("setup", plan.setup, dict(zip(plan.trees, fds[3 + reads:])))
            os.dup2(fds[3] if reads else self.null, 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            self.control.detach()
            os.dup2(sock, CHANNEL, inheritable=False)
            self.cloner.close_from(4)
            clone.die_with_parent()
            self.channel.open(CHANNEL)
            if plan is not None:
                walls.carry_out("seal", plan.seal, {})
        except walls.Failed as e:
            steps, index, errno = e.args
            text = json.dumps({"type": "refused", "list": steps, "step": index, "errno": errno}).encode()
            os.write(CHANNEL if steps == "seal" else sock, wire.HEAD.pack(len(text), wire.JSON) + text)
            return
        if reads:
            output.read()
        self.channel.send_json('{"type":"hello","wire":1}')
        program.serve(self.channel, waits)


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
    gc.freeze()
    gc.disable()
    zygote.tell({"ready": "%d.%d.%d" % sys.version_info[:3], "took": time.monotonic() - begun})
    zygote.serve()
