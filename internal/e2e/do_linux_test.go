package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/devllm"
	"agentkernel/internal/tool/tooltest"
	"agentkernel/userland/agent"
)

// sixTurns is a model that has five programs write a line each, and looks each time whether it was shown the one before.
func sixTurns(file string) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for turn := 1; turn <= 6; turn++ {
		fmt.Fprintf(&b, "  - name: turn %d\n    when: {turn: %d", turn, turn)
		if turn > 1 {
			fmt.Fprintf(&b, ", tool_result: '/^program %d ended well. It printed:\\nline %d/'", turn-1, turn-1)
		}
		b.WriteString("}\n")
		if turn == 6 {
			b.WriteString("    answer: {calls: [{name: finish, arguments: {result: all are written}}]}\n")
			break
		}
		fmt.Fprintf(&b, "    answer: {calls: [{name: run_python, arguments: {code: \"from tools.lines import append_line\\ntry:\\n    append_line(path='%s', text='%d')\\nexcept OSError:\\n    pass\\nprint('line %d')\"}}]}\n", file, turn, turn)
	}
	b.WriteString("default: {error: {status: 400, message: this was not to be shown}}\n")
	return b.String()
}

// TestTaskKilledAtEachStep kills the kernel once, at steps that the journal of a task of six turns has, one of three (AGENTKERNEL_SOAK takes
// all): when the model was to be asked, had answered, a program was started, waited for, had ended. Each time the next kernel brings it to the
// same end: the model is asked nothing again that is in the journal, and no line is written twice.
func TestTaskKilledAtEachStep(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	steps, call := []int64{1}, map[int64]bool{}
	for _, e := range doSixTurns(t, 0) {
		call[e.Call] = call[e.Call] || strings.HasPrefix(e.Op, "llm.") || strings.HasPrefix(e.Op, "proc.")
		if call[e.Call] && (e.Kind == agentkernel.EntryCall || e.Kind == agentkernel.EntryResult) {
			steps = append(steps, e.Seq)
		}
	}
	if len(steps) < 6*2+5*2 {
		t.Fatalf("the steps are %v", steps)
	}
	for _, at := range sample(steps, 3) {
		doSixTurns(t, at)
	}
}

// doSixTurns does the task, with a kill when its journal has so many entries; 0: none. It returns the journal.
func doSixTurns(t *testing.T, killAt int64) []agentkernel.Entry {
	t.Helper()
	dir, file := home(t), filepath.Join(t.TempDir(), "lines.txt")
	server, model := devModels(t, func(o *devllm.Options) {
		script, err := devllm.ParseScript("answers.yaml", []byte(sixTurns(file)))
		if err != nil {
			t.Fatal(err)
		}
		o.Script, o.FirstToken = script, 10*time.Millisecond // so that a kill may meet a call
	})
	t.Setenv(envModels, model)
	program, err := agent.Program(agent.Task{Text: "write five lines"})
	if err != nil {
		t.Fatal(err)
	}
	v := startVictim(t, dir)
	p, err := v.client(t, dir).Spawn(t.Context(), agentkernel.Spec{Program: program, Budget: agentkernel.Budget{Turns: agent.Turns}, OnBudget: agentkernel.BudgetRaise,
		Tools: []string{tooltest.Config(t, map[string]tooltest.Server{"lines": tooltest.Stdio(t)})}, Allow: []string{"lines.*"}})
	if err != nil {
		t.Fatal(err)
	}
	if killAt > 0 {
		k := v.client(t, dir)
		eventually(t, fmt.Sprintf("the journal has %d entries", killAt), func() bool {
			entries, err := k.Journal(t.Context(), p.PID, 1, 0)
			return err == nil && int64(len(entries)) >= killAt
		})
		v.kill()
		v = startVictim(t, dir)
	}
	k := v.client(t, dir)
	where := fmt.Sprintf("killed at entry %d: ", killAt)
	got, err := k.Wait(t.Context(), p.PID)
	if out := stdoutOf(t, k, p.PID); err != nil || got.State != agentkernel.StateExited || got.ExitCode != 0 || out != "all are written\n" {
		t.Fatalf("%s%s, exit code %d, %v %v, printed %q", where, got.State, got.ExitCode, got.Error, err, out)
	}
	entries, err := k.Journal(t.Context(), p.PID, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	again, call := map[int64]int{}, map[int64]bool{}
	for _, e := range entries {
		switch {
		case e.Kind == agentkernel.EntryCall && e.Op == "llm.complete":
			call[e.Call] = true
		case e.Kind == agentkernel.EntryRetry && call[e.Call]:
			again[e.Call]++
		}
	}
	asked := map[string]int{}
	for _, e := range server.Log(devllm.Filter{}) {
		asked[e.Rule]++
	}
	more := asked[""] // requests that were cut off before the script was asked
	delete(asked, "")
	for turn := 1; turn <= 6; turn++ {
		if n := asked[fmt.Sprintf("turn %d", turn)]; n < 1 {
			t.Errorf("%sturn %d was asked for %d times", where, turn, n)
		} else {
			more += n - 1
		}
	}
	if len(call) != 6 || len(asked) != 6 || more > len(again) || len(again) > 1 {
		t.Errorf("%s%d calls to the model, %v made again; the provider was asked for %v", where, len(call), again, asked)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if written[line]++; written[line] > 1 {
			t.Errorf("%sthe lines are %q", where, text)
		}
	}
	// One write may have been cut off. Then it is not made again, since nobody knows whether it happened.
	if len(written) < 4 || killAt == 0 && len(written) < 5 {
		t.Errorf("%sthe lines are %q", where, text)
	}
	return entries
}

// TestPicturesAfterCrash kills the kernel at steps of a task that was given a picture and looks at one of its programs, one of three
// (AGENTKERNEL_SOAK takes all): the next kernel shows the model both again, and asks nothing twice.
func TestPicturesAfterCrash(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	t.Setenv(envSandboxes, systemPython(t))
	for name, way := range map[string]wayToLook{
		"a value":              {code: `[b'\\x89PNG\\r\\n\\x1a\\nmade']`, shown: "[picture 1: PNG, 12 bytes]", picture: "1"},
		"a file of the folder": {code: `with open('made.png', 'wb') as f:\n    f.write(b'\\x89PNG\\r\\n\\x1a\\nmade')`, shown: "ended well", picture: "made.png", folder: true},
	} {
		t.Run(name, func(t *testing.T) {
			steps := []int64{1}
			for _, e := range lookAfterCrash(t, way, 0) {
				if e.Kind == agentkernel.EntryCall || e.Kind == agentkernel.EntryResult {
					steps = append(steps, e.Seq)
				}
			}
			if len(steps) < 6 {
				t.Fatalf("the steps are %v", steps)
			}
			for _, at := range sample(steps, 3) {
				lookAfterCrash(t, way, at)
			}
		})
	}
}

// wayToLook is a program that makes a picture, what the model is shown of it, and how it asks for it.
type wayToLook struct {
	code, shown, picture string
	folder               bool
}

func lookAfterCrash(t *testing.T, way wayToLook, killAt int64) []agentkernel.Entry {
	t.Helper()
	dir := home(t)
	server, model := devModels(t, func(o *devllm.Options) {
		script, err := devllm.ParseScript("answers.yaml", fmt.Appendf(nil, `
rules:
  - when: {turn: 1, images: 1}
    answer: {calls: [{name: run_python, arguments: {code: "%s"}}]}
  - when: {turn: 2, images: 1, tool_result: "%s"}
    answer: {calls: [{name: look_at, arguments: {picture: "%s"}}]}
  - when: {turn: 3, images: 2, user: "%[3]s:"}
    answer: {calls: [{name: finish, arguments: {result: seen}}]}
default: {error: {status: 400, message: this was not to be shown}}
`, way.code, way.shown, way.picture))
		if err != nil {
			t.Fatal(err)
		}
		o.Script, o.FirstToken = script, 10*time.Millisecond // so that a kill may meet a call
	})
	t.Setenv(envModels, model)
	large := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 100_000)...) // of a message that the journal keeps in a file
	program, err := agent.Program(agent.Task{Text: "look", Folder: way.folder, Images: []agent.Picture{{Name: "given.png", Data: large}}})
	if err != nil {
		t.Fatal(err)
	}
	v := startVictim(t, dir)
	spec := agentkernel.Spec{Program: program, Budget: agentkernel.Budget{Turns: agent.Turns}, OnBudget: agentkernel.BudgetRaise}
	if way.folder {
		spec.Workspace = &agentkernel.Workspace{Path: t.TempDir()}
	}
	p, err := v.client(t, dir).Spawn(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if killAt > 0 {
		k := v.client(t, dir)
		eventually(t, fmt.Sprintf("the journal has %d entries", killAt), func() bool {
			entries, err := k.Journal(t.Context(), p.PID, 1, 0)
			return err == nil && int64(len(entries)) >= killAt
		})
		v.kill()
		v = startVictim(t, dir)
	}
	k := v.client(t, dir)
	got, err := k.Wait(t.Context(), p.PID)
	if out := stdoutOf(t, k, p.PID); err != nil || got.State != agentkernel.StateExited || got.ExitCode != 0 || out != "seen\n" {
		t.Fatalf("killed at entry %d: %s, exit code %d, %v %v, printed %q", killAt, got.State, got.ExitCode, got.Error, err, out)
	}
	entries, err := k.Journal(t.Context(), p.PID, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	again := 0
	for _, e := range entries {
		if e.Kind == agentkernel.EntryRetry {
			again++
		}
	}
	if n := len(server.Log(devllm.Filter{})); n < 3 || n > 3+again {
		t.Errorf("killed at entry %d: the provider was asked %d times, and calls were made again %d times", killAt, n, again)
	}
	return entries
}
