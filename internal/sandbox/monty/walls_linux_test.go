package monty

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
	"agentkernel/internal/sandbox/sandboxtest"
	"agentkernel/internal/usertest"
)

// bothUsers is usertest.Both with the engine where everybody can run it.
func bothUsers(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	usertest.BothWith(t, test, func(dir string) []string {
		engine := filepath.Join(dir, "monty")
		usertest.Copy(t, enginePath(t), engine)
		return []string{"AGENTKERNEL_MONTY=" + engine}
	})
}

// walledBackend has walls around its workers.
func walledBackend(t testing.TB, change ...func(*Config)) *Backend {
	t.Helper()
	spawner, err := confine.NewSpawner(confine.SpawnerConfig{Launcher: plainLauncher{}, Name: fmt.Sprintf("monty-test-%d-%d", os.Getpid(), time.Now().UnixNano())})
	if err != nil {
		t.Fatal(err)
	}
	if p := spawner.Machine().Problem; p != nil {
		t.Skipf("SKIPPED, NOTHING PROVED: no walls can stand here: %v", p)
	}
	t.Cleanup(func() {
		if err := spawner.Close(); err != nil {
			t.Error(err)
		}
	})
	return newBackend(t, append([]func(*Config){func(c *Config) { c.Walls = spawner }}, change...)...)
}

// mustBeWalled fails if a worker has no walls.
func mustBeWalled(t *testing.T, b *Backend) {
	t.Helper()
	if d := b.pool.walls.decision.Load(); d == nil || d.problem != nil {
		t.Fatalf("no walls: %+v", d)
	}
}

func TestConformanceBehindWalls(t *testing.T) {
	sandboxtest.Suite{
		New: func(t testing.TB) agentkernel.Backend { return walledBackend(t) },
		Lacks: []sandboxtest.Feature{sandboxtest.Generators, sandboxtest.Subclasses, sandboxtest.Match, sandboxtest.Threads,
			sandboxtest.Files, sandboxtest.Folders, sandboxtest.Programs, sandboxtest.OwnErrors, sandboxtest.Frozen},
	}.Exercise(t)
}

// Behind walls a worker does all that it does without, and its limits end it with the same answers.
func TestWorkBehindWalls(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		b := walledBackend(t, func(c *Config) { c.Grace = 200 * time.Millisecond })
		if got := mustExit(t, b, "import re, json, datetime\nprint(re.sub('a', 'b', 'aa'), json.dumps([1.5]), 2 ** 100)"); got != "bb [1.5] 1267650600228229401496703205376\n" {
			t.Error(got)
		}
		mustBeWalled(t, b)
		r := newRun(t, b, "print('on')").start()
		if walls := r.box.(agentkernel.Walled).Walls(); len(walls) < 8 {
			t.Errorf("%+v", walls)
		}
		limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", workerOf(r).body.pid()))
		if err != nil || addressSpace(string(limits)) != settingsOf(agentkernel.DefaultLimits()).wall() {
			t.Errorf("limits %s, %v", limits, err)
		}
		if n := workerOf(r).heap(); n <= 0 {
			t.Errorf("a heap of %d", n)
		}
		_ = r.box.Close()
		for src, limit := range map[string]string{
			"x = 10 ** 4000\nwhile True: x = x * x":   "limit.memory",
			"x = 7 ** 300000\nwhile True: x = x * x":  "limit.time",
			"def f(): f()\nf()":                       "limit.recursion",
			"x = []\nwhile True: x.append('a' * 100)": "limit.memory",
		} {
			r := newRun(t, b, src)
			r.prog = bound(src)
			r.req.Limits.Memory, r.req.Limits.Time = 4<<20, agentkernel.Duration(2*time.Second)
			if limit == "limit.time" {
				r.req.Limits.Memory, r.req.Limits.Time = 1<<30, agentkernel.Duration(100*time.Millisecond)
			}
			turn, err := r.finish()
			if err == nil && turn.Kind == agentkernel.TurnFail {
				err = turn.Err
			}
			if e := agentkernel.AsError(err, "", ""); e == nil || e.Op != limit {
				t.Errorf("%q: %+v %v, want %s", src, turn, err, limit)
			}
		}
		r = newRun(t, b, "print(1)\nwhile True: pass")
		r.req.Output = func(string, string) { workerOf(r).body.kill() }
		if turn, err := r.start().box.Next(t.Context(), nil); err != nil || turn.Kind != agentkernel.TurnLost || turn.Err == nil || !strings.Contains(turn.Err.Error(), "signal: killed") {
			t.Errorf("killed: %+v %v", turn, err)
		}
		if got := mustExit(t, b, "print('next')"); got != "next\n" {
			t.Error(got)
		}
	})
}

// hostile tells what it could do as the last words of an engine: each word is an attempt and what came of it, an
// errno or OPEN. It is one thread of C without a library that it would have to find.
const hostile = `
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
static char said[4096];
static void say(const char *what, long result) {
	char word[200];
	if (result >= 0) snprintf(word, sizeof word, " %s:OPEN", what);
	else snprintf(word, sizeof word, " %s:%d", what, errno);
	strcat(said, word);
}
int main(int argc, char **argv) {
	if (argc > 1 && !strcmp(argv[1], "--version")) { puts("monty-runtime " VERSION); return 0; }
	char b[64];
	int n = read(0, b, sizeof b);
	(void)n;
	int more = -1;
	for (int fd = 3; fd < 2000; fd++) if (fcntl(fd, F_GETFD) >= 0) more = fd;
	say("descriptors", more);
	say("data", open(SECRET, O_RDONLY));
	say("passwd", open("/etc/passwd", O_RDONLY));
	say("shadow", open("/etc/shadow", O_RDONLY));
	say("shell", open("/bin/sh", O_RDONLY));
	say("null", open("/dev/null", O_RDWR));
	say("self", open("/proc/self/environ", O_RDONLY));
	say("processes", opendir("/proc") ? 0 : -1);
	say("sibling", open("/proc/1/status", O_RDONLY));
	int root = open("/", O_RDONLY | O_DIRECTORY);
	say("list", syscall(SYS_getdents64, root, b, sizeof b));
	say("make", open("/", O_TMPFILE | O_WRONLY, 0600));
	say("tmp", open("/tmp", O_TMPFILE | O_WRONLY, 0600));
	say("socket", socket(AF_INET, SOCK_STREAM, 0));
	say("socket6", socket(AF_INET6, SOCK_DGRAM, 0));
	say("unix", socket(AF_UNIX, SOCK_STREAM, 0));
	int pair[2];
	say("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(0x7f000001)};
	say("connect", connect(0, (struct sockaddr *)&to, sizeof to));
	long child = syscall(SYS_clone, 17, 0, 0, 0, 0);
	if (child == 0) _exit(0);
	say("fork", child);
	if (child > 0) waitpid(child, 0, 0); /* its signal would stop for ever what is traced, by nobody, from below on */
	say("clone3", syscall(SYS_clone3, b, 64));
	if (open("/bin/sh", O_RDONLY) < 0) say("exec", execl("/bin/sh", "sh", "-c", ":", (char *)0));
	say("kill", kill(KERNEL, 0));
	say("killall", kill(-1, 0));
	say("ptrace", ptrace(PTRACE_TRACEME, 0, 0, 0));
	say("mount", syscall(SYS_mount, "x", "/nowhere", "tmpfs", 0, 0));
	say("unshare", syscall(SYS_unshare, 0x10000000));
	say("memfd", syscall(SYS_memfd_create, "x", 0));
	int len = strlen(said);
	unsigned char out[5000] = {0};
	int m = 0, inner = 2 + (len > 127) + len;
	int total = 1 + 1 + (inner > 127) + inner;
	memcpy(out, &total, 4); m = 4;
	out[m++] = 11 << 3 | 2;                     /* Event.fatal_error */
	if (inner > 127) { out[m++] = 0x80 | (inner & 127); out[m++] = inner >> 7; } else out[m++] = inner;
	out[m++] = 1 << 3 | 2;                      /* FatalError.message */
	if (len > 127) { out[m++] = 0x80 | (len & 127); out[m++] = len >> 7; } else out[m++] = len;
	memcpy(out + m, said, len); m += len;
	n = write(1, out, m);
	return 0;
}
`

// TestHostileEngine has the engine replaced by a program that tries to get out. It reaches nothing: no file of the
// host and none of the data directory, no network, no other process.
func TestHostileEngine(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("SKIPPED, NOTHING PROVED: a C compiler is needed")
	}
	bothUsers(t, func(t *testing.T) {
		dir := usertest.Dir(t)
		secret, engine := filepath.Join(dir, "data", "secret"), filepath.Join(dir, "monty")
		if err := os.Mkdir(filepath.Dir(secret), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(secret, []byte("s"), 0o644); err != nil {
			t.Fatal(err)
		}
		far, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		usertest.Copy(t, enginePath(t), engine)
		b := walledBackend(t, func(c *Config) { c.Engine, c.Spare, c.Masked = engine, -1, []string{filepath.Dir(secret)} })
		mustExit(t, b, "print(1)")
		mustBeWalled(t, b)

		source := filepath.Join(dir, "hostile.c")
		if err := os.WriteFile(source, []byte(hostile), 0o644); err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(far.Addr().String())
		out, err := exec.Command(cc, "-static", "-o", engine+".new", fmt.Sprintf("-DSECRET=%q", secret), "-DPORT="+port,
			fmt.Sprintf("-DVERSION=%q", EngineVersion), fmt.Sprintf("-DKERNEL=%d", os.Getpid()), source).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if err := os.Rename(engine+".new", engine); err != nil {
			t.Fatal(err)
		}
		report := func(b *Backend) string {
			r := newRun(t, b, "1")
			r.req.Namespace = "other"
			_, err := b.Start(context.Background(), r.req)
			_, words, ok := strings.Cut(fmt.Sprint(err), "it says: ")
			if !ok {
				t.Fatalf("it said nothing: %v", err)
			}
			return words
		}
		// That the attempts are real ones is seen where nothing stops them.
		bare := report(newBackend(t, func(c *Config) { c.Engine, c.Spare = engine, -1 }))
		for _, w := range []string{"data:OPEN", "passwd:OPEN", "processes:OPEN", "socket:OPEN", "fork:OPEN", "null:OPEN"} {
			if !strings.Contains(bare, w) {
				t.Errorf("without walls, no %s: %s", w, bare)
			}
		}
		got := report(b)
		if strings.Contains(got, "OPEN") || strings.Count(got, ":") < 24 {
			t.Errorf("behind walls: %s", got)
		}
		t.Log(got)
	})
}

// Where walls cannot stand programs run all the same, and everybody who asks is told.
func TestWithoutWallsItIsSaid(t *testing.T) {
	spawner, err := confine.NewSpawner(confine.SpawnerConfig{Launcher: plainLauncher{}, Name: "monty-nowhere", Executable: "/nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	defer spawner.Close()
	b := newBackend(t, func(c *Config) { c.Walls = spawner })
	if got := mustExit(t, b, "print(1)"); got != "1\n" {
		t.Error(got)
	}
	r := newRun(t, b, "1").start()
	defer r.box.Close()
	walls := r.box.(agentkernel.Walled).Walls()
	if len(walls) == 0 || walls[0].On || !strings.Contains(walls[0].How, "spawner cannot be started") {
		t.Errorf("%+v", walls)
	}
	if info := b.Info(); len(info.Walls) == 0 || info.Walls[0].On || !info.Available {
		t.Errorf("%+v", info)
	}
}

// Walls that have stood are not given up when they cannot be made once more.
func TestWallsAreKept(t *testing.T) {
	b := walledBackend(t, func(c *Config) { c.Spare = -1 })
	mustExit(t, b, "print(1)")
	mustBeWalled(t, b)
	if err := b.cfg.Walls.Close(); err != nil {
		t.Fatal(err)
	}
	r := newRun(t, b, "1")
	r.req.Namespace = "other"
	if _, err := b.Start(t.Context(), r.req); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
		t.Errorf("it started without walls: %v", err)
	}
}
