package monty

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"agentkernel"
	"agentkernel/internal/sandbox/monty/montypb"
)

// What hostile code can send that has got hold of its worker, or that only knows how to make the engine send
// it. docs/security.md lists the attacks; each test here is one that has to fail.

// liar is a worker that greets as it should and then says what it likes, whatever it is told.
func liar(t *testing.T, script string, says ...[]byte) *Backend {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "frames")
	text := append([][]byte{event(t, &montypb.Event{Kind: &montypb.Event_Ok{Ok: &montypb.Unit{}}})}, says...)
	if err := os.WriteFile(file, bytes.Join(text, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	engine := filepath.Join(dir, "monty")
	script = strings.ReplaceAll(script, "FRAMES", file)
	body := "#!/bin/sh\n[ \"$1\" = --version ] && echo 'monty-runtime " + EngineVersion + "' && exit\n" + script + "\n"
	if err := os.WriteFile(engine, []byte(body), 0o700); err != nil {
		t.Fatal(err)
	}
	return newBackend(t, func(c *Config) { c.Engine, c.Spare, c.Grace = engine, -1, 200*time.Millisecond })
}

const sayAndWait = "/bin/cat FRAMES; /bin/cat >/dev/null"

func event(t testing.TB, ev *montypb.Event) []byte {
	t.Helper()
	b, err := proto.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	return framed(b)
}

func framed(body []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// callFrame is a FunctionCall with n times the same piece of message in it.
func callFrame(name string, n int, piece []byte) []byte {
	call := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	call = append(call, bytes.Repeat(piece, n)...)
	return framed(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), call))
}

func piece(field protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), body)
}

func TestLyingWorkers(t *testing.T) {
	huge := strings.Repeat("x", 16<<20)
	raised := func(text string, frames int) []byte {
		x := &montypb.Raised{Type: "ValueError", Message: &text}
		for range frames {
			x.Frames = append(x.Frames, &montypb.Frame{File: "<python-input-0>", Start: &montypb.Position{Line: 1}})
		}
		return event(t, &montypb.Event{Kind: &montypb.Event_Failed{Failed: &montypb.Failed{Exception: x}}})
	}
	for name, c := range map[string]struct {
		script string
		says   []byte
		want   agentkernel.Code
	}{
		"a length that is a lie":         {"/bin/cat FRAMES", append([]byte{0, 0, 0, 12}, "short"...), agentkernel.CodeCrashed},
		"a length beyond all":            {sayAndWait, []byte{0xff, 0xff, 0xff, 0xff}, agentkernel.CodeCrashed},
		"no message":                     {sayAndWait, framed([]byte{0xff, 0xff, 0xff}), agentkernel.CodeCrashed},
		"an empty message":               {sayAndWait, framed(nil), agentkernel.CodeCrashed},
		"text that is no text":           {sayAndWait, framed(piece(1, piece(2, []byte{0xff, 0xfe}))), agentkernel.CodeCrashed},
		"a wait for nothing":             {sayAndWait, event(t, &montypb.Event{Kind: &montypb.Event_ResolveFutures{ResolveFutures: &montypb.ResolveFutures{Pending: []uint32{7}}}}), agentkernel.CodeCrashed},
		"a dump that nobody asked for":   {sayAndWait, event(t, &montypb.Event{Kind: &montypb.Event_DumpResult{DumpResult: &montypb.DumpResult{}}}), agentkernel.CodeCrashed},
		"last words without end":         {sayAndWait, event(t, &montypb.Event{Kind: &montypb.Event_FatalError{FatalError: &montypb.FatalError{Message: huge}}}), agentkernel.CodeCrashed},
		"an exception without end":       {sayAndWait, raised(huge, 1), agentkernel.CodeProgram},
		"a million frames":               {sayAndWait, raised("x", 1_000_000), agentkernel.CodeProgram},
		"a type without end":             {sayAndWait, event(t, &montypb.Event{Kind: &montypb.Event_Failed{Failed: &montypb.Failed{Exception: &montypb.Raised{Type: huge}}}}), agentkernel.CodeProgram},
		"two million keywords":           {sayAndWait, callFrame("kernel.log", 2_000_000, piece(3, nil)), agentkernel.CodeCrashed},
		"two million arguments":          {sayAndWait, callFrame("kernel.log", 2_000_000, piece(2, nil)), agentkernel.CodeLimit},
		"a keyword that is no text":      {sayAndWait, callFrame("kernel.log", 1, piece(3, append(piece(1, piece(fieldNone, nil)), piece(2, piece(fieldNone, nil))...))), agentkernel.CodeCrashed},
		"a value that is none":           {sayAndWait, callFrame("kernel.log", 1, piece(2, []byte{0xff})), agentkernel.CodeCrashed},
		"empty prints for ever":          {"/bin/cat FRAMES; while :; do /bin/tail -c +7 FRAMES; done", bytes.Repeat(event(t, &montypb.Event{Kind: &montypb.Event_Print{Print: &montypb.Print{Stream: 1}}}), 10_000), agentkernel.CodeLimit},
		"prints beyond the limit":        {sayAndWait, bytes.Repeat(event(t, &montypb.Event{Kind: &montypb.Event_Print{Print: &montypb.Print{Stream: 1, Text: strings.Repeat("x", 1<<20)}}}), 100), agentkernel.CodeLimit},
		"silence":                        {sayAndWait, nil, agentkernel.CodeLimit},
		"a flood on stderr":              {"/bin/cat FRAMES; while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done >&2", nil, agentkernel.CodeLimit},
		"noise without end, no messages": {"/bin/cat FRAMES; exec /bin/cat /dev/zero", nil, agentkernel.CodeCrashed},
	} {
		t.Run(name, func(t *testing.T) {
			b := liar(t, c.script, c.says)
			r := newRun(t, b, "1")
			r.req.Limits.Time = agentkernel.Duration(time.Minute)
			if c.want == agentkernel.CodeLimit {
				r.req.Limits.Time = agentkernel.Duration(2 * time.Second)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			turn, err := r.start().finish()
			runtime.ReadMemStats(&after)
			if err == nil && turn.Kind == agentkernel.TurnFail {
				err = turn.Err
			}
			if agentkernel.CodeOf(err) != c.want {
				t.Errorf("%+.200v, %.500v; want %s", turn, err, c.want)
			}
			if e := agentkernel.AsError(err, "", ""); e != nil && len(e.Message())+len(e.Traceback)+len(e.Exception) > 200<<10 {
				t.Errorf("the error is %d bytes long, its traceback %d", len(e.Message()), len(e.Traceback))
			}
			if took := time.Since(began); took > 2*time.Minute {
				t.Errorf("took %s", took)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(4*len(c.says)+64<<20) && !strings.Contains(c.script, "while") {
				t.Errorf("%d bytes of memory for a message of %d", used, len(c.says))
			}
			if len(r.calls) > 0 {
				t.Errorf("calls reached the kernel: %.200q", r.calls)
			}
		})
	}
}

// TestCallsOfWhatWasNotImported: a name that the program did not import is no function, whoever asks.
func TestCallsOfWhatWasNotImported(t *testing.T) {
	for _, name := range []string{"tools.fs.delete", "tools.fs.aio.delete", "tools.", "kernel.nothing", "kernel.aio.", "intrinsic.nothing",
		"output.stdout", "llm", "", "tools.ok.read.more", "kernel.kernel.log", "tools.ok.aio.aio.read"} {
		b := liar(t, sayAndWait, callFrame(name, 0, nil),
			event(t, &montypb.Event{Kind: &montypb.Event_Complete{Complete: &montypb.Complete{Value: piece(fieldNone, nil)}}}))
		r := newRun(t, b, "1")
		r.prog = bound("1")
		r.prog.tools = map[string]*agentkernel.Tool{"ok.read": {Server: "ok", Name: "read", PythonServer: "ok", PythonName: "read"}}
		if turn, err := r.start().finish(); err != nil || turn.Kind != agentkernel.TurnExit || len(r.calls) > 0 {
			t.Errorf("%q: %+v %v, calls %q", name, turn, err, r.calls)
		}
		_ = b.Close()
	}
}

// nestedValue is a value of the engine with others around it, depth of them.
func nestedValue(field protowire.Number, depth int, inner []byte, beside ...[]byte) []byte {
	for range depth {
		items := piece(1, inner)
		for _, b := range beside {
			items = append(items, piece(1, b)...)
		}
		inner = piece(field, items)
	}
	return inner
}

// TestHostileValues: any value costs time and memory in proportion to its size.
func TestHostileValues(t *testing.T) {
	one := append(protowire.AppendTag(nil, fieldInt, protowire.VarintType), 2)
	text := piece(fieldStr, bytes.Repeat([]byte("x"), 1<<20))
	big := piece(fieldBigInt, piece(2, bytes.Repeat([]byte{0xff}, maxIntBytes)))
	for name, val := range map[string][]byte{
		"lists in lists":      nestedValue(fieldList, 5000, one),
		"sets in sets":        nestedValue(fieldFrozenset, 190, text, one),
		"many small lists":    piece(fieldList, bytes.Repeat(piece(1, piece(fieldList, nil)), 1<<18)),
		"many small dicts":    piece(fieldList, bytes.Repeat(piece(1, piece(fieldDict, nil)), 1<<18)),
		"a dict of many keys": piece(fieldDict, bytes.Repeat(piece(1, append(piece(1, piece(fieldStr, []byte("k"))), piece(2, one)...)), 1<<17)),
		"many big ints":       piece(fieldList, bytes.Repeat(piece(1, big), 100)),
		"one int beyond all":  piece(fieldBigInt, piece(2, bytes.Repeat([]byte{0xff}, 32<<20))),
		"instances in instances": func() []byte {
			v := one
			for range 5000 {
				v = piece(fieldInstance, piece(3, piece(1, append(piece(1, piece(fieldStr, []byte("a"))), piece(2, v)...))))
			}
			return v
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			out, err := appendJSON(nil, val)
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if took > 2*time.Minute {
				t.Errorf("took %s for %d bytes", took, len(val))
			}
			// Numbers of this length are printed in up to 25 times their size of memory, out of a pool that under the
			// race detector forgets a quarter of what it is given.
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(64*len(val)+1<<20) {
				t.Errorf("%d bytes of memory for %d; %d came out, %v", used, len(val), len(out), err)
			}
		})
	}
}

// TestModulesAreTheKey: two programs are the same only if each of their modules is. The digests of modules were
// added up, and any sum can be reached with a few hundred modules: a program could have been made to run
// with the modules of another tenant's.
func TestModulesAreTheKey(t *testing.T) {
	with := func(modules map[string]string) programKey {
		return keyOf(agentkernel.Program{Name: "p", Source: "import tools.a.b", Modules: modules}, nil)
	}
	a := with(map[string]string{"tools.a.b": "x = 1", "tools.a.c": "x = 2"})
	if a != with(map[string]string{"tools.a.c": "x = 2", "tools.a.b": "x = 1"}) {
		t.Error("the order of a map counts")
	}
	if a == with(map[string]string{"tools.a.b": "x = 2", "tools.a.c": "x = 1"}) || a == with(map[string]string{"tools.a.b": "x = 1"}) {
		t.Error("other modules, same key")
	}
	if collide(t, with) {
		t.Error("a set of modules was found that has the key of another")
	}
}

// collide looks for modules with the key of others by solving linear equations over GF(2) over the digests of
// the modules, which works if the key depends on their sum only.
func collide(t *testing.T, with func(map[string]string) programKey) bool {
	t.Helper()
	const n = 300
	variant := func(i, v int) (string, string) { return fmt.Sprintf("tools.m.m%d", i), fmt.Sprintf("x = %d", v) }
	sum := func(i, v int) []byte {
		d := digest{h: sha256.New()}
		d.text(variant(i, v))
		return d.h.Sum(nil)
	}
	var rows [n][32 + (n+7)/8]byte // difference that a choice makes to the sum, and which choices made it
	for i := range n {
		a, b := sum(i, 0), sum(i, 1)
		for j := range a {
			rows[i][j] = a[j] ^ b[j]
		}
		rows[i][32+i/8] |= 1 << (i % 8)
	}
	used := 0
	for bit := range 256 {
		for r := used; r < n; r++ {
			if rows[r][bit/8]>>(bit%8)&1 == 0 {
				continue
			}
			rows[used], rows[r] = rows[r], rows[used]
			for o := range n {
				if o != used && rows[o][bit/8]>>(bit%8)&1 == 1 {
					for j := range rows[o] {
						rows[o][j] ^= rows[used][j]
					}
				}
			}
			used++
			break
		}
	}
	zero, chosen := map[string]string{}, map[string]string{}
	for i := range n {
		name, src := variant(i, 0)
		zero[name] = src
		name, src = variant(i, int(rows[n-1][32+i/8]>>(i%8)&1))
		chosen[name] = src
	}
	return with(chosen) == with(zero) && !maps.Equal(chosen, zero)
}

// TestResultsAndErrorsAreShort: what a program leaves behind stands in its row, in tables and in events.
func TestResultsAndErrorsAreShort(t *testing.T) {
	b := newBackend(t)
	for name, src := range map[string]string{
		"a result":             "'x' * 30_000_000",
		"an exception":         "raise ValueError('x' * 30_000_000)",
		"a traceback":          "f = lambda n: g(n + 1)" + strings.Repeat(" ", 1<<20) + "# long\ng = lambda n: f(n + 1)" + strings.Repeat(" ", 1<<20) + "# long\nf(0)",
		"a name that is none":  "x" + strings.Repeat("y", 1<<20),
		"a text to exit with":  "raise SystemExit('x' * 30_000_000)",
		"an unknown attribute": "getattr(1, 'x' * 10_000_000)",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, b, src)
			r.prog = bound(src)
			r.prog.feeds[0].source = src
			r.req.Limits.Output = 1 << 20
			turn, err := r.finish()
			if err == nil && turn.Err != nil {
				err = turn.Err
			}
			if e := agentkernel.AsError(err, "", ""); e != nil && len(e.Message())+len(e.Traceback)+len(e.Hint) > 200<<10 {
				t.Errorf("the error is %d bytes long, its traceback %d", len(e.Message()), len(e.Traceback))
			}
			if len(turn.Result) > 1<<20 || name == "a result" && !strings.Contains(string(turn.Result), "$repr") {
				t.Errorf("the result is %d bytes long: %.100s", len(turn.Result), turn.Result)
			}
		})
	}
}

// TestLongExpressions: an expression that nests without a bracket that anybody sees is refused before the engine, which recurses, has no
// stack left. The longest that is not refused does not end the worker, whatever the program makes of it.
func TestLongExpressions(t *testing.T) {
	b := newBackend(t)
	for of, parts := range map[string][3]string{ // the beginning, what is repeated, the end
		"attributes": {"x", ".a", ""}, "calls": {"x", "()", ""}, "subscripts": {"x", "[0]", ""}, "signs": {"x = ", "-", "1"}, "sums": {"x = ", "1+", "1"}, "nots": {"x = ", "not ", "1"},
		"lambdas": {"x = ", "lambda:", "1"}, "conditions": {"x = ", "1 if 1 else ", "1"}, "unions": {"def f(x: ", "int|", "int): pass"}, "ors": {"x = ", "1 or ", "1"},
		"comparisons": {"x = ", "1 < ", "1"}, "in brackets": {"f(1, ", "-", "1)"}, "powers": {"x = ", "1**", "1"}, "assignments": {"", "x = ", "1"},
	} {
		whole := func(n int) string { return parts[0] + strings.Repeat(parts[1], n) + parts[2] }
		for n, refused := range map[int]bool{400_000: true, 7_000: false, 14_000: false, 29_000: false} {
			src := whole(n)
			_, err := b.Check(agentkernel.Program{Name: "p.py", Language: agentkernel.Python, Source: src})
			if refused || err != nil {
				if err == nil || !strings.Contains(err.Error(), "no comma") {
					t.Errorf("%d %s: %v", n, of, err)
				}
				continue
			}
			t.Run(fmt.Sprint(n, of), func(t *testing.T) { // its sandbox is closed at its end
				turn, err := newRun(t, b, src).finish()
				if e := cmp.Or(turn.Err, agentkernel.AsError(err, "", "")); e != nil && (e.Code == agentkernel.CodeCrashed || e.Code == "" || len(e.Message()) > 1000) {
					t.Errorf("%q %v", e.Code, e)
				}
			})
		}
	}
}

// TestWorkOfTheHostCounts: what the host computes for a program is running time of the program.
func TestWorkOfTheHostCounts(t *testing.T) {
	b := newBackend(t)
	src := "for i in range(1000):\n    digest('sha512', b'password', b'salt', 200_000, 64)\n    now()"
	r := boundRun(t, b, src, "digest=intrinsic.pbkdf2", "now=kernel.now")
	r.req.Limits.Time = agentkernel.Duration(500 * time.Millisecond)
	turn, err := r.finish()
	if err == nil {
		err = turn.Err
	}
	if e := agentkernel.AsError(err, "", ""); e == nil || e.Op != "limit.time" || len(r.calls) > 100 {
		t.Errorf("%d rounds, then %+v %v", len(r.calls), turn, err)
	}
}

// TestToolTextIsNoCode: what a server says of its tools is text in the program, whatever stands in it.
func TestToolTextIsNoCode(t *testing.T) {
	var every strings.Builder
	for r := rune(0); r < 0x2100; r++ {
		every.WriteRune(r)
	}
	b := newBackend(t)
	for _, doc := range []string{
		every.String(), `'); print('owned'); ('`, `\`, `\'`, "\\\n'''\"\"\"", "{x}", "%s", "\u2028print('owned')\u2029", "\r\nprint('owned')\r\n", "\ufeff", "\x00",
	} {
		r := newRun(t, b, "from tools.fs import read\nhelp(read)")
		r.req.Tools = []agentkernel.Tool{{Server: "fs", Name: "read", PythonServer: "fs", PythonName: "read", Signature: "read()" + doc, Doc: doc}}
		turn, err := r.finish()
		if err != nil || turn.Kind != agentkernel.TurnExit {
			t.Errorf("%.40q: %+v %v", doc, turn, err)
		}
		if lines := strings.Split(r.out.String(), "\n"); slices.Contains(lines, "owned") {
			t.Errorf("%.40q ran as code: %q", doc, r.out.String())
		}
		_ = r.box.Close()
	}
}
