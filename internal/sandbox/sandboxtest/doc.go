// Package sandboxtest is the one suite that every backend passes, through the Backend interface and with the real engine
// behind it: output, errors, limits, cancelling, pausing, files, system calls, parallel calls, values, replay, images, and
// that nothing is left. Python has cases of its own; what holds for programs of any language is one table (rows), which
// each backend passes in every language that it says it speaks. A backend that cannot do a thing states so, and the suite
// checks that it says so to those who ask for it.
// It must know no backend.
package sandboxtest

import (
	"slices"
	"testing"

	"agentkernel"
)

// Feature is something that not every backend has.
type Feature string

// The features. A backend without images or sessions says so in its BackendInfo; for the others a program that needs one is refused
// by Check, with CodeUnsupported, or fails where its case says so.
const (
	Images     Feature = "images"
	Sessions   Feature = "sessions" // programs that are handed their source cell by cell
	Generators Feature = "generators"
	Subclasses Feature = "subclasses" // classes that inherit, exceptions of the program's own among them
	Match      Feature = "match"      // the statement
	Threads    Feature = "threads"
	Files      Feature = "files"      // a file system of the program's own
	Programs   Feature = "programs"   // child processes
	Folders    Feature = "folders"    // of the host, and a standard input: BackendInfo.Files
	Frozen     Feature = "frozen"     // a program that is paused while it computes is kept as it stands; else it begins again
	OwnErrors  Feature = "own errors" // ToolError and the others are classes, not other names of their bases
)

// Suite is a backend with what it is without.
type Suite struct {
	// New makes the backend. It is closed by the suite.
	New func(t testing.TB) agentkernel.Backend
	// Lacks are the features that the backend has not.
	Lacks []Feature
}

func (s Suite) has(features []Feature) (missing Feature, ok bool) {
	for _, f := range features {
		if slices.Contains(s.Lacks, f) {
			return f, false
		}
	}
	return "", true
}

// Exercise runs the suite.
func (s Suite) Exercise(t *testing.T) {
	b := s.New(t)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("Info", func(t *testing.T) { s.info(t, b) })
	t.Run("Check", func(t *testing.T) { s.check(t, b) })
	s.programs(t, b)
	t.Run("Languages", func(t *testing.T) { s.languages(t, b) })
	t.Run("Values", func(t *testing.T) { values(t, b) })
	t.Run("Replay", func(t *testing.T) { s.replay(t, b) })
	t.Run("Images", func(t *testing.T) { s.images(t, b) })
	t.Run("Cancel", func(t *testing.T) { cancelled(t, b) })
	t.Run("Pause", func(t *testing.T) { s.paused(t, b) })
	t.Run("Stop", func(t *testing.T) { stopped(t, b) })
	t.Run("Order", func(t *testing.T) { order(t, b) })
	t.Run("Inline", func(t *testing.T) { s.inline(t, b) })
	t.Run("Sessions", func(t *testing.T) { s.sessions(t, b) })
}

// programs runs the cases.
func (s Suite) programs(t *testing.T, b agentkernel.Backend) {
	for _, group := range []struct {
		name  string
		cases []Case
	}{{"Output", outputCases}, {"Errors", errorCases}, {"Language", languageCases}, {"Syscalls", syscallCases},
		{"Tools", toolCases}, {"Parallel", parallelCases}, {"Limits", limitCases}, {"Exit", exitCases}} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.cases {
				t.Run(c.Name, func(t *testing.T) { s.one(t, b, c) })
			}
		})
	}
}
