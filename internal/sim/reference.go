package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"agentkernel"
)

// standing is where a program stands when it runs once more with the answers that its journal has.
type standing struct {
	kind   standingKind
	call   int64    // blocked, issuing: the call
	due    []int64  // blocked, issuing: async calls without a result, also those of which the journal has no intent
	issues turn     // issuing: what it calls
	m      *machine // ended: what it has come to
	out    string   // what it has printed
	result []byte   // elsewhere: what it ends with; nil: it has not come to its end
}

type standingKind int

const (
	blocked   standingKind = iota // it waits for results that the journal does not have
	issuing                       // it is about to make a call that the journal does not have
	ended                         // by its last turn
	exited                        // by proc.exit
	elsewhere                     // it waits for its host, or the host for it
)

// reference is where the program of a process stands by its journal.
func (w *World) reference(r *agentkernel.ProcessRecord, l *ledger) (*standing, error) {
	if r.Spec.Backend == hostedBackend {
		return checkGuest(&r.Spec.Program, l)
	}
	return reference(&r.Spec.Program, l)
}

// reference runs the program of a process by itself. The error says where journal and program differ.
func reference(p *agentkernel.Program, l *ledger) (*standing, error) {
	m, err := newMachine(p)
	if err != nil {
		return nil, err
	}
	s := &standing{m: m}
	var out strings.Builder
	defer func() { s.out = out.String() }()
	results := asyncResults(l)
	var calls int64
	for {
		t, err := m.run(func(p pause) error { out.WriteString(p.output); return nil })
		if err != nil {
			return s, err
		}
		var r agentkernel.Reply
		switch t.Kind {
		case agentkernel.TurnCall:
			calls++
			c := l.calls[calls]
			if c == nil && !t.Async {
				s.kind, s.call, s.issues = issuing, calls, t
				return s, s.unheard(l, calls-1)
			}
			if c != nil && (c.op != t.Op || c.async != t.Async || !bytes.Equal(c.args, t.Args)) {
				return s, fmt.Errorf("call %d of the journal is %s %s, and the program calls %s %s", calls, c.op, c.args, t.Op, t.Args)
			}
			if t.Op == "proc.exit" {
				s.kind = exited
				return s, nil
			}
			if r = (agentkernel.Reply{ID: calls, Pending: true}); !t.Async {
				if c.resultSeq == 0 {
					s.kind, s.call = blocked, calls
					return s, s.unheard(l, calls)
				}
				r = agentkernel.Reply{ID: calls, Result: c.result, Err: c.err}
			}
		case agentkernel.TurnWait:
			next := slices.IndexFunc(results, func(id int64) bool { return slices.Contains(m.Open, id) })
			if next < 0 {
				s.kind, s.due = blocked, slices.Clone(m.Open)
				return s, s.unheard(l, calls)
			}
			id := results[next]
			results = slices.Delete(results, next, next+1)
			r = agentkernel.Reply{ID: id, Result: l.calls[id].result, Err: l.calls[id].err}
		default:
			s.kind = ended
			return s, s.unheard(l, calls)
		}
		if err := m.give(r); err != nil {
			return s, err
		}
	}
}

// unheard says that the journal has calls which the program has not made.
func (s *standing) unheard(l *ledger, made int64) error {
	if l.last > made {
		return fmt.Errorf("the journal has call %d, and the program has made %d", l.last, made)
	}
	return nil
}

// asyncResults are the async calls with a result, in the order of the journal.
func asyncResults(l *ledger) []int64 {
	var out []int64
	for id, c := range l.calls {
		if c.async && c.resultSeq != 0 {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b int64) int { return cmp.Compare(l.calls[a].resultSeq, l.calls[b].resultSeq) })
	return out
}
