package why

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// Split is where the time between creation and end (or now) went. The parts add up to Total. Where several calls
// were under way, a moment counts for the one that the program stood at, and if it stood at none, for the one that
// took longest to answer: the others did not hold it up.
type Split struct {
	Total   time.Duration `json:"total_ns"`
	Running time.Duration `json:"running_ns"` // inside the sandbox
	Queued  time.Duration `json:"queued_ns"`  // could have run and did not: for a slot, a sandbox or the disk
	Asleep  time.Duration `json:"asleep_ns"`
	Paused  time.Duration `json:"paused_ns"`
	Stopped time.Duration `json:"stopped_ns"` // no kernel carried it on, at most: its last sign of life counts
	Waiting []Wait        `json:"waiting"`    // the longest first
	// Exact is false where the row is not current (a process whose kernel is gone): Running then holds what was
	// queued, too.
	Exact bool `json:"exact"`
}

// Wait is what was waited for.
type Wait struct {
	For    string        `json:"for"`              // "github.create_issue", "proc.wait"; "permission": a human's yes or no
	Server string        `json:"server,omitempty"` // tool calls
	Calls  int           `json:"calls"`
	Time   time.Duration `json:"ns"`
}

// interval is a stretch of time; call is the index of the call that it was spent on.
type interval struct {
	from, to time.Time
	call     int
}

// split divides the time of a process.
func split(in Input, list []history.Call) Split {
	p := &in.Process
	end := in.Now
	if !p.Ended.IsZero() {
		end = p.Ended
	}
	if steady := steadied(in.Entries, p.Created, end); steady != nil {
		in.Entries, list = steady, history.Calls(steady)
	}
	byStart := func(a, b history.Call) int { return a.Start.Compare(b.Start) }
	if !slices.IsSortedFunc(list, byStart) {
		list = slices.Clone(list)
		slices.SortStableFunc(list, byStart)
	}
	s := Split{Total: max(end.Sub(p.Created), 0), Waiting: []Wait{}, Exact: p.State != agentkernel.StateUnfinished}
	paused, stopped := pauses(in, end)
	s.Paused, s.Stopped = length(without(paused, stopped)), length(stopped)
	blocked := without(blocking(list, end), merge(paused, stopped))
	rest := max(s.Total-s.Paused-s.Stopped-length(blocked), 0)
	s.divide(in, list, blocked, rest, end)
	if n, d := asked(in, list, end); d > 0 && s.Queued > 0 {
		d = min(s.Queued, d)
		s.Queued -= d
		s.Waiting = append(s.Waiting, Wait{For: "permission", Calls: n, Time: d})
	}
	slices.SortFunc(s.Waiting, func(a, b Wait) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.For, b.For)) })
	return s
}

// asked is how long, at most, a human was asked about calls that have no intent in the journal: those that wait for the answer, now
// or since a pause, and those to which it was no.
func asked(in Input, list []history.Call, end time.Time) (n int, d time.Duration) {
	spec, _ := history.Created(in.Entries)
	p, last := &in.Process, len(in.Entries)-1
	for i := range in.Entries {
		e := &in.Entries[i]
		refused := spec.Interactive && e.Kind == agentkernel.EntryCall && e.Op == "tool.call" && e.Done && e.Err != nil && e.Err.Code == agentkernel.CodeDenied
		if !refused {
			continue
		}
		until := end
		if i < last {
			until = in.Entries[i+1].At
		}
		n++
		d += max(until.Sub(e.At), 0)
	}
	if p.State != agentkernel.StateWaiting || len(p.WaitsFor) == 0 || !strings.HasPrefix(p.WaitsFor[0], agentkernel.YourAnswer) || last < 0 || anyOpen(list) {
		return n, d
	}
	if p.Paused { // that counts for itself
		end = in.Entries[last].At
		last = max(last-1, 0)
	}
	return n + len(p.WaitsFor), d + max(end.Sub(in.Entries[last].At), 0)
}

// steadied gives the entries with times between from and to that never go back, where they do: a clock that was set,
// or a journal from somebody else's file. nil: they do not. A call may stand behind entries that are younger: its
// time is that at which it was issued, also if somebody had to allow it first.
func steadied(entries []agentkernel.Entry, from, to time.Time) []agentkernel.Entry {
	var out []agentkernel.Entry
	last := from
	for i := range entries {
		e := &entries[i]
		least := last
		if e.Kind == agentkernel.EntryCall {
			least = from
		}
		at := e.At
		if at.After(to) {
			at = to
		}
		if at.Before(least) {
			at = least
		}
		if !at.Equal(e.At) && out == nil {
			out = slices.Clone(entries)
		}
		if out != nil {
			out[i].At = at
		}
		if at.After(last) {
			last = at
		}
	}
	return out
}

// divide gives the rest to running and queued, and names what was waited for. A program may run while its async
// calls are under way: that time counts as running.
func (s *Split) divide(in Input, list []history.Call, blocked []interval, rest time.Duration, end time.Time) {
	p := &in.Process
	s.Running = p.Usage.Running
	computes := p.State == agentkernel.StateRunning && !slices.Contains(p.WaitsFor, agentkernel.ItsServers)
	if computes && len(in.Entries) > 0 { // the row knows the turns before this one
		s.Running += max(end.Sub(in.Entries[len(in.Entries)-1].At), 0)
	}
	if !s.Exact {
		s.Running = rest
	}
	over := max(s.Running-rest, 0)
	s.Queued = max(rest-s.Running, 0)
	var async time.Duration
	for _, b := range blocked {
		if list[b.call].Async {
			async += b.to.Sub(b.from)
		}
	}
	over = min(over, async) // a clock that disagrees with itself must not make a part negative
	s.Running = min(s.Running, rest+over)
	byName := map[string]*Wait{}
	for _, b := range blocked {
		c, d := &list[b.call], b.to.Sub(b.from)
		if c.Async && async > 0 {
			d -= time.Duration(float64(over) * float64(d) / float64(async))
		}
		if c.Op == "time.sleep" {
			s.Asleep += d
			continue
		}
		w := byName[c.Name()]
		if w == nil {
			w = &Wait{For: c.Name(), Server: c.Server}
			byName[c.Name()] = w
		}
		w.Time += d
	}
	for i := range list {
		if w := byName[list[i].Name()]; w != nil && !list[i].Instant() {
			w.Calls++
		}
	}
	for _, w := range byName {
		s.Waiting = append(s.Waiting, *w)
	}
}

func anyOpen(list []history.Call) bool {
	return slices.ContainsFunc(list, func(c history.Call) bool { return c.Open() })
}

// blocking are the times at which calls were under way. A call without async holds the program up for certain.
func blocking(list []history.Call, end time.Time) []interval {
	held := waits(list, end, false)
	all := slices.Concat(held, without(waits(list, end, true), held))
	slices.SortFunc(all, func(a, b interval) int { return a.from.Compare(b.from) })
	return all
}

// waits are the times at which a call of one sort was under way, each for the one of them that ended last.
func waits(list []history.Call, end time.Time, async bool) []interval {
	var out []interval
	add := func(from, to time.Time, call int) {
		if to.After(from) {
			out = append(out, interval{from, to, call})
		}
	}
	cur, pos, until := -1, time.Time{}, time.Time{}
	for i := range list {
		c := &list[i]
		if c.Instant() || c.Async != async {
			continue
		}
		ends := c.Start.Add(c.Took(end))
		switch {
		case cur < 0 || !c.Start.Before(until):
			if cur >= 0 {
				add(pos, until, cur)
			}
		case ends.After(until):
			add(pos, c.Start, cur)
		default:
			continue
		}
		cur, pos, until = i, c.Start, ends
	}
	if cur >= 0 {
		add(pos, until, cur)
	}
	return out
}

// pauses are the times at which the process was paused, and those at which no kernel carried it on.
func pauses(in Input, end time.Time) (paused, stopped []interval) {
	var p history.Pauses
	var last time.Time
	for i := range in.Entries {
		e, before := &in.Entries[i], p.Paused
		p.Add(e)
		switch {
		case before && !p.Paused:
			paused = append(paused, interval{from: p.At, to: e.At})
		case e.Kind == agentkernel.EntryRecover:
			stopped = append(stopped, interval{from: history.DownSince(e, last), to: e.At})
		}
		last = e.At
	}
	if p.Paused && end.After(p.At) {
		paused = append(paused, interval{from: p.At, to: end})
	}
	if in.Process.State == agentkernel.StateUnfinished && !last.IsZero() && end.After(last) {
		stopped = append(stopped, interval{from: history.Down(in.Before, last, end), to: end})
	}
	return paused, stopped
}

func length(list []interval) time.Duration {
	var d time.Duration
	for _, i := range list {
		d += i.to.Sub(i.from)
	}
	return d
}

// merge joins two ordered lists of intervals into one whose parts do not overlap.
func merge(a, b []interval) []interval {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y interval) int { return x.from.Compare(y.from) })
	var out []interval
	for _, i := range all {
		if n := len(out); n > 0 && !i.from.After(out[n-1].to) {
			if i.to.After(out[n-1].to) {
				out[n-1].to = i.to
			}
			continue
		}
		out = append(out, i)
	}
	return out
}

// without cuts the holes out of the intervals; both lists are ordered and do not overlap in themselves.
func without(list, holes []interval) []interval {
	var out []interval
	h := 0
	for _, i := range list {
		for h < len(holes) && !holes[h].to.After(i.from) {
			h++
		}
		for k := h; k < len(holes) && holes[k].from.Before(i.to); k++ {
			if holes[k].from.After(i.from) {
				out = append(out, interval{i.from, holes[k].from, i.call})
			}
			i.from = holes[k].to
		}
		if i.to.After(i.from) {
			out = append(out, i)
		}
	}
	return out
}
