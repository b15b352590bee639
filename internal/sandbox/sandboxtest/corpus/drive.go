package corpus

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"agentkernel"
)

// Answer is what a call is answered, decided by its operation and arguments (canonical JSON) alone.
func Answer(op, args string) (json.RawMessage, *agentkernel.Error) {
	h := fnv.New64a()
	h.Write([]byte(op))
	h.Write([]byte(args))
	n := h.Sum64()
	switch {
	case op == "state.get":
		return json.RawMessage([]string{"null", "3", `"kept"`, "[1,2]"}[n%4]), nil
	case op != "tool.call":
		return json.RawMessage("null"), nil
	case strings.Contains(args, `"may_fail"`) && n%3 > 0:
		return nil, agentkernel.Errorf(agentkernel.CodeTool, "tool.call lab.may_fail", "the lab is closed (%d)", n%100)
	case strings.Contains(args, `"mix"`):
		return json.RawMessage(fmt.Sprintf(`{"n":%d,"parts":[%d,"p%d"],"ok":%t}`, n%1000, n%7, n%11, n%2 == 0)), nil
	}
	return json.RawMessage(fmt.Sprintf(`"look %d"`, n%1000)), nil
}

// Story is all that can be seen of a run from outside: calls, answers given, output, and the end, in order.
type Story []string

func (s *Story) tell(format string, args ...any) { *s = append(*s, fmt.Sprintf(format, args...)) }

func (s Story) String() string { return strings.Join(s, "\n") }

// builtin names an exception of the kernel as the builtin that it is: Monty has no others (docs/python.md).
func builtin(message string) string {
	name, rest, _ := strings.Cut(message, ":")
	name = cmp.Or(agentkernel.GuestBase(name), name)
	if name == "KeyError" { // Monty shows the key of a KeyError that the program raised without quotes
		return name
	}
	return name + ":" + rest
}

// mostTurns ends a program that calls for ever.
const mostTurns = 20_000

// Run runs a program in a new sandbox. Answers of calls that are under way together come in an order that
// seed decides. canonical writes arguments in the form that journals compare.
func Run(ctx context.Context, b agentkernel.Backend, source string, seed uint64, canonical func(json.RawMessage) (json.RawMessage, error)) (Story, error) {
	var story Story
	var printed strings.Builder
	flush := func() {
		if printed.Len() > 0 {
			story.tell("output %q", printed.String())
			printed.Reset()
		}
	}
	box, err := b.Start(ctx, agentkernel.StartRequest{
		PID: 1, Namespace: "corpus", Limits: agentkernel.DefaultLimits(), Tools: Tools(),
		Program: agentkernel.Program{Name: "program.py", Language: agentkernel.Python, Source: source},
		Output:  func(stream, text string) { printed.WriteString(text) },
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = box.Close() }() // the program has ended, or is given up
	r := rand.New(rand.NewPCG(seed, 1))
	var reply *agentkernel.Reply
	var flying []agentkernel.Reply
	for id := int64(1); id < mostTurns; {
		turn, err := box.Next(ctx, reply)
		flush()
		if err != nil {
			return story, err
		}
		switch turn.Kind {
		case agentkernel.TurnExit:
			story.tell("exit %d %s", turn.ExitCode, turn.Result)
			return story, nil
		case agentkernel.TurnFail:
			story.tell("fail %s", builtin(turn.Err.Message()))
			return story, nil
		case agentkernel.TurnWait:
			if len(flying) == 0 {
				return story, fmt.Errorf("the program waits for nothing")
			}
			at := r.IntN(len(flying))
			chosen := flying[at]
			flying = append(flying[:at:at], flying[at+1:]...)
			story.tell("result of call %d", chosen.ID)
			reply = &chosen
		case agentkernel.TurnCall:
			args, err := canonical(turn.Call.Args)
			if err != nil {
				return story, err
			}
			story.tell("call %d %s %s async=%t", id, turn.Call.Op, args, turn.Call.Async)
			result, failure := Answer(turn.Call.Op, string(args))
			reply = &agentkernel.Reply{ID: id, Result: result, Err: failure}
			if turn.Call.Async {
				flying = append(flying, *reply)
				reply = &agentkernel.Reply{ID: id, Pending: true}
			}
			id++
		}
	}
	return story, fmt.Errorf("no end after %d turns", mostTurns)
}
