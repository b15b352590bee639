package hosting

import (
	"testing"

	"agentkernel"
)

// A program that goes on has no answer to some calls of a lane, and had one to others between them, in whatever order they came.
// With relaxed durability the journal may have lost all of them.
func TestLanesWithGaps(t *testing.T) {
	first := agentkernel.Entry{Seq: 1, Kind: agentkernel.EntryCall, Call: 1, Stream: agentkernel.Place{N: 1}.String(), Done: true}
	for _, test := range []struct {
		gaps    bool
		send    []int64
		refused int64 // 0: none
	}{
		{gaps: true, send: []int64{1, 3, 5, 6}},
		{gaps: true, send: []int64{4, 7}},
		{gaps: true, send: []int64{4, 4}, refused: 4},
		{gaps: false, send: []int64{1, 2, 3}},
		{gaps: false, send: []int64{3}, refused: 3},
	} {
		l, _ := newLanes([]agentkernel.Entry{first}, test.gaps)
		var refused int64
		for _, n := range test.send {
			if _, _, err := l.take(agentkernel.Place{N: n}); err != nil {
				refused = n
			}
		}
		if refused != test.refused {
			t.Errorf("gaps %t: of the calls %v number %d is refused, not %d", test.gaps, test.send, refused, test.refused)
		}
	}
}
