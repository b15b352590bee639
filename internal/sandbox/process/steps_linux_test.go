package process

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/guest"
	"agentkernel/internal/sandbox/confine"
)

const stepsProgram = `
import base64, os, platform, struct, sys, types
steps = types.ModuleType("steps")
exec(open(sys.argv[1]).read(), steps.__dict__)
runner = steps.load(base64.b64decode(sys.argv[2]))
x86 = platform.machine() == "x86_64"
DUP, CLOSE, WRITE, READ, PIPE2 = (32, 3, 1, 0, 293) if x86 else (23, 57, 64, 63, 59)

def made(*rows):
    l = steps.List(runner)
    for args, kw in rows:
        l.add(*args, **kw)
    l.close()
    return l

def row(*args, **kw):
    return args, kw

r, w = os.pipe()
text, taken = steps.Buffer(b"hello"), steps.Buffer(bytes(8))
whole = made(row(DUP, steps.Late("end"), save="copy"), row(CLOSE, -1, ok=(9,)), row(WRITE, steps.Saved("copy"), text, 5, save="n"),
             row(CLOSE, steps.Saved("copy")), row(READ, r, taken, steps.Saved("n")))
for again in range(3):
    whole.set("end", w)
    assert whole.run() == len(whole), whole.results
    assert whole.results[0] == 5 and taken.memory.raw == b"hello\0\0\0", (whole.results[0], taken.memory.raw)
failing = made(row(DUP, 1, save="copy"), row(CLOSE, steps.Saved("copy")), row(CLOSE, -1), row(WRITE, 1, text, 5))
assert failing.run() == 2 and failing.results[0] == -9, failing.results[0]
stops = made(row(DUP, 1, stop=steps.ON_RESULT, save="copy"), row(WRITE, 1, text, 5))
assert stops.run() == 0 and stops.results[0] > 2
os.close(stops.results[0])
quiet = made(row(WRITE, w, text, 0, stop=steps.ON_ZERO), row(WRITE, 1, text, 5))
assert quiet.run() == 0 and quiet.results[0] == 0
goes = made(row(CLOSE, w, stop=steps.ON_RESULT), row(READ, r, taken, 8, stop=steps.ON_ZERO), row(WRITE, 1, text, 5))
assert goes.run() == 1
r, w = os.pipe()
rounds = made(row(CLOSE, -1, ok=(9,)), row(WRITE, w, text, 3, stop=3, turn=3), row(READ, r, taken, 8, stop=8, turn=5), row(WRITE, 1, text, 5),
              row(WRITE, 1, text, 5), row(WRITE, w, text, 5, stop=4, turn=7), row(WRITE, 1, text, 5), row(READ, r, taken, 0, stop=steps.ON_ZERO))
assert rounds.run() == 7 and taken.memory.raw[:3] == b"hel", rounds.results[0]
late = made(row(CLOSE, -1), row(READ, steps.Slot(8 * 50 + 4), taken, 8))
struct.pack_into("=2i", late.memory, 8 * 50, -1, r)
assert late.run(1) == 2 and late.results[0] == 5, late.results[0]
print("ok")
`

// TestChildrenShareNoMemory: what one child reads or writes none of the others sees. A mapping that is shared and can be
// written would be the zygote's and all its children's.
func TestChildrenShareNoMemory(t *testing.T) {
	r := newRun(t, sharedBackend(t), "for line in open('/proc/self/maps'):\n    if line.split()[1][1::2] == 'ws': print(line)\nprint('looked')")
	if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
		t.Fatalf("%+v %v", turn, err)
	}
	if out := r.out.String(); out != "looked\n" {
		t.Errorf("shared: %s", out)
	}
}

// TestSteps runs lists of calls by confine.StepRunner, in a process that is not ours.
func TestSteps(t *testing.T) {
	source, err := guest.Python.ReadFile("python/steps.py")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "steps.py")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("python3", "-c", stepsProgram, file, base64.StdEncoding.EncodeToString(confine.StepRunner())).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Fatalf("%v: %s", err, out)
	}
}
