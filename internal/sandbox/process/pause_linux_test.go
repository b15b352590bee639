package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentkernel/internal/sandbox/confine"
)

// A pause stops all that a program has started, threads, children and what has left its session, also where they wake one
// another with SIGCONT as fast as they can; resumed, all go on.
func TestPauseOfATree(t *testing.T) {
	for name, source := range map[string]string{
		"threads": "import threading\nfor _ in range(3):\n    threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()\n" +
			"print('on')\nwhile True: pass",
		"children": "import os\nfor _ in range(3):\n    if not os.fork():\n        os.setsid()\n        while True: pass\nprint('on')\nwhile True: pass",
		"wake one another": "import os, signal\nme = os.getpid()\nfor _ in range(3): os.fork()\nif os.getpid() == me: print('on')\n" +
			"while True:\n    for pid in range(2, 12):\n        try: os.kill(pid, signal.SIGCONT)\n        except OSError: pass",
		"another program": "import subprocess\nsubprocess.Popen(['sh', '-c', 'while :; do :; done'])\nprint('on')\nwhile True: pass",
	} {
		for _, cgroups := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, cgroups %v", name, cgroups), func(t *testing.T) {
				b := sharedBackend(t)
				if !cgroups {
					s := newSpawner(t, func(c *confine.SpawnerConfig) { c.NoCgroups = true })
					b = newBackend(t, func(c *Config) { c.Spawner = s })
					t.Cleanup(func() { _ = s.Close() })
				}
				r := newRun(t, b, source)
				up := make(chan struct{}, 64)
				r.req.Output = func(_, _ string) { up <- struct{}{} }
				r.start()
				box, ok := r.box.(*sandbox)
				if !ok {
					t.Fatal("not ours")
				}
				turns := make(chan string, 1)
				next := func() {
					turn, err := box.Next(t.Context(), nil)
					turns <- fmt.Sprintf("%d %v", turn.Kind, err)
				}
				go next()
				<-up
				for range 3 {
					if err := box.Suspend(true); err != nil {
						t.Fatal(err)
					}
					if got := <-turns; got != "5 <nil>" {
						t.Fatalf("Next gave %s", got)
					}
					before := usedBy(box.c.process.PID())
					quiet := time.NewTimer(150 * time.Millisecond)
					<-quiet.C
					if now := usedBy(box.c.process.PID()); now != before {
						t.Errorf("it went on while it was paused: %s, then %s", before, now)
					}
					if err := box.Suspend(false); err != nil {
						t.Fatal(err)
					}
					go next()
					deadline := time.Now().Add(time.Minute)
					for usedBy(box.c.process.PID()) == before {
						if time.Now().After(deadline) {
							t.Fatal("it does not go on")
						}
						<-time.After(5 * time.Millisecond)
					}
				}
				if err := box.Suspend(true); err != nil {
					t.Fatal(err)
				}
				<-turns
				if err := box.Close(); err != nil {
					t.Fatal(err)
				}
				<-box.c.process.Done() // also what was frozen is gone
			})
		}
	}
}

// usedBy is how much time on a processor each process of a tree has used, in ticks.
func usedBy(pid int) string {
	var used strings.Builder
	for tree := []int{pid}; len(tree) > 0; tree = tree[1:] {
		text := readProc(tree[0], "stat")
		if f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]); len(f) > 12 {
			fmt.Fprintf(&used, "%d: %s+%s ", tree[0], f[11], f[12])
		}
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", tree[0])) // gone: none
		for _, task := range tasks {
			for word := range strings.FieldsSeq(readProc(tree[0], "task/"+task.Name()+"/children")) {
				if n, err := strconv.Atoi(word); err == nil {
					tree = append(tree, n)
				}
			}
		}
	}
	return used.String()
}

func readProc(pid int, file string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)) // gone: none
	return string(text)
}
