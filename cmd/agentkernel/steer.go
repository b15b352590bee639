package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"agentkernel"
)

// typed is a line of the terminal, and when it was there.
type typed struct {
	line string
	err  error
	at   time.Time
}

// lookFor is how long the terminal is looked at before somebody asks whether that is still wanted.
const lookFor = 200 * time.Millisecond

// steerable lets lines that answer no question reach the task: a goroutine reads the terminal, until that is closed or ctx ends.
func (h *human) steerable(ctx context.Context, tty *os.File) {
	h.typed = make(chan typed)
	fd := int(tty.Fd())
	go func() {
		defer close(h.typed)
		for ctx.Err() == nil {
			if h.lines.Buffered() == 0 && !lineWaits(fd, lookFor) {
				continue
			}
			line, err := h.lines.ReadString('\n')
			select {
			case h.typed <- typed{line, err, time.Now()}:
			case <-ctx.Done():
			}
			if err != nil && !(errors.Is(err, io.EOF) && h.there()) {
				return
			}
		}
	}()
}

// answer is the next line that was typed behind a moment, as long as it is asked for. What was typed before is for the task, and is kept.
func (h *human) answer(shown time.Time, asked func() bool) (string, error) {
	tick := time.NewTicker(lookFor)
	defer tick.Stop()
	for {
		select {
		case t, more := <-h.typed:
			switch {
			case !more:
				return "", io.EOF
			case !t.at.Before(shown):
				return t.line, t.err
			}
			h.early = append(h.early, t)
		case <-tick.C:
			if !asked() {
				return "", errUnasked
			}
		}
	}
}

// steers gives the terminal at which a person watches a task, so that what is typed is for that; nil: there is none.
func (w *watch) steers(tty io.Reader) *os.File {
	f, ok := tty.(*os.File)
	if !ok || w.look == nil || w.talks || !w.a.watched() || !w.a.inTTY || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return f
}

// steer tells a task what somebody has typed. It takes that before its next turn.
func (w *watch) steer(ctx context.Context, lines ...typed) {
	for _, t := range lines {
		text := strings.TrimSpace(t.line)
		pid := w.process()
		if text == "" || pid == 0 {
			continue
		}
		payload, err := json.Marshal(text)
		if err == nil {
			err = w.k.Signal(ctx, pid, agentkernel.SignalUser, agentkernel.SignalOptions{Payload: payload})
		}
		if err != nil && ctx.Err() == nil {
			w.a.con.Say("the task could not be told: %v", err)
		}
	}
}
