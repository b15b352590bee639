package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOrdinaryProgramsRun is the other side of the attacks: what people run works behind all walls.
func TestOrdinaryProgramsRun(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		for _, tc := range []struct {
			name    string
			profile Profile
			needs   string // a program; "" none
			script  string // for the shell
			want    string
		}{
			{"shell", ProfileGeneric, "", `echo a | tr a b; (echo c; exit 3) | cat; echo $?; f=$(mktemp); echo d >$f; cat $f; x=$(id -un); echo $x; cd; pwd`, "b\nc\n0\nd\nagent\n/workspace\n"},
			{"archives", ProfileGeneric, "tar", `mkdir d; echo x >d/f; chmod 750 d; ln -s f d/l; ln d/f d/h; tar cf a.tar d; rm -r d; tar xpf a.tar; ls d; cp -a d e; cat e/l`, "f\nh\nl\nx\n"},
			{"git", ProfileGeneric, "git", `git init -q r; cd r; git config user.email a@b; git config user.name a; echo x >f; git add f; git commit -qm one; git log --oneline | wc -l; git status --short`, "1\n"},
			{"compiler", ProfileGeneric, "gcc", `echo 'int main(void){return 7;}' >/tmp/a.c; gcc -o /tmp/a /tmp/a.c; /tmp/a; echo $?`, "7\n"},
			{"perl", ProfileGeneric, "perl", `perl -e 'print sum(1,2), "\n"; sub sum { $_[0]+$_[1] } if (!fork) { exit 5 } wait; print $?>>8, "\n"'`, "3\n5\n"},
			{"processes", ProfileGeneric, "ps", `ps -e -o comm= >/tmp/all; sort -u /tmp/all | tr '\n' ' '; sleep 5 & kill $!; wait $!; echo $?`, "ps sh 143\n"},
			{"node", ProfileNode, "node", `node -e '
const fs = require("fs"), cp = require("child_process"), { Worker } = require("worker_threads"), crypto = require("crypto");
fs.writeFileSync("/tmp/x", "hello");
console.log(fs.readFileSync("/tmp/x", "utf8"), cp.execSync("echo sub").toString().trim(), crypto.createHash("sha256").update("x").digest("hex").slice(0, 8));
new Worker("require(\"worker_threads\").parentPort.postMessage(42)", { eval: true }).on("message", m => { console.log("worker", m, require("os").cpus().length > 0); process.exit(3); });
'; echo $?`, "hello sub 2d711642\nworker 42 true\n3\n"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				if tc.needs != "" {
					if _, err := exec.LookPath(tc.needs); err != nil {
						t.Skipf("%s is not installed", tc.needs)
					}
				}
				cfg := aConfig(t)
				cfg.Profile, cfg.FullProc = tc.profile, true
				cfg.Volumes = nil
				cfg.Program = Program{Path: "/bin/sh", Args: []string{"sh", "-c", tc.script}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/workspace"}}
				r := launchWhole(t, s, cfg)
				e := r.finish(t)
				if got := r.out.String(); got != tc.want || e.Limit != "" {
					t.Errorf("%s: got %q, want %q\n%s", e, got, tc.want, r.err)
				}
			})
		}
	})
}

// TestPythonIsWhole asks the library for what touches the system, whole and as a zygote's child.
func TestPythonIsWhole(t *testing.T) {
	const script = `
import asyncio, concurrent.futures, ctypes, mmap, multiprocessing, os, select, shutil, signal, sqlite3, ssl, subprocess, tempfile, threading, time
out = []
def check(name, value): out.append(name if value else "BROKEN " + name)
check("threads", sum(concurrent.futures.ThreadPoolExecutor(8).map(lambda x: x, range(10))) == 45)
check("subprocess", subprocess.run(["/bin/echo", "x"], capture_output=True).stdout == b"x\n")
check("shell", os.popen("echo y").read() == "y\n" and os.system("exit 2") == 512)
async def main():
    p = await asyncio.create_subprocess_exec("/bin/cat", stdin=-1, stdout=-1)
    o, _ = await p.communicate(b"z")
    await asyncio.gather(*(asyncio.sleep(0.001) for _ in range(100)))
    return o
check("asyncio", asyncio.run(main()) == b"z")
if __name__ == "__main__":
    ctx = multiprocessing.get_context("fork")
    with ctx.Pool(3) as pool: check("pool", pool.map(abs, [-1, -2]) == [1, 2])
    q = ctx.Queue(); p = ctx.Process(target=q.put, args=(5,)); p.start(); check("queue", q.get() == 5); p.join()
from multiprocessing import shared_memory
m = shared_memory.SharedMemory(create=True, size=4096); m.buf[0] = 7; check("shared memory", m.buf[0] == 7); m.close(); m.unlink()
db = sqlite3.connect("/workspace/db"); db.execute("pragma journal_mode=wal"); db.execute("create table t(x)"); db.execute("insert into t values (1)"); db.commit()
check("sqlite", db.execute("select x from t").fetchone() == (1,))
with tempfile.TemporaryDirectory() as d: shutil.copytree("/etc/ssl", d + "/c", symlinks=True) if False else open(d + "/f", "w").close()
check("callback", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: x + 1)(1) == 2)
check("mmap", mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7).write(b"x") == 1)
signal.signal(signal.SIGALRM, lambda *a: out.append("alarm")); signal.setitimer(signal.ITIMER_REAL, 0.01)
while out[-1] != "alarm": time.sleep(0.01)
check("cpus", os.cpu_count() >= 1 and len(os.sched_getaffinity(0)) >= 1)
check("names", os.getuid() == 1000 and os.uname().nodename == "sandbox")
import pwd; check("user", pwd.getpwuid(1000).pw_name == "agent")
r, w = os.pipe(); os.set_inheritable(r, True); check("poll", select.poll() is not None and select.epoll() is not None)
os.mkfifo("/tmp/fifo"); check("fifo", True)
import socket; a, b = socket.socketpair(); a.send(b"x"); check("pair", b.recv(1) == b"x")
print(*out, flush=True)
`
	const want = "threads subprocess shell asyncio pool queue shared memory sqlite callback mmap alarm cpus names user poll fifo pair\n"
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		for _, kind := range []Kind{Whole, Child} {
			for _, access := range []Access{ReadWrite, Overlay} {
				t.Run(kind.String()+" "+string(access), func(t *testing.T) {
					cfg := pythonConfig(t, script)
					cfg.Workspace = aConfig(t).Workspace
					cfg.Workspace.Access = access
					var r *running
					if kind == Child {
						r = launchChild(t, s, cfg, script)
					} else {
						r = launchWhole(t, s, cfg)
					}
					e := r.finish(t)
					if got := r.out.String(); got != want {
						t.Errorf("%s: got %q\n%s", e, got, r.err)
					}
				})
			}
		}
	})
}

// TestRuntimeBelowTmp has an interpreter's files where the sandbox has its own /tmp.
func TestRuntimeBelowTmp(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		dir := publicDir(t)
		if err := os.WriteFile(filepath.Join(dir, "module.py"), []byte("x = 'found'"), 0o644); err != nil {
			t.Fatal(err)
		}
		script := "import sys, os\nsys.path.insert(0, '" + dir + "')\nimport module\nopen('/tmp/own', 'w').close()\nprint(module.x, len(os.listdir('/tmp')))\n" +
			"try: open('" + dir + "/y', 'w')\nexcept OSError as e: print(e.errno)\n"
		for _, kind := range []Kind{Whole, Child} {
			cfg := pythonConfig(t, script)
			var r *running
			if kind == Child {
				r = launchChildWith(t, s, cfg, script, Mount{Source: dir})
			} else {
				cfg.Runtime = append(cfg.Runtime, Mount{Source: dir})
				r = launchWhole(t, s, cfg)
			}
			r.finish(t)
			if got := strings.Fields(r.out.String()); strings.Join(got, " ") != "found 2 30" {
				t.Errorf("%s: %q\n%s", kind, got, r.err)
			}
		}
	})
}
