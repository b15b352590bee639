# The least zygote: forks one child, has it carry out a plan as package confine documents it, and runs a
# script there. Descriptor 3 is a socket to the test.
import array, base64, ctypes, json, os, signal, socket, sys, traceback

libc = ctypes.PyDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
CLONE = {"amd64": 56, "arm64": 220}


class Fprog(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def carry_out(kind, steps, fds):
    saved = {}
    for i, s in enumerate(steps):
        args, keep = [], []
        for a in s["args"] or []:
            if isinstance(a, dict):
                if "fd" in a:
                    args.append(ctypes.c_long(fds[a["fd"]]))
                elif "saved" in a:
                    args.append(ctypes.c_long(saved[a["saved"]]))
                else:
                    data = base64.b64decode(a.get("bytes", a.get("filter")))
                    mem = ctypes.create_string_buffer(data, len(data))
                    if "filter" in a:
                        keep.append(mem)
                        mem = Fprog(len(data) // 8, ctypes.cast(mem, ctypes.c_void_p))
                    keep.append(mem)
                    args.append(ctypes.byref(mem))
            elif isinstance(a, str):
                args.append(ctypes.c_char_p(a.encode()))
            else:
                args.append(ctypes.c_ulong((a or 0) & 2**64 - 1))
        r = libc.syscall(ctypes.c_long(s["nr"]), *args)
        if r == -1 and ctypes.get_errno() not in s.get("ok", []):
            raise OSError(ctypes.get_errno(), "%s step %d: %s for %s" % (kind, i, s["call"], s["wall"]))
        if s.get("save"):
            saved[s["save"]] = r


control = socket.socket(fileno=3)
size = int.from_bytes(control.recv(4, socket.MSG_WAITALL), "little")
fds = array.array("i")
_, anc, _, _ = control.recvmsg(1, socket.CMSG_SPACE(4 * 200))
for _, _, data in anc:
    fds.frombytes(data)
request = json.loads(control.recv(size, socket.MSG_WAITALL))
plan, script = request["plan"], request["script"]

gate = os.pipe()
ctypes.pythonapi.PyOS_BeforeFork()
pid = libc.syscall(ctypes.c_long(CLONE[plan["arch"]]), ctypes.c_ulong(plan["clone"] | signal.SIGCHLD), *[ctypes.c_long(0)] * 4)
if pid == 0:
    ctypes.pythonapi.PyOS_AfterFork_Child()
    try:
        os.close(gate[1])
        if os.read(gate[0], 1) != b"g":
            os._exit(71)
        control.detach()
        carry_out("setup", plan["setup"], {t["name"]: fd for t, fd in zip(plan.get("trees") or [], fds)})
        os.closerange(3, 1024)
        carry_out("seal", plan["seal"], {})
        os.environ.clear()
        os.environ.update(e.split("=", 1) for e in plan["program"]["env"])
        exec(compile(script, "attack.py", "exec"), {"__name__": "__main__"})
    except SystemExit as e:
        sys.stdout.flush()
        os._exit(e.code or 0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)
    sys.stdout.flush()
    os._exit(0)
ctypes.pythonapi.PyOS_AfterFork_Parent()
if pid < 0:
    sys.exit("clone: " + os.strerror(ctypes.get_errno()))
os.close(gate[0])
pidfd = os.pidfd_open(pid)
socket.send_fds(control, [b"f"], [pidfd])
os.close(pidfd)
for fd in fds:
    os.close(fd)
if control.recv(1) == b"g":  # the kernel has put the child into its cgroups
    os.write(gate[1], b"g")
os.close(gate[1])
_, status = os.waitpid(pid, 0)
try:
    control.send(status.to_bytes(4, "little"))
except OSError:
    pass
