package agentkernel_test

import (
	"encoding/json"
	"testing"

	"agentkernel"
)

// What a process is paused for is told to programs, of every note that the kernel writes.
func TestPauseCause(t *testing.T) {
	for note, want := range map[string]string{
		"":                              `{"kind":"hand"}`,
		"by hand":                       `{"kind":"hand"}`,
		"with process 3":                `{"kind":"hand"}`,
		"by hand; your answer: a.write": `{"kind":"hand"}`,
		"budget: the call costs $0.125, and the budget of process 4 is $0.20: spent $0.125":                                                                `{"kind":"budget","amount":"usd","budget":4}`,
		"budget: the call costs 1 turn, and the allowance of namespace team for the month is 1 turn: spent 1 turn; it begins anew at 2026-12-01 00:00 UTC": `{"kind":"allowance","amount":"turns","namespace":"team","until":"2026-12-01T00:00:00Z"}`,
		agentkernel.YourAnswer + "filesystem.write_file":                                                                                                   `{"kind":"answer"}`,
		agentkernel.NoProgress + "the same call 50 times":                                                                                                  `{"kind":"no_progress"}`,
		`the tools of server "host" ` + agentkernel.OfProgram + " (os process 3)":                                                                          `{"kind":"functions"}`,
		"by hand; the tools of server host " + agentkernel.OfProgram:                                                                                       `{"kind":"functions"}`,
		"the outcome of call 7 is unknown":                                                                                                                 `{"kind":"other"}`,
		"budget: the call costs 1 call, and the budget of process x is 2 calls: ...":                                                                       `{"kind":"other"}`,
	} {
		p := agentkernel.Process{State: agentkernel.StateWaiting, Paused: true, PauseNote: note}
		said, err := json.Marshal(p.WithCause().PausedFor)
		if err != nil || string(said) != want {
			t.Errorf("%q: %s, want %s (%v)", note, said, want, err)
		}
		p.Paused = false
		if c := p.WithCause().PausedFor; c != nil {
			t.Errorf("%q, of one that is not paused: %+v", note, c)
		}
		p.Paused, p.State = true, agentkernel.StateKilled
		if c := p.WithCause().PausedFor; c != nil {
			t.Errorf("%q, of one that has ended: %+v", note, c)
		}
	}
}
