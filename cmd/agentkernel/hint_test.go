package main

import (
	"slices"
	"testing"

	"agentkernel"
)

// TestHintsKnowEachCommand: a hint that names a command is told otherwise to who has no command line, whichever it is.
func TestHintsKnowEachCommand(t *testing.T) {
	parser, err := newParser(&app{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range parser.Model.Children {
		names = append(names, c.Name)
		if hint := "agentkernel " + c.Name + " 1"; !agentkernel.ForOperator(hint) {
			t.Errorf("%q is no hint for whoever runs agentkernel", hint)
		}
	}
	for _, name := range agentkernel.Commands {
		if !slices.Contains(names, name) {
			t.Errorf("there is no command %s", name)
		}
	}
}
