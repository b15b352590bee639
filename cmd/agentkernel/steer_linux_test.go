package main

import (
	"context"
	"slices"
	"testing"

	"agentkernel"
)

// steered is a kernel that hears what a task is told.
type steered struct {
	*fakeKernel
	told chan string
}

func (k *steered) Signal(_ context.Context, _ agentkernel.PID, s agentkernel.Signal, with ...agentkernel.SignalOptions) error {
	k.told <- string(s) + " " + string(with[0].Payload)
	return nil
}

// What is typed at the terminal of a task is told to it; but for what answers a question, which is typed when that is there.
func TestWhatIsTypedSteersTheTask(t *testing.T) {
	keyboard, tty := openPTY(t)
	r := newRig(t)
	k := &steered{r.kernel, make(chan string, 4)}
	r.any, r.tty, r.inTTY, r.env = k, tty, true, []string{"AGENTKERNEL_MODELS=fast openai:gpt-5-mini"}
	answered := make(chan agentkernel.Answer, 1)
	r.kernel.answer = func(_ int64, a agentkernel.Answer) error { answered <- a; return nil }
	write := func(line string) {
		if _, err := keyboard.WriteString(line); err != nil {
			t.Error(err)
		}
	}
	var got []string
	r.kernel.run = func(_ context.Context, _ agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
		if err := fn(agentkernel.Event{Kind: agentkernel.EventOutput, PID: 12, Stream: "stderr", Text: "turn 1\n"}); err != nil {
			return agentkernel.Process{}, err
		}
		write("use \"euros\"\n")
		got = append(got, <-k.told)
		a := ask(1, "fs.write")
		if err := fn(agentkernel.Event{Kind: agentkernel.EventAsk, PID: 12, Ask: &a}); err != nil {
			return agentkernel.Process{}, err
		}
		<-r.err.sees("[N]o ")
		write("y\n")
		got = append(got, string(<-answered))
		write("\nand be quick\n")
		got = append(got, <-k.told)
		return exitedProcess, nil
	}
	code := r.run("do", "add the numbers")
	want := []string{`user "use \"euros\""`, string(agentkernel.AnswerYes), `user "and be quick"`}
	if code != 0 || !slices.Equal(got, want) {
		t.Errorf("exit code %d: %q: %s", code, got, r.err.String())
	}
}
