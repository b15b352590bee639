package process

import (
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
)

// A limit of the walls that no setting names ends the program with an error that says what it was.
func TestLimitsOfTheWalls(t *testing.T) {
	for _, c := range []struct{ op, source, says string }{
		{"limit.locks", "import fcntl, os, time\nfd = os.open('/dev/null', os.O_RDWR)\nfor i in range(5000): fcntl.lockf(fd, fcntl.LOCK_SH, 1, (5000 - i) * 2)\nwhile True: pass",
			"more than 4096 locks of files"},
		{"limit.open_files", "import os\nr, w = os.pipe()\nfor i in range(30):\n    if not os.fork(): break\ntry:\n    while True: os.dup(1)\nexcept OSError:\n    os.read(r, 1)",
			"more than 4096 files, pipes and sockets open together"},
	} {
		r := newRun(t, sharedBackend(t), c.source)
		r.req.Limits.OpenFiles, r.req.Limits.Pids = 256, 64
		turn, err := r.finish()
		if err == nil && turn.Err != nil {
			err = turn.Err
		}
		if e := agentkernel.AsError(err, agentkernel.CodeInternal, ""); err == nil || e.Op != c.op || !strings.Contains(e.Message(), c.says) {
			t.Errorf("%s: %+v %v", c.op, turn, err)
		}
		_ = r.box.Close()
	}
	if sandboxLimit("memory", agentkernel.Limits{}) != nil {
		t.Error("limits are taken for others")
	}
}

// Who met the limit of the program is told no other, also where Linux does not say how much there was of all its processes: whose memory
// ran out is not guessed from what was seen.
func TestWhoseMemoryIsTold(t *testing.T) {
	w := &whole{}
	w.req.Limits.Memory = 64 << 20
	for _, c := range []struct {
		limit, op, says string
		seen            int64
	}{
		{"memory", "limit.memory", "the program and what it started needed more than 64 MiB (last seen: 63 MiB)", 63 << 20},
		{"memory", "limit.memory", "the program and what it started needed more than 64 MiB", 5 << 20},
		{"memory", "limit.memory", "the program and what it started needed more than 64 MiB", 0},
		{confine.MemoryOfAll, "limit.all_memory", "this one had not reached its own limit", 5 << 20},
	} {
		err := w.wallLimit(confine.Exit{Limit: c.limit, Usage: confine.Usage{Memory: c.seen}})
		if e := agentkernel.AsError(err, agentkernel.CodeInternal, ""); e.Op != c.op || !strings.HasSuffix(e.Message(), c.says) {
			t.Errorf("%+v: %s: %s", c, e.Op, e.Message())
		}
	}
}

// Of two settings the one that allows more is what ends a program: both are named, with what they are.
func TestOpenFilesNameBothSettings(t *testing.T) {
	e := sandboxLimit(confine.Descriptors, agentkernel.Limits{OpenFiles: 64, Pids: 300})
	if !strings.Contains(e.Message(), "19200") || !strings.Contains(e.Hint, "--files 64") || !strings.Contains(e.Hint, "--pids 300") {
		t.Errorf("%s (%s)", e.Message(), e.Hint)
	}
}

// No setting raises what an error of these is about, and none may be named as if it did.
func TestLimitsThatNoSettingRaises(t *testing.T) {
	for _, limit := range []string{confine.Watches, confine.MemoryOfAll, confine.HiddenMemory, confine.Locks} {
		e := sandboxLimit(limit, agentkernel.Limits{})
		name, ok := e.Limit()
		if _, found := agentkernel.FindLimit(name); !ok || found || e.Hint == "" {
			t.Errorf("%s: it is said to be the limit %q, with the hint %q", limit, name, e.Hint)
		}
		if strings.Contains(e.Hint, "Delegate") {
			t.Errorf("%s: an ordinary user's kernel in a cgroup of its own has the same limit: %s", limit, e.Hint)
		}
	}
}
