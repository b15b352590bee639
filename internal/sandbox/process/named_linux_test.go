package process

import (
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
	"agentkernel/internal/usertest"
)

// named is a limit of the walls, and a program in each kind of language that strikes it and does nothing about it.
var named = []struct {
	limit               string
	change              func(*agentkernel.Limits)
	python, node, shell string
}{
	{"time", func(l *agentkernel.Limits) { l.Time = agentkernel.Duration(300 * time.Millisecond) },
		"while True: pass", "for (;;);", "while :; do :; done"},
	{"cpu_time", func(l *agentkernel.Limits) { l.CPUTime = agentkernel.Duration(time.Second) },
		"while True: pass", "for (;;);", "sh -c 'while :; do :; done'; exit $?"},
	{"memory", func(l *agentkernel.Limits) { l.Memory = 96 << 20 },
		"x = []\nwhile True: x.append('y' * 100000)", "const a = []; for (;;) a.push(new Array(1e5).fill(1.5));", "x=y; while :; do x=$x$x; done"},
	{"output", func(l *agentkernel.Limits) { l.Output = 1000 },
		"while True: print('flood')", "for (;;) console.log('flood');", "yes"},
	{"recursion", func(l *agentkernel.Limits) { l.Recursion = 200 }, "def f(n): return f(n + 1)\nf(0)", "", ""},
	{"pids", func(l *agentkernel.Limits) { l.Pids = 24 },
		"import os, time\nfor _ in range(50):\n    if os.fork() == 0:\n        time.sleep(60)\n        os._exit(0)",
		"const { spawn } = require('child_process'); for (let i = 0; i < 50; i++) spawn('sleep', ['60']);",
		"for i in $(seq 50); do sleep 60 & done"},
	{"pids", func(l *agentkernel.Limits) { l.Pids = 24 }, // threads
		"import threading\ne = threading.Event()\nfor _ in range(50): threading.Thread(target=e.wait, daemon=True).start()",
		"const { Worker } = require('worker_threads'); for (let i = 0; i < 50; i++) new Worker('setInterval(() => {}, 1000)', { eval: true });", ""},
	{"pids", func(l *agentkernel.Limits) { l.Pids = 24 }, // by way of the library
		"import subprocess\np = [subprocess.Popen(['sleep', '60']) for _ in range(50)]", "", ""},
	{"open_files", func(l *agentkernel.Limits) { l.OpenFiles = 64 },
		"a = [open('/dev/null') for _ in range(100)]", "const fs = require('fs'); for (let i = 0; i < 100; i++) fs.openSync('/dev/null');",
		"exec python3 -c \"a = [open('/dev/null') for _ in range(100)]\""},
	{"file_size", func(l *agentkernel.Limits) { l.FileSize = 1 << 20 },
		"open('/tmp/f', 'wb').write(b'x' * (2 << 20))", "require('fs').writeFileSync('/tmp/f', Buffer.alloc(2 << 20));",
		"head -c 2000000 /dev/zero > /tmp/f; exit $?"},
	{"disk", func(l *agentkernel.Limits) { l.Disk = 1 << 20 },
		"open('/tmp/f', 'wb').write(b'x' * (2 << 20))", "require('fs').writeFileSync('/tmp/f', Buffer.alloc(2 << 20));",
		"head -c 2000000 /dev/zero > /tmp/f"},
	{"tmp", func(l *agentkernel.Limits) { l.Memory = 1 << 30 },
		"open('/tmp/f', 'wb').write(b'x' * (80 << 20))", "require('fs').writeFileSync('/tmp/f', Buffer.alloc(80 << 20));",
		"head -c 80000000 /dev/zero > /tmp/f"},
	{"tmp", func(*agentkernel.Limits) {}, // of its files
		"for i in range(20000): open('/tmp/%d' % i, 'w').close()", "for (let i = 0; i < 20000; i++) require('fs').writeFileSync('/tmp/' + i, '');", ""},
}

// TestLimitsAreNamed strikes each limit in each language, as root and as an ordinary user, with cgroups and without: the
// error names it. Those that the kernel keeps, such as calls and journal, are its own tests'.
func TestLimitsAreNamed(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		for _, cgroups := range []bool{true, false} {
			name := map[bool]string{true: "cgroups, if there are any", false: "no cgroups"}[cgroups]
			t.Run(name, func(t *testing.T) { strikeAll(t, cgroups) })
		}
	})
}

func strikeAll(t *testing.T, cgroups bool) {
	s := newSpawner(t, func(c *confine.SpawnerConfig) { c.NoCgroups = !cgroups })
	t.Cleanup(func() { _ = s.Close() })
	b := newBackend(t, func(c *Config) { c.Spawner, c.Command = s, "" })
	for _, c := range named {
		for _, p := range []agentkernel.Program{
			{Name: "p.py", Language: agentkernel.Python, Source: c.python}, {Name: "p.cjs", Language: agentkernel.Node, Source: c.node},
			{Name: "p.sh", Language: agentkernel.Script, Source: "#!/bin/sh\n" + c.shell},
		} {
			if p.Source == "" || p.Source == "#!/bin/sh\n" {
				continue
			}
			t.Run(c.limit+" "+p.Name, func(t *testing.T) {
				if p.Language == agentkernel.Node {
					needNode(t)
				}
				r := newRun(t, b, "")
				r.req.Program = p
				r.req.Limits.Time = agentkernel.Duration(50 * time.Second)
				c.change(&r.req.Limits)
				turn, err := r.finish()
				if err == nil && turn.Err != nil {
					err = turn.Err
				}
				e := agentkernel.AsError(err, agentkernel.CodeInternal, "")
				if err == nil || e.Code != agentkernel.CodeLimit || e.Op != "limit."+c.limit || !strings.HasPrefix(e.Message(), c.limit+" limit reached") {
					t.Errorf("%+v %v\n%s", turn, err, r.out.String())
				}
			})
		}
	}
}
