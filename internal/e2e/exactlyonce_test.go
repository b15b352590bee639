package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/tool/tooltest"
)

// kills is how often the kernel is killed: a few in the suite, AGENTKERNEL_SOAK in `make soak`.
func kills(t *testing.T, few int) int {
	if s := os.Getenv("AGENTKERNEL_SOAK"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("AGENTKERNEL_SOAK=%q is not a number", s)
		}
		return n
	}
	return few
}

// appender writes lines by a tool that is neither idempotent nor read-only, some of them in parallel, with
// pure calls in between, and prints which outcomes it was told are unknown.
const appender = `
import asyncio
from tools.lines import append_line
from tools.lines.aio import append_line as append_later
from kernel import state, sleep

path = %q

def write(i):
    try:
        append_line(path=path, text="line " + str(i))
    except OSError as e:
        assert str(e).startswith("outcome_unknown: "), str(e)
        print("unknown", i)

async def later(i):
    try:
        await append_later(path=path, text="line " + str(i))
    except OSError as e:
        assert str(e).startswith("outcome_unknown: "), str(e)
        print("unknown", i)

async def pair(i):
    await asyncio.gather(later(i), later(i + 1))

i = 0
while i < %d:
    if i %% 10 == 4:
        asyncio.run(pair(i))
        i += 2
    else:
        write(i)
        i += 1
    state.set("done", i)
    if i %% 3 == 0:
        sleep(%v)
print("end", state.get("done"))
`

// TestExactlyOnceUnderKill kills the kernel with SIGKILL at random moments while a program makes 200 writes.
// At the end each line is there once, or the program was told that its outcome is unknown; never twice.
func TestExactlyOnceUnderKill(t *testing.T) {
	for name, c := range map[string]struct {
		flags  []string
		lines  int
		kills  int
		window time.Duration // a kill comes within this after the kernel is up
	}{
		"quick server": {nil, 200, kills(t, 12), 250 * time.Millisecond},
		"server answers late and outlives kernel": {[]string{"-delay", "300ms", "-outlive"}, 30, min(kills(t, 4), 30), 900 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); exactlyOnce(t, c.flags, c.lines, c.kills, c.window) })
	}
}

func exactlyOnce(t *testing.T, flags []string, lines, kills int, window time.Duration) {
	dir := home(t)
	file := filepath.Join(t.TempDir(), "lines.txt")
	cfg := tooltest.Config(t, map[string]tooltest.Server{"lines": tooltest.Stdio(t, flags...)})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))

	v := startVictim(t, dir)
	// The pauses make the program last for about as long as the kills do.
	pause := float64(kills) * window.Seconds() / float64(lines)
	s := program(fmt.Sprintf(appender, file, lines, pause))
	s.Tools, s.Allow = []string{cfg}, []string{"lines.*"}
	p, err := v.client(t, dir).Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	alive := 0
	for range kills {
		time.Sleep(time.Duration(rng.Int64N(int64(window)))) //nolint:forbidigo // the random moment is what is tested
		v.kill()
		v = startVictim(t, dir)
		if got, err := v.client(t, dir).Process(t.Context(), p.PID); err == nil && !got.State.Terminal() {
			alive++
		}
	}
	got, err := v.client(t, dir).Wait(t.Context(), p.PID)
	if err != nil || got.State != agentkernel.StateExited {
		t.Fatalf("ended as %s: %v %v\n%s", got.State, got.Error, err, tracebackOf(got.Error))
	}
	if alive < kills/3 {
		t.Errorf("only %d of %d kills met the program alive: the test proves little", alive, kills)
	}
	checkLines(t, v.client(t, dir), p.PID, file, lines)
}

func checkLines(t *testing.T, k agentkernel.Kernel, pid agentkernel.PID, file string, lines int) {
	t.Helper()
	var out strings.Builder
	if err := k.Events(t.Context(), pid, 1, false, func(ev agentkernel.Event) error {
		out.WriteString(ev.Text)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(text)) {
		count[strings.TrimSpace(line)]++
	}
	unknown := 0
	for i := range lines {
		told := strings.Contains(out.String(), fmt.Sprintf("unknown %d\n", i))
		if told {
			unknown++
		}
		if n := count[fmt.Sprintf("line %d", i)]; n > 1 || n == 0 && !told {
			t.Errorf("line %d was written %d times, reported as unknown: %v", i, n, told)
		}
	}
	if !strings.HasSuffix(out.String(), fmt.Sprintf("end %d\n", lines)) {
		t.Errorf("the program did not come to its end: %q", out.String())
	}
	t.Logf("%d lines, %d reported as unknown", lines, unknown)
}

func tracebackOf(e *agentkernel.Error) string {
	if e == nil {
		return ""
	}
	return e.Traceback
}
