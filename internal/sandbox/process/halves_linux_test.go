package process

import (
	"encoding/json"
	"strings"
	"testing"

	"agentkernel"
)

// Half of a surrogate pair is text in Python and nowhere else: a program has it as in Python, what leaves the program is refused or has
// the escape that Python prints.
func TestHalvesOfSurrogatePairs(t *testing.T) {
	b := newBackend(t)
	half := func(agentkernel.Call) agentkernel.Reply {
		return agentkernel.Reply{Result: json.RawMessage(`{"a\ud800": "b\udfff"}`)}
	}
	r := newRun(t, b, "from kernel import state\nprint(ascii(state.get('x')), len('\\ud83d\\ude00'))")
	r.answer = half
	if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit || r.out.String() != "{'a\\ud800': 'b\\udfff'} 2\n" {
		t.Errorf("%+v %v %q", turn, err, r.out.String())
	}
	r = newRun(t, b, "from kernel import state\nstate.set('x', 'a\\ud800')")
	r.answer = half
	if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnFail || !strings.Contains(turn.Err.Message(), "half of a surrogate pair") {
		t.Errorf("%+v %v", turn, err)
	}
	r = newRun(t, b, "raise ValueError('a\\ud800b')")
	if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnFail || turn.Err.Message() != `ValueError: a\ud800b` {
		t.Errorf("%+v %v", turn, err)
	}
	r = newRun(t, b, "import sys\nsys.exit('a\\ud800b')")
	r.answer = func(agentkernel.Call) agentkernel.Reply { return agentkernel.Reply{} }
	if turn, err := r.finish(); len(r.calls) != 1 || r.calls[0] != `proc.exit {"code":"a\\ud800b"}` {
		t.Errorf("%+v %v %q", turn, err, r.calls)
	}
}
