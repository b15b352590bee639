package hosting

import (
	"agentkernel"
	"agentkernel/internal/clip"
)

// known is a call that the journal has.
type known struct {
	call   int64 // its number
	seq    int64 // the entry of the call
	answer int64 // the entry of its result; 0: it has none
}

// lanes finds the calls of a hosted program in its journal by their places, however its lanes ran, in one attachment: a program
// that begins again makes the same calls of a lane in the same order, and those of different lanes in any.
type lanes struct {
	known map[agentkernel.Place]known
	lanes map[string]*lane
	gaps  bool
}

type lane struct {
	highest int64 // number of the last call that is known, or was issued
	last    int64 // issued in this attachment; 0: none yet
}

// newLanes reads a journal. calls is the highest number of a call.
func newLanes(entries []agentkernel.Entry, gaps bool) (l *lanes, calls int64) {
	l = &lanes{known: map[agentkernel.Place]known{}, lanes: map[string]*lane{}, gaps: gaps}
	open := map[int64]agentkernel.Place{} // by call
	for i := range entries {
		e := &entries[i]
		switch e.Kind {
		case agentkernel.EntryCall:
			calls = max(calls, e.Call)
			place, ok := agentkernel.ParsePlace(e.Stream)
			if !ok { // of a kernel before there were lanes
				place = agentkernel.Place{N: e.Call}
			}
			k := known{call: e.Call, seq: e.Seq}
			if e.Done {
				k.answer = e.Seq
			} else {
				open[e.Call] = place
			}
			l.known[place] = k
			at := l.lane(place.Lane)
			at.highest = max(at.highest, place.N)
		case agentkernel.EntryResult:
			if place, ok := open[e.Call]; ok {
				k := l.known[place]
				k.answer = e.Seq
				l.known[place] = k
			}
		}
	}
	return l, calls
}

func (l *lanes) lane(name string) *lane {
	at := l.lanes[name]
	if at == nil {
		at = &lane{}
		l.lanes[name] = at
	}
	return at
}

// take takes the next call of a lane: one that the journal has, or a new one (false). The error says that it cannot be the next.
func (l *lanes) take(p agentkernel.Place) (known, bool, error) {
	if err := p.Validate(); err != nil {
		return known{}, false, err
	}
	var at lane
	if l.lanes[p.Lane] != nil {
		at = *l.lanes[p.Lane]
	}
	switch {
	case p.N <= at.last:
		return known{}, false, agentkernel.Errorf(agentkernel.CodeInvalid, "host", "call %d of lane %q came behind call %d", p.N, clip.Short(p.Lane), at.last).
			WithHint("the calls of a lane are numbered in the order in which they are sent, and each is sent once in an attachment")
	case p.N > at.highest+1 && !l.gaps:
		return known{}, false, agentkernel.Errorf(agentkernel.CodeInvalid, "host", "call %d of lane %q is not the next, which is call %d",
			p.N, clip.Short(p.Lane), at.highest+1).WithHint("the numbers of a lane rise by 1; a program that begins again begins with 1")
	}
	*l.lane(p.Lane) = lane{highest: max(at.highest, p.N), last: p.N}
	k, ok := l.known[p]
	return k, ok, nil
}

// answered is the entry that has the result of a call; 0: none has.
func answered(entries []agentkernel.Entry, call int64) int64 {
	for i := range entries {
		if e := &entries[i]; e.Call == call && (e.Kind == agentkernel.EntryResult || e.Kind == agentkernel.EntryCall && e.Done) {
			return e.Seq
		}
	}
	return 0
}
