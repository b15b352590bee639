package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/trace"
)

const askWidth = 400

// askLoop puts the questions of the process to the human, one after another. It ends with ctx, or with the
// first read that fails.
func (w *watch) askLoop(ctx context.Context) {
	tty, err := w.a.askTTY()
	if err != nil {
		tty = nil
	} else {
		defer tty.Close()
	}
	var lines *bufio.Reader
	if tty != nil {
		lines = bufio.NewReader(tty)
	}
	always := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-w.asks:
			answer := agentkernel.AnswerNo
			switch {
			case always[q.Call]:
				answer = agentkernel.AnswerAlways
			case lines != nil:
				answer = w.question(ctx, lines, q)
			}
			if answer == agentkernel.AnswerAlways {
				always[q.Call] = true
			}
			w.answer(ctx, q, answer)
		}
	}
}

func (w *watch) question(ctx context.Context, lines *bufio.Reader, q agentkernel.Ask) agentkernel.Answer {
	for {
		done := w.a.con.Prompt(fmt.Sprintf("%s changes things (%s). Allow? [y]es once, [a]lways for this run, [N]o ",
			trace.AskText(q, askWidth), q.Effect))
		line, err := lines.ReadString('\n')
		done()
		if err != nil || ctx.Err() != nil {
			return agentkernel.AnswerNo
		}
		if answer, ok := parseAnswer(line); ok {
			return answer
		}
		w.a.con.Say("please answer y, a or n")
	}
}

func (w *watch) answer(ctx context.Context, q agentkernel.Ask, answer agentkernel.Answer) {
	err := w.k.Answer(ctx, w.process(), q.ID, answer)
	if err != nil && ctx.Err() == nil && agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		w.a.con.Say("the answer could not be given: %v", err)
	}
}

// parseAnswer reads what a human typed; an empty line is no.
func parseAnswer(line string) (agentkernel.Answer, bool) {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return agentkernel.AnswerYes, true
	case "a", "always":
		return agentkernel.AnswerAlways, true
	case "", "n", "no":
		return agentkernel.AnswerNo, true
	}
	return "", false
}
