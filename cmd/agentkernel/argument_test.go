package main

import "testing"

// TestEmptyPID: an empty argument is what a shell makes of a variable that is not set, and does not mean all processes.
func TestEmptyPID(t *testing.T) {
	for _, args := range [][]string{
		{"recover", ""}, {"recover", "", "--wait"}, {"budget", "show", ""}, {"diff", "12", ""}, {"ps", "--parent", ""}, {"llm", "key", "fast", "--pid", ""},
	} {
		r := newRig(t) // whose kernel panics if it is asked to recover
		if code := r.run(args...); code != 2 {
			t.Errorf("%q: exit code %d: %s%s", args, code, r.out.String(), r.err.String())
		}
		contains(t, "the error", r.err.String(), `"" is not a pid`)
	}
}
