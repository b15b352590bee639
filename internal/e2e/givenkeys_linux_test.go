package e2e_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/devllm"
)

// bringer asks, waits for a signal, and asks again, itself and by a child.
const bringer = `
from kernel import llm, signals, spawn, wait
print(llm("say one"))
signals.wait()
print(llm("say two"))
r = wait(spawn('from kernel import llm\nllm("say three", model="fast")'))
print(r["state"], r["result"])
`

// TestAGivenKey: a process brings a model of its own, and waits for its key. It is answered when that is given, and waits for it again behind
// each death of its kernel, also behind one in the middle of that. Nothing is sent and nothing is charged before, and the key is nowhere
// on the disk.
func TestAGivenKey(t *testing.T) {
	const key = "sk-Given4f1c7d0a9e5b3827"
	server, model := devModels(t, func(o *devllm.Options) { o.Keys = []string{key} })
	t.Setenv("OPENAI_API_KEY", "sk-of-the-kernel") // is no matter of what a process brings
	dir := home(t)
	v := startVictim(t, dir)
	k := v.client(t, dir)
	s := program(bringer)
	s.Models, s.Budget = []string{model + " key=given"}, agentkernel.Budget{USD: agentkernel.USD}
	p, err := k.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	waits := func(asked int) {
		t.Helper()
		want := fmt.Sprintf("llm.ask fast, waits for its key: `agentkernel llm key fast --pid %d` gives it", p.PID)
		eventually(t, "it waits for its key", func() bool {
			now, err := k.Process(t.Context(), p.PID)
			return err == nil && slices.Equal(now.WaitsFor, []string{want}) && slices.Equal(now.WakeCauses(), []string{"key"}) && !now.Resident // it is parked
		})
		if l, err := k.ModelLimits(t.Context()); err != nil || len(l.Deployments) != 1 || l.Deployments[0].Tree != p.PID || l.Deployments[0].State != agentkernel.ModelKeyless || !l.Deployments[0].Given {
			t.Errorf("%+v %v", l, err)
		}
		b, err := k.Budget(t.Context(), p.PID)
		if n := len(server.Log(devllm.Filter{})); err != nil || n != asked || b.Held.USD != 0 || b.Spent.USD != agentkernel.NanoUSD(server.Totals(devllm.Filter{}).Nanos) {
			t.Errorf("%d requests, want %d; %+v %v", n, asked, b, err)
		}
	}
	give := func(key string) {
		t.Helper()
		if err := k.GiveKey(t.Context(), p.PID, "fast", key); err != nil {
			t.Fatal(err)
		}
	}
	revive := func() {
		t.Helper()
		v.kill()
		v = startVictim(t, dir)
		k = v.client(t, dir)
	}
	waits(0)
	if err := k.GiveKey(t.Context(), 0, "fast", key); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("the kernel itself has such a model: %v", err)
	}
	give(key)
	eventually(t, "it was answered", func() bool { return stdoutOf(t, k, p.PID) == "It is one.\n" })
	revive()
	if err := k.Signal(t.Context(), p.PID, agentkernel.SignalUser, agentkernel.SignalOptions{Payload: json.RawMessage("1")}); err != nil {
		t.Fatal(err)
	}
	waits(1)
	revive()
	waits(1)
	give(key)
	if p, err = k.Wait(t.Context(), p.PID); err != nil || p.State != agentkernel.StateExited {
		t.Fatalf("%s: %v %v", p.State, p.Error, err)
	}
	if out := stdoutOf(t, k, p.PID); out != "It is one.\nIt is two.\nexited It is three.\n" {
		t.Errorf("it says %q", out)
	}
	if log := server.Log(devllm.Filter{}); len(log) != 3 {
		t.Errorf("%d requests", len(log))
	}
	used, err := k.ModelUsage(t.Context(), agentkernel.UsageQuery{Tree: p.PID})
	if err != nil || used.Total.Calls != 3 || used.Total.Uncertain != 0 || used.Total.Open != 0 || used.Total.USD != agentkernel.NanoUSD(server.Totals(devllm.Filter{}).Nanos) {
		t.Errorf("%+v %v", used.Total, err)
	}
	eventually(t, "what its tree had is dropped", func() bool {
		l, err := k.ModelLimits(t.Context())
		return err == nil && len(l.Deployments) == 0
	})
	if err := k.GiveKey(t.Context(), p.PID, "fast", key); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Errorf("a key is given to what has ended: %v", err)
	}
	nowhere(t, k, dir, p.PID, key)
}

// nowhere looks for a key in the files of a data directory, and in the export of a process.
func nowhere(t *testing.T, k agentkernel.Kernel, dir string, pid agentkernel.PID, key string) {
	t.Helper()
	recording, err := k.Export(t.Context(), pid, agentkernel.ExportOptions{Unredacted: true})
	if err != nil {
		t.Fatal(err)
	}
	if at := bytes.Index(recording, []byte{0x1f, 0x8b, 8}); at >= 0 { // it is packed
		z, err := gzip.NewReader(bytes.NewReader(recording[at:]))
		if err == nil {
			recording, err = io.ReadAll(z)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	texts := map[string][]byte{"export": recording}
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			texts[path], err = os.ReadFile(path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for name, text := range texts {
		if bytes.Contains(text, []byte(key)) {
			t.Errorf("%s has the key", name)
		}
		if bytes.Contains(text, []byte("say one")) {
			asked++
		}
	}
	if asked < 2 {
		t.Errorf("what was asked is in %d of %d files: they cannot be read by this test", asked, len(texts))
	}
}

// TestBroughtModels: what a process may not bring is refused before anything is made of it; its models come before those of the kernel, whose
// others it still has.
func TestBroughtModels(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-of-the-kernel")
	own, ownModel := devModels(t)
	brought, broughtModel := devModels(t, func(o *devllm.Options) { o.Keys = []string{"sk-brought"} })
	k := openClient(t, home(t), func(c *embedded.Config) {
		c.Models = []string{ownModel, strings.Replace(ownModel, "fast", "other", 1)}
	})
	for text, want := range map[string]string{
		broughtModel:                           "write key=given",
		broughtModel + " key=env:OTHER":        "write key=given",
		broughtModel + " key=file:/etc/passwd": "write key=given",
		broughtModel + " key=command:/bin/ls":  "write key=given",
		broughtModel + " key=keyring:a/b":      "write key=given",
		broughtModel + " fallback=other":       "is not declared",
		"fast":                                 "declared by an alias",
	} {
		s := program("1")
		s.Models = []string{text}
		_, err := k.Spawn(t.Context(), s)
		e := agentkernel.AsError(err, "", "")
		if e == nil || e.Code != agentkernel.CodeInvalid || !strings.Contains(e.Error()+e.Hint, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	s := program(`
from kernel import llm
print(llm("say mine"), llm("say too", model="fast"), llm("say yours", model="other"))
try:
    llm("say what", model="fsat")
except RuntimeError as e:
    print(e)
`)
	s.Models = []string{broughtModel + " key=given"}
	p, err := k.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.GiveKey(t.Context(), p.PID, "other", "sk-brought"); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("a model of the kernel is given a key by the tree: %v", err)
	}
	if err := k.GiveKey(t.Context(), p.PID, "fast", "sk-brought"); err != nil {
		t.Fatal(err)
	}
	if p, err = k.Wait(t.Context(), p.PID); err != nil || p.State != agentkernel.StateExited {
		t.Fatalf("%s: %v %v", p.State, p.Error, err)
	}
	if out := stdoutOf(t, k, p.PID); !strings.HasPrefix(out, "It is mine. It is too. It is yours.\n") || !strings.Contains(out, "did you mean fast?") {
		t.Errorf("it says %q", out)
	}
	if len(own.Log(devllm.Filter{})) != 1 || len(brought.Log(devllm.Filter{})) != 2 {
		t.Errorf("%d requests came to the kernel's own, %d to what was brought", len(own.Log(devllm.Filter{})), len(brought.Log(devllm.Filter{})))
	}
	if used, err := k.ModelUsage(t.Context(), agentkernel.UsageQuery{Tree: p.PID}); err != nil || used.Total.Calls != 3 || used.Total.USD == 0 {
		t.Errorf("%+v %v", used, err)
	}
}

// TestABroughtKeyThatNobodyGives: a wait for it ends when it is interrupted, or the time of the process is over, and takes no slot.
func TestABroughtKeyThatNobodyGives(t *testing.T) {
	server, model := devModels(t)
	k := openClient(t, home(t))
	s := program("from kernel import llm\ntry:\n    llm('say one')\nexcept KeyboardInterrupt:\n    print('interrupted')\nllm('say two')")
	s.Models, s.Limits.Wall = []string{model + " key=given"}, agentkernel.Duration(2*time.Second)
	p, err := k.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits", func() bool {
		now, err := k.Process(t.Context(), p.PID)
		return err == nil && slices.Contains(now.WakeCauses(), "key") // and the end of its time
	})
	if err := k.Signal(t.Context(), p.PID, agentkernel.SignalInterrupt); err != nil {
		t.Fatal(err)
	}
	if p, err = k.Wait(t.Context(), p.PID); err != nil || p.State != agentkernel.StateKilled && p.State != agentkernel.StateFailed || !strings.Contains(p.Error.Error(), "wall") && !strings.Contains(p.Error.Error(), "2s") {
		t.Fatalf("%s: %v %v", p.State, p.Error, err)
	}
	if used, err := k.ModelUsage(t.Context(), agentkernel.UsageQuery{}); err != nil || used.Total.Calls != 0 || used.Total.Tokens != 0 {
		t.Errorf("what was never sent is counted: %+v %v", used.Total, err)
	}
	if out := stdoutOf(t, k, p.PID); out != "interrupted\n" || len(server.Log(devllm.Filter{})) != 0 {
		t.Errorf("it says %q; %d requests", out, len(server.Log(devllm.Filter{})))
	}
}
