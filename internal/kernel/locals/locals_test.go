package locals_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/locals"
	"agentkernel/internal/sys"
)

// diary is a family that keeps a line for each step it is told of; it forgets them with the word "forget".
func diary(name string, wants func(*sys.Op) bool, dropped *[]string) sys.Family {
	return sys.Family{Name: name, Ops: []sys.Op{{Syscall: agentkernel.Syscall{Name: name + ".write"}}, {Syscall: agentkernel.Syscall{Name: name + ".forget"}}},
		Local: &sys.Local{
			Fold: func(data any, s *sys.Step) any {
				lines, _ := data.([]string)
				if s.Op == name+".forget" && s.Answered {
					return nil
				}
				return append(slices.Clip(lines), fmt.Sprint(s.PID, s.Call, s.Op, string(s.Args), s.At.Unix(), s.Answered, string(s.Result), s.Err != nil, s.Origin, s.Aborted))
			},
			Save: func(data any) json.RawMessage { raw, _ := json.Marshal(data); return raw },
			Load: func(raw json.RawMessage) (any, error) {
				var lines []string
				err := json.Unmarshal(raw, &lines)
				return lines, err
			},
			Drop: func(pid agentkernel.PID, data any) {
				*dropped = append(*dropped, fmt.Sprint(name, pid, len(data.([]string))))
			},
			Wants: wants,
		}}
}

func set(dropped *[]string) *locals.Set {
	return locals.New([]sys.Family{
		diary("a", nil, dropped),
		{Name: "quiet", Ops: []sys.Op{{Syscall: agentkernel.Syscall{Name: "quiet.call"}}}},
		diary("b", func(op *sys.Op) bool { return op.Name == "quiet.call" }, dropped),
	})
}

func told(l history.Locals) string { return fmt.Sprintf("a: %q\nb: %q", l.Data("a"), l.Data("b")) }

// TestEveryBaseGivesTheSame: what families keep is the same from each base as from the beginning, and as in a process that lives.
func TestEveryBaseGivesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := set(new([]string))
		living := s.Empty()
		type image struct {
			base []byte
			seq  int64
		}
		var entries []agentkernel.Entry
		var images []image
		open, calls := map[int64]int64{}, int64(0) // to the entry of the intent
		for range rapid.IntRange(1, 30).Draw(t, "entries") {
			e := agentkernel.Entry{PID: 7, Seq: int64(len(entries)) + 1, Data: json.RawMessage(`1`)}
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what < 5:
				calls++
				e.Kind, e.Call, e.Args = agentkernel.EntryCall, calls, json.RawMessage(fmt.Sprint(calls))
				e.Op = rapid.SampledFrom([]string{"a.write", "a.write", "a.forget", "b.write", "quiet.call", "unknown.call"}).Draw(t, "op")
				if e.Done = rapid.Bool().Draw(t, "done"); !e.Done {
					open[e.Call] = e.Seq
				}
				if rapid.Bool().Draw(t, "origin") {
					e.Origin = &agentkernel.OriginCall{PID: 1, Call: 1}
				}
			case what < 8 && len(open) > 0:
				e.Kind, e.Call = agentkernel.EntryResult, rapid.SampledFrom(slices.Sorted(maps.Keys(open))).Draw(t, "call")
				delete(open, e.Call)
			case what == 8:
				e.Kind, e.Call = agentkernel.EntryAborted, 1
				images = nil // an abort takes the image along
			default:
				e.Kind = agentkernel.EntryOutput
			}
			entries = append(entries, e)
			living = living.Add(&e)
			whole := history.FoldInto(s.Empty(), history.Base{}, entries).Locals
			if told(whole) != told(living) {
				t.Fatalf("the whole journal says\n%s\nthe living process\n%s", told(whole), told(living))
			}
			for _, i := range images {
				base, err := history.ParseBase(i.base, i.seq)
				if err != nil {
					t.Fatal(err)
				}
				from, err := s.At(7, &base)
				if err != nil {
					t.Fatal(err)
				}
				if from = history.FoldInto(from, base, entries).Locals; told(from) != told(whole) {
					t.Fatalf("from %d:\n%s\nfrom the beginning:\n%s", i.seq, told(from), told(whole))
				}
			}
			data, err := json.Marshal(history.Base{Version: history.BaseVersion, Refs: slices.Sorted(maps.Values(open)), Locals: living.Save()})
			if err != nil {
				t.Fatal(err)
			}
			images = append(images, image{data, e.Seq})
		}
	})
}

func TestDrop(t *testing.T) {
	var dropped []string
	s := set(&dropped)
	l := s.Empty()
	l.Drop()
	l = l.Add(&agentkernel.Entry{PID: 7, Kind: agentkernel.EntryCall, Call: 1, Op: "b.write", Done: true})
	l = l.Add(&agentkernel.Entry{PID: 7, Kind: agentkernel.EntryCall, Call: 2, Op: "quiet.call", Done: true})
	l.Drop()
	l.Drop()
	if !slices.Equal(dropped, []string{"b7 2"}) || l.Data("b") != nil {
		t.Errorf("dropped %q, left %v", dropped, l.Data("b"))
	}
}

// TestNothingIsKept: processes of which nothing is kept share one, and nobody adds to that.
func TestNothingIsKept(t *testing.T) {
	s := set(new([]string))
	quiet := &agentkernel.Entry{Kind: agentkernel.EntryCall, Call: 1, Op: "loud.call"}
	if n := testing.AllocsPerRun(10, func() { s.Empty().Add(quiet) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	s.Empty().Add(&agentkernel.Entry{PID: 7, Kind: agentkernel.EntryCall, Call: 1, Op: "a.write", Done: true})
	s.Empty().Open(&agentkernel.Entry{PID: 7, Kind: agentkernel.EntryCall, Call: 1, Op: "a.write"})
	s.Empty().Add(&agentkernel.Entry{PID: 8, Kind: agentkernel.EntryResult, Call: 1})
	if l := s.Empty(); l.Save() != nil || l.Data("a") != nil {
		t.Errorf("%v", l.Save())
	}
}

// TestBasesThatCannotBeRead: the fold begins at the start of the journal then, and not at half of what was kept.
func TestBasesThatCannotBeRead(t *testing.T) {
	s := set(new([]string))
	base := history.Base{Version: history.BaseVersion, Seq: 3, Locals: map[string]json.RawMessage{"a": json.RawMessage(`{}`)}}
	if _, err := s.At(7, &base); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
		t.Errorf("%v", err)
	}
	base.Version = 0
	if l, err := s.At(7, &base); err != nil || l.Data("a") != nil {
		t.Errorf("of a base with which the whole journal is read: %v %v", l.Data("a"), err)
	}
}
