package trace

import (
	"encoding/json"
	"fmt"
	"strings"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
)

// folds counts what is not shown step by step: a task that is watched reads the words of its model piece by piece, and looks after each turn
// whether somebody has said something.
type folds struct{ pieces, polls int }

// fold joins the pieces of each stream that was read, with what was printed of them, into one step, and leaves out the looks for a signal that
// did not come.
func (f *folds) fold(list []*step) []*step {
	var out, run, rest []*step // rest: what came between the pieces of a run
	flush := func() {
		if len(run) > 1 {
			first, last := run[0], run[len(run)-1]
			f.pieces += len(run)
			out = append(out, &step{kind: stepFold, at: first.at, end: last.end, call: first.call, mark: fmt.Sprintf("%s ×%d", first.call.Op, len(run))})
		} else {
			out = append(out, run...)
		}
		out = append(out, rest...)
		run, rest = nil, nil
	}
	for _, s := range list {
		switch {
		case isPoll(s):
			f.polls++
		case isPiece(s):
			run = append(run, s)
		case len(run) > 0 && s.kind == stepOutput:
			if n := len(rest); n > 0 && rest[n-1].kind == stepOutput && rest[n-1].stream == s.stream {
				joined := &step{kind: stepOutput, at: rest[n-1].at, stream: s.stream}
				joined.text.WriteString(rest[n-1].text.String() + s.text.String())
				rest[n-1] = joined
			} else {
				rest = append(rest, s)
			}
		case len(run) > 0 && s.kind == stepMark && !s.bad:
			rest = append(rest, s)
		default:
			flush()
			out = append(out, s)
		}
	}
	flush()
	return out
}

// text says what was folded; "": nothing.
func (f *folds) text(pid agentkernel.PID) string {
	var parts []string
	if f.pieces > 0 {
		parts = append(parts, "stream.next "+times(f.pieces))
	}
	if f.polls > 0 {
		parts = append(parts, "signals.wait "+times(f.polls)+" without a signal")
	}
	if len(parts) == 0 {
		return ""
	}
	return "folded: " + strings.Join(parts, ", ") + ": agentkernel trace --full " + pid.String()
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// isPiece says that a step reads a piece of a stream, and got it.
func isPiece(s *step) bool {
	return s.kind == stepCall && s.call.Op == "stream.next" && s.err == nil && !s.end.IsZero() && !s.call.Async
}

// isPoll says that a step looks for a signal, without waiting, and there was none.
func isPoll(s *step) bool {
	var args struct{ Timeout *float64 }
	return s.kind == stepCall && s.call.Op == "signals.wait" && s.err != nil && s.err.Code == agentkernel.CodeTimeout &&
		json.Unmarshal(s.call.Args, &args) == nil && args.Timeout != nil && *args.Timeout == 0
}

// foldLine is the line of a folded run.
func (r *renderer) foldLine(s *step) string {
	return oneLine(s.mark) + "  " + r.style("2", console.Clean(join(string(s.call.Effect), span(s.at, s.end))))
}
