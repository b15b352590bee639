package trees_test

import (
	"slices"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/kernel/trees"
)

func at(pid agentkernel.PID, above ...agentkernel.PID) trees.Place {
	return trees.Place{PID: pid, Above: above, Share: &room.Share{}}
}

// TestPlaces: a tree has as many members as it may, those that are about to join included, and goes with the last.
func TestPlaces(t *testing.T) {
	var ended []agentkernel.PID
	fo := trees.Forest{Ended: func(root agentkernel.PID) { ended = append(ended, root) }}
	fo.Leave(at(9)) // it never had a child
	root, child := at(1), at(2, 1)
	if fo.Of(root) != nil || fo.Trees() != 0 {
		t.Fatal("a process that never had a child has a tree")
	}
	tree := fo.Plant(root, 0, 0)
	if again := fo.Plant(root, 0, 0); again != tree || fo.Of(child) != tree {
		t.Error("a tree has two")
	}
	for child, ok := range []bool{true, true, false} {
		if tree.Reserve(3) != ok {
			t.Errorf("three may live, the root and two children: another one besides %d: %t", child, !ok)
		}
	}
	tree.Settle(2)
	if tree.Reserve(3) {
		t.Error("a child that has joined frees its place")
	}
	tree.Settle(0) // the other did not come
	if !tree.Reserve(3) {
		t.Error("a place that was given back is not free")
	}
	fo.Leave(child)
	fo.Leave(root)
	if fo.Trees() != 1 {
		t.Error("a tree goes while a child is about to join it")
	}
	if !slices.Equal(ended, []agentkernel.PID{9}) {
		t.Errorf("ended are %v", ended)
	}
	tree.Settle(5)
	fo.Leave(at(5, 1))
	if fo.Trees() != 0 {
		t.Error("an empty tree stays")
	}
	if !slices.Equal(ended, []agentkernel.PID{9, 1}) {
		t.Errorf("ended are %v", ended)
	}
}

// TestWritten: journals of a tree count together, also those of members that have ended; who is alone counts for itself.
func TestWritten(t *testing.T) {
	var fo trees.Forest
	root, child := at(1), at(2, 1)
	fo.Wrote(root, 10) // it is alone: its journal says what it has
	if got := fo.Written(root, 10); got != 10 {
		t.Errorf("alone: %d", got)
	}
	fo.Plant(root, 0, 10).Reserve(9)
	fo.Of(root).Settle(2)
	fo.Wrote(child, 5)
	fo.Leave(child)
	if got := fo.Written(root, 10); got != 15 {
		t.Errorf("with a child that has ended: %d", got)
	}
	if got := fo.Written(root, 20); got != 20 {
		t.Errorf("what the tree does not know of counts: %d", got)
	}
}

// TestRejoin: a root that was in memory alone joins with its first child that is read back, and is counted once.
func TestRejoin(t *testing.T) {
	var fo trees.Forest
	asked := 0
	above := func() int64 { asked++; return 100 }
	fo.Rejoin(at(1), 100, above)
	if fo.Trees() != 0 || asked != 0 {
		t.Fatalf("a process without ancestors: %d trees, asked %d times", fo.Trees(), asked)
	}
	fo.Rejoin(at(2, 1), 5, above)
	fo.Rejoin(at(3, 1), 7, above)
	if got := fo.Written(at(1), 0); got != 112 || asked != 1 {
		t.Errorf("%d bytes, asked %d times", got, asked)
	}
	tree := fo.Of(at(1))
	if tree.Reserve(3) {
		t.Error("the root or a child is no member")
	}
	for _, member := range []trees.Place{at(2, 1), at(3, 1), at(1)} {
		fo.Leave(member)
	}
	if fo.Trees() != 0 {
		t.Error("a member stays")
	}
}

// TestHeld: what is held for a tree fills the memory of each of its programs, and what is held for all is the sum.
func TestHeld(t *testing.T) {
	var fo trees.Forest
	root, child, other := at(1), at(2, 1), at(3)
	fo.Plant(root, 0, 0)
	fo.Note(root, 60)
	fo.Note(child, 30)
	fo.Note(other, 500)
	if fo.Held() != 590 {
		t.Errorf("held for all: %d", fo.Held())
	}
	if full := fo.Full(child, 30, 10, 100); full != "" {
		t.Errorf("90 of 100 are held, and 10 more: %s", full)
	}
	if fo.Full(child, 30, 11, 100) == "" || fo.Full(child, 41, 0, 100) == "" {
		t.Error("more than the tree may have")
	}
	if full := fo.Full(other, 0, 100, 100); full != "" {
		t.Errorf("who is alone pays for others: %s", full)
	}
	fo.Unload(other)
	fo.Leave(child)
	fo.Leave(root)
	if fo.Held() != 0 {
		t.Errorf("%d bytes are held for nobody", fo.Held())
	}
}
