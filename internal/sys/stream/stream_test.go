package stream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"agentkernel"
	"agentkernel/internal/sys"
	"agentkernel/internal/sys/stream"
	"agentkernel/internal/sys/systest"
)

// TestWhatIsOpen: what the journal says of streams decides what a program is told of one that nothing stands behind, also
// where it comes from an image.
func TestWhatIsOpen(t *testing.T) {
	f := stream.Family()
	opens := agentkernel.Syscall{Name: "llm.stream"}
	if !f.Local.Wants(&sys.Op{Syscall: opens, Opens: true}) || f.Local.Wants(&sys.Op{Syscall: opens}) {
		t.Error("the family is not told of what opens streams, or of other calls, too")
	}
	answered := func(op, args, result string, code agentkernel.Code) sys.Step {
		s := sys.Step{Op: op, Args: json.RawMessage(args), Result: json.RawMessage(result), Answered: true}
		if code != "" {
			s.Result, s.Err = nil, agentkernel.Errorf(code, op, "x")
		}
		return s
	}
	const next, first = "stream.next", `{"handle":"1.3"}`
	var data any
	for i, c := range []struct {
		step sys.Step
		open bool // 1.3
	}{
		{sys.Step{Op: opens.Name, Call: 3}, false},
		{answered(opens.Name, `{}`, "", agentkernel.CodeUnavailable), false},
		{answered(opens.Name, `{}`, `"1.3"`, ""), true},
		{sys.Step{Op: next, Args: json.RawMessage(first)}, true},
		{answered(next, first, `[1]`, ""), true},
		{answered(next, first, "", agentkernel.CodeInterrupted), true},
		{answered(next, first, "", agentkernel.CodeTimeout), true},
		{answered(next, `{"handle":"1.9"}`, `[]`, ""), true},
		{answered(next, first, `[]`, ""), false},
		{answered(opens.Name, `{}`, `"1.3"`, ""), true},
		{answered(next, first, "", agentkernel.CodeSessionLost), false},
		{answered(opens.Name, `{}`, `"1.3"`, ""), true},
		{answered("stream.close", `{"handle":3}`, "", agentkernel.CodeInvalid), true},
		{answered("stream.close", first, `true`, ""), false},
		{answered(opens.Name, `{}`, `"1.3"`, ""), true},
		{sys.Step{PID: 1, Call: 4, Settled: true}, true},
		{sys.Step{Aborted: true, Call: 3}, true},
		{sys.Step{Aborted: true, Call: 2}, false},
	} {
		if i%2 == 0 && data != nil {
			loaded, err := f.Local.Load(f.Local.Save(data))
			if err != nil {
				t.Fatal(err)
			}
			data = loaded
		}
		data = f.Local.Fold(data, &c.step)
		p := systest.New(t, f)
		p.Local = data
		lost, err := p.Outside(t.Context(), t, next, first)
		want := agentkernel.CodeNotFound
		if c.open {
			want = agentkernel.CodeSessionLost
		}
		out, closed := p.Now(t, "stream.close", first)
		if agentkernel.CodeOf(err) != want || closed != nil || string(out.Result) != fmt.Sprint(c.open) {
			t.Errorf("step %d: %v, want %s; close says %s %v", i, err, want, out.Result, closed)
		}
		for _, o := range []sys.Outcome{lost, out} { // of one that was lost, all that its call had kept is charged
			if (o.Ends != nil) != c.open || c.open && (o.Ends.Call != 3 || o.Ends.Used != nil) {
				t.Errorf("step %d: settles %+v", i, o.Ends)
			}
		}
	}
	if data != nil {
		t.Errorf("left: %v", data)
	}
	p := systest.New(t, f)
	p.Local = f.Local.Fold(nil, &sys.Step{Op: opens.Name, Args: json.RawMessage(`{}`), Result: json.RawMessage(`"8.3"`), Answered: true, Origin: true})
	if out, err := p.Outside(t.Context(), t, next, `{"handle":"8.3"}`); agentkernel.CodeOf(err) != agentkernel.CodeSessionLost || out.Ends != nil {
		t.Errorf("the stream of an origin: %v, settles %+v", err, out.Ends)
	}
}

// TestAllWasGiven: of a stream that has given all that it had nothing is lost. It is at its end, and nothing is charged for it.
func TestAllWasGiven(t *testing.T) {
	f := stream.Family()
	data := f.Local.Fold(nil, &sys.Step{PID: 1, Op: "llm.stream", Call: 3, Args: json.RawMessage(`{}`), Result: json.RawMessage(`"1.3"`), Answered: true})
	before := f.Local.Save(data)
	settled := f.Local.Fold(data, &sys.Step{PID: 1, Call: 3, Settled: true})
	if again := f.Local.Save(data); string(again) != string(before) {
		t.Errorf("what stood before has changed: %s", again)
	}
	loaded, err := f.Local.Load(f.Local.Save(settled))
	if err != nil {
		t.Fatal(err)
	}
	p := systest.New(t, f)
	for _, p.Local = range []any{settled, loaded} {
		out, err := p.Outside(t.Context(), t, "stream.next", `{"handle":"1.3"}`)
		if err != nil || string(out.Result) != "[]" || out.Ends != nil {
			t.Errorf("%s %v, settles %+v", out.Result, err, out.Ends)
		}
		if out, err := p.Now(t, "stream.close", `{"handle":"1.3"}`); err != nil || string(out.Result) != "true" || out.Ends != nil {
			t.Errorf("closed: %s %v, settles %+v", out.Result, err, out.Ends)
		}
	}
	for _, last := range []sys.Step{
		{Op: "stream.next", Args: json.RawMessage(`{"handle":"1.3"}`), Result: json.RawMessage(`[]`), Answered: true},
		{Op: "stream.close", Args: json.RawMessage(`{"handle":"1.3"}`), Result: json.RawMessage(`true`), Answered: true},
	} {
		if left := f.Local.Fold(loaded, &last); left != nil {
			t.Errorf("left by %s: %v", last.Op, left)
		}
	}
}

// one is a stream that is open.
type one struct{}

func (one) Next(context.Context, string) (sys.Outcome, bool, error) {
	return sys.Outcome{Result: json.RawMessage(`[1]`)}, true, nil
}
func (one) Close(string) (*sys.Settlement, bool) {
	return &sys.Settlement{Call: 3, Used: agentkernel.Amounts{"coins": 2}}, true
}
func (one) Waiting(string) string                     { return "the next one" }
func (one) Reserve(handle string) agentkernel.Amounts { return agentkernel.Amounts{handle: 1} }

func TestNext(t *testing.T) {
	p := systest.New(t, stream.Family())
	p.Streams = one{}
	out, err := p.Outside(t.Context(), t, "stream.next", `{"handle":"1.3"}`)
	adm, refused := p.Admit(t, "stream.next", `{"handle":"1.3"}`)
	if err != nil || string(out.Result) != "[1]" || refused != nil || adm.Reserve.String() != "1 1.3" || adm.Waits() != ", the next one" {
		t.Errorf("%s %v, reserves %s %v", out.Result, err, adm.Reserve, refused)
	}
	if out, err := p.Now(t, "stream.close", `{"handle":"1.3"}`); err != nil || out.Ends == nil || out.Ends.Used.String() != "2 coins" {
		t.Errorf("%+v %v", out, err)
	}
	for _, args := range []string{`{"handle":3}`, `{"handel":"1.3"}`} {
		if _, err := p.Outside(t.Context(), t, "stream.next", args); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%s: %v", args, err)
		}
	}
}
