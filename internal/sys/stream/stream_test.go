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
	const next, first = "stream.next", `{"handle":"7.3"}`
	var data any
	for i, c := range []struct {
		step sys.Step
		open bool // 7.3
	}{
		{sys.Step{Op: opens.Name, Call: 3}, false},
		{answered(opens.Name, `{}`, "", agentkernel.CodeUnavailable), false},
		{answered(opens.Name, `{}`, `"7.3"`, ""), true},
		{sys.Step{Op: next, Args: json.RawMessage(first)}, true},
		{answered(next, first, `[1]`, ""), true},
		{answered(next, first, "", agentkernel.CodeInterrupted), true},
		{answered(next, first, "", agentkernel.CodeTimeout), true},
		{answered(next, `{"handle":"7.9"}`, `[]`, ""), true},
		{answered(next, first, `[]`, ""), false},
		{answered(opens.Name, `{}`, `"7.3"`, ""), true},
		{answered(next, first, "", agentkernel.CodeSessionLost), false},
		{answered(opens.Name, `{}`, `"7.3"`, ""), true},
		{answered("stream.close", `{"handle":3}`, "", agentkernel.CodeInvalid), true},
		{answered("stream.close", first, `true`, ""), false},
		{answered(opens.Name, `{}`, `"7.3"`, ""), true},
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
		_, err := p.Outside(t.Context(), t, next, first)
		want := agentkernel.CodeNotFound
		if c.open {
			want = agentkernel.CodeSessionLost
		}
		out, closed := p.Now(t, "stream.close", first)
		if agentkernel.CodeOf(err) != want || closed != nil || string(out.Result) != fmt.Sprint(c.open) {
			t.Errorf("step %d: %v, want %s; close says %s %v", i, err, want, out.Result, closed)
		}
	}
	if data != nil {
		t.Errorf("left: %v", data)
	}
}

// one is a stream that is open.
type one struct{}

func (one) Next(context.Context, string) (sys.Outcome, bool, error) {
	return sys.Outcome{Result: json.RawMessage(`[1]`)}, true, nil
}
func (one) Close(string) bool                         { return true }
func (one) Reserve(handle string) agentkernel.Amounts { return agentkernel.Amounts{handle: 1} }

func TestNext(t *testing.T) {
	p := systest.New(t, stream.Family())
	p.Streams = one{}
	out, err := p.Outside(t.Context(), t, "stream.next", `{"handle":"7.3"}`)
	adm, refused := p.Admit(t, "stream.next", `{"handle":"7.3"}`)
	if err != nil || string(out.Result) != "[1]" || refused != nil || adm.Reserve.String() != "1 7.3" {
		t.Errorf("%s %v, reserves %s %v", out.Result, err, adm.Reserve, refused)
	}
	for _, args := range []string{`{"handle":3}`, `{"handel":"7.3"}`} {
		if _, err := p.Outside(t.Context(), t, "stream.next", args); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%s: %v", args, err)
		}
	}
}
