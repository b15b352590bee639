package process

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

// dataBackend is one whose interpreter has numpy and pandas.
func dataBackend(t testing.TB) *Backend {
	t.Helper()
	for _, python := range []string{pythonPath(t), "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import numpy, pandas").Run() == nil {
			return newBackend(t, func(c *Config) { c.Python = python })
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no python3 has numpy and pandas; run: make deps")
	}
	t.Skip("SKIPPED, NOTHING PROVED: no python3 has numpy and pandas; run: make deps")
	return nil
}

// Programs that import numpy or pandas are forked from a zygote that has both, and replay as exactly as others.
func TestData(t *testing.T) {
	b := dataBackend(t)
	const src = `
import numpy as np, pandas as pd
print(np.random.rand(3), np.random.default_rng().random(), pd.Timestamp.now())
df = pd.DataFrame({"k": list("abcab"), "v": range(5)})
print(df.groupby("k").v.sum().to_dict(), np.dot(np.ones((200, 200)), np.ones((200, 200))).sum())
from kernel import state
state.set("x", {"a": np.int64(3), "b": np.arange(3), "c": np.float32(0.5), "d": pd.Timestamp("2026-01-01"), "e": np.bool_(True), "f": pd.NaT, "g": np.nan})
`
	run := func(w *world) *run {
		r := newRun(t, b, src)
		r.answer = w.answer
		if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
			t.Fatalf("%+v %v %s", turn, err, tracebackOf(turn))
		}
		if box, ok := r.box.(*sandbox); !ok || setFor(mustPython(t, b), box.v, false) != dataSet {
			t.Error("it was forked from the wrong zygote")
		}
		_ = r.box.Close()
		return r
	}
	first := &world{t: t}
	one := run(first)
	two := run(&world{t: t, script: first.answers})
	three := run(&world{t: t})
	if one.out.String() != two.out.String() || one.out.String() == three.out.String() {
		t.Errorf("%s\n%s\n%s", one.out.String(), two.out.String(), three.out.String())
	}
	want := `state.set {"key":"x","value":{"a":3,"b":[0,1,2],"c":0.5,"d":{"$datetime":"2026-01-01T00:00:00"},"e":true,"f":null,"g":{"$float":"nan"}}}`
	if got := one.calls[len(one.calls)-1]; got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if !strings.Contains(one.out.String(), "{'a': 3, 'b': 5, 'c': 2} 8000000.0\n") {
		t.Error(one.out.String())
	}
	r := newRun(t, b, "import numpy as np\nx = np.zeros(10 ** 10)")
	r.answer = func(agentkernel.Call) agentkernel.Reply {
		return agentkernel.Reply{Result: json.RawMessage(`{"$bytes":"` + strings.Repeat("YWFh", 10) + `YWE="}`)}
	}
	if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnFail || turn.Err.Op != "limit.memory" || !strings.Contains(turn.Err.Traceback, "line 2") {
		t.Errorf("%+v %v", turn, err)
	}
}

func mustPython(t testing.TB, b *Backend) Interpreter {
	t.Helper()
	python, err := b.python.get()
	if err != nil {
		t.Fatal(err)
	}
	return python
}

// BenchmarkGroupBy is a small groupby with pandas loaded in advance, in turns with all walls and with none.
func BenchmarkGroupBy(b *testing.B) {
	walled := dataBackend(b)
	bare := newBackend(b, func(c *Config) { c.Isolation, c.Python = IsolationNone, walled.cfg.Python })
	const src = "import pandas as pd\ndf = pd.DataFrame({'k': list('abcab') * 20, 'v': range(100)})\nprint(df.groupby('k').v.sum())"
	one := func(backend *Backend) {
		r := newRun(b, backend, src)
		r.answer = func(agentkernel.Call) agentkernel.Reply {
			return agentkernel.Reply{Result: json.RawMessage(`{"$bytes":"` + strings.Repeat("YWFh", 10) + `YWE="}`)}
		}
		if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
			b.Fatalf("%+v %v %s", turn, err, tracebackOf(turn))
		}
		_ = r.box.Close()
	}
	one(walled)
	one(bare)
	var with, without []time.Duration
	for b.Loop() {
		at := time.Now()
		one(walled)
		with = append(with, time.Since(at))
		at = time.Now()
		one(bare)
		without = append(without, time.Since(at))
	}
	b.ReportMetric(quantiles(b, "walls-", with)/quantiles(b, "bare-", without), "ratio")
}
