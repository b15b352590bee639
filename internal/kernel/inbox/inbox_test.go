package inbox

import (
	"testing"

	"agentkernel"
)

// One looks at a time; whoever comes meanwhile makes that one look once more.
func TestLooks(t *testing.T) {
	var l Looks
	if l.Looking(1) || !l.Begin(1) || !l.Looking(1) || l.Looking(2) || !l.Begin(2) {
		t.Fatal("nobody looked")
	}
	if l.Again(1) || l.Begin(1) || l.Begin(1) || !l.Again(1) || l.Again(1) || l.Again(2) {
		t.Error("two came meanwhile: it is to look once more")
	}
	l.End(1)
	if l.Looking(1) || l.Again(1) || !l.Begin(1) {
		t.Error("it has ended")
	}
}

func TestRoom(t *testing.T) {
	full := make([]agentkernel.Post, agentkernel.MaxSignalsWaiting)
	for i := range full {
		full[i].Kind = agentkernel.PostSignal
	}
	if err := Room(1, full); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
		t.Error(err)
	}
	full[0].Kind = "other"
	if err := Room(1, full); err != nil {
		t.Error(err)
	}
}
