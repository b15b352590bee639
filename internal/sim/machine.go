package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/internal/journal"
)

// machine runs a program. It is a pure function of the program and the replies, and all of it can be written down, so that an
// image is its JSON. Sandboxes run it, and the oracle does once more.
type machine struct {
	PC      int         `json:"pc"`
	Loops   map[int]int `json:"loops,omitempty"` // rounds left, by place
	Digest  uint64      `json:"digest"`          // of all replies
	Open    []int64     `json:"open,omitempty"`  // async calls whose results were not taken
	Kids    []int64     `json:"kids,omitempty"`
	Streams []string    `json:"streams,omitempty"` // handles
	Slot    string      `json:"slot,omitempty"`    // what the reply is for: see give
	Printed int         `json:"printed,omitempty"`
	Ran     int64       `json:"ran,omitempty"` // nanoseconds that it has computed
	Turn    turn        `json:"turn"`          // the last one

	code []instr
}

// turn is where a program has stopped.
type turn struct {
	Kind  agentkernel.TurnKind `json:"kind,omitempty"`
	Op    string               `json:"op,omitempty"`
	Args  json.RawMessage      `json:"args,omitempty"` // canonical
	Async bool                 `json:"async,omitempty"`
}

// pause is something that a program does between two turns.
type pause struct {
	output  string
	compute time.Duration
}

// newMachine begins a program. Programs with other names have other digests, and so children with other names.
func newMachine(p *agentkernel.Program) (*machine, error) {
	m := &machine{}
	m.fold(p.Name, p.Source)
	return m, m.load(p.Source)
}

func (m *machine) load(source string) error {
	if err := json.Unmarshal([]byte(source), &m.code); err != nil {
		return err
	}
	if m.Loops == nil {
		m.Loops = map[int]int{}
	}
	return nil
}

// loadMachine continues a program from an image.
func loadMachine(p *agentkernel.Program, image []byte) (*machine, error) {
	m := &machine{}
	if err := json.Unmarshal(image, m); err != nil {
		return nil, err
	}
	return m, m.load(p.Source)
}

// fold takes something into the digest.
func (m *machine) fold(parts ...string) {
	h := fnv.New64a()
	fmt.Fprint(h, m.Digest)
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // a hash never fails
		_, _ = h.Write([]byte{0})
	}
	m.Digest = h.Sum64()
}

// give hands the program the reply to its last turn.
func (m *machine) give(r agentkernel.Reply) error {
	if r.Pending {
		if !m.Turn.Async || m.Turn.Kind != agentkernel.TurnCall {
			return errors.New("an acknowledgement came for something that is no async call")
		}
		m.Open = append(m.Open, r.ID)
		return nil
	}
	switch {
	case m.Turn.Kind == agentkernel.TurnWait:
		i := slices.Index(m.Open, r.ID)
		if i < 0 {
			return fmt.Errorf("a result came for call %d, of which none is due", r.ID)
		}
		m.Open = slices.Delete(m.Open, i, i+1)
		m.fold("async", fmt.Sprint(r.ID))
	case m.Turn.Kind == agentkernel.TurnCall && !m.Turn.Async:
		if m.Slot == opSpawn && r.Err == nil {
			var pid int64
			if err := json.Unmarshal(r.Result, &pid); err != nil {
				return err
			}
			m.Kids = append(m.Kids, pid)
		}
		if m.Slot == opStream && r.Err == nil {
			var handle string
			if err := json.Unmarshal(r.Result, &handle); err != nil {
				return err
			}
			m.Streams = append(m.Streams, handle)
		}
	default:
		return fmt.Errorf("a result came in turn %d", m.Turn.Kind)
	}
	if r.Err != nil {
		m.fold("error", string(r.Err.Code))
	} else {
		m.fold("result", string(r.Result))
	}
	return nil
}

// run goes on to the next turn. between is told what the program does on the way; an error ends it there.
func (m *machine) run(between func(pause) error) (turn, error) {
	for {
		in := m.code[m.PC]
		m.PC++
		switch in.Op {
		case opTake, opDrain:
			if len(m.Open) == 0 {
				continue
			}
			if in.Op == opDrain {
				m.PC--
			}
			return m.stop(turn{Kind: agentkernel.TurnWait})
		case opPrint:
			m.Printed++
			if err := between(pause{output: fmt.Sprintf("%d:%x\n", m.Printed, m.Digest)}); err != nil {
				return turn{}, err
			}
		case opCompute:
			m.Ran += in.N
			if err := between(pause{compute: time.Duration(in.N)}); err != nil {
				return turn{}, err
			}
		case opLoop:
			m.loop(in)
		case opOdd:
			if m.Digest%2 == 1 {
				m.PC = in.To
			}
		case opFail:
			return m.stop(turn{Kind: agentkernel.TurnFail})
		case opEnd:
			return m.stop(turn{Kind: agentkernel.TurnExit})
		default:
			op, args, ok := m.call(in)
			if !ok {
				continue
			}
			canonical, err := journal.Canonical(args)
			if err != nil {
				return turn{}, err
			}
			m.Slot = in.Op
			return m.stop(turn{Kind: agentkernel.TurnCall, Op: op, Args: canonical, Async: in.Async})
		}
	}
}

func (m *machine) stop(t turn) (turn, error) {
	m.Turn = t
	return t, nil
}

func (m *machine) loop(in instr) {
	at := m.PC - 1
	left, begun := m.Loops[at]
	if !begun {
		left = int(in.N)
	}
	if left == 0 {
		delete(m.Loops, at)
		return
	}
	m.Loops[at] = left - 1
	m.PC = in.To
}

// call is the system call of an instruction. Not ok: there is nothing to call.
func (m *machine) call(in instr) (op string, args json.RawMessage, ok bool) {
	text := func(s string) json.RawMessage { return journal.String(s) }
	switch in.Op {
	case opNow:
		return "time.now", json.RawMessage(`{}`), true
	case opRand:
		return "rand.bytes", fmt.Appendf(nil, `{"n":%d}`, in.N), true
	case opSet:
		return "state.set", fmt.Appendf(nil, `{"key":%s,"value":"%x"}`, text(in.S), m.Digest), true
	case opGet:
		return "state.get", fmt.Appendf(nil, `{"key":%s}`, text(in.S)), true
	case opTool:
		return "tool.call", fmt.Appendf(nil, `{"arguments":{"d":"%x"},"server":%q,"tool":%s}`, m.Digest, serverName, text(in.S)), true
	case opSleep:
		return "time.sleep", fmt.Appendf(nil, `{"seconds":%s}`, journal.AppendFloat(nil, time.Duration(in.N).Seconds())), true
	case opSpawn:
		budget := ""
		if in.N > 0 {
			budget = fmt.Sprintf(`"budget":{"calls":%d},`, in.N)
		}
		return "proc.spawn", fmt.Appendf(nil, `{%s"name":"c%x","source":%s}`, budget, m.Digest, text(in.S)), true
	case opWait:
		if len(m.Kids) == 0 {
			return "", nil, false
		}
		return "proc.wait", fmt.Appendf(nil, `{"pid":%d}`, m.Kids[int(in.N)%len(m.Kids)]), true
	case opAsk:
		return "llm.ask", fmt.Appendf(nil, `{"max_tokens":%d,"model":%s,"prompt":"%x"}`, in.N, text(in.S), m.Digest), true
	case opComplete:
		return "llm.complete", fmt.Appendf(nil, `{"max_tokens":%d,"messages":[{"content":"%x","role":"user"}],"model":%s}`, in.N, m.Digest, text(in.S)), true
	case opStream:
		return "llm.stream", fmt.Appendf(nil, `{"max_tokens":%d,"messages":"%x","model":%s}`, in.N, m.Digest, text(in.S)), true
	case opNext, opClose:
		if len(m.Streams) == 0 {
			return "", nil, false
		}
		handle := m.Streams[len(m.Streams)-1-int(in.N)%len(m.Streams)]
		return map[string]string{opNext: "stream.next", opClose: "stream.close"}[in.Op], fmt.Appendf(nil, `{"handle":%q}`, handle), true
	case opHear:
		return "signals.wait", fmt.Appendf(nil, `{"timeout":%s}`, journal.AppendFloat(nil, time.Duration(in.N).Seconds())), true
	case opMask:
		return "signals.mask", json.RawMessage(`{}`), true
	case opOpen:
		return "signals.unmask", json.RawMessage(`{}`), true
	case opExit:
		return "proc.exit", fmt.Appendf(nil, `{"code":%d}`, in.N), true
	}
	panic("sim: a program has the instruction " + in.Op)
}

// result is what the program ends with.
func (m *machine) result() json.RawMessage { return fmt.Appendf(nil, `"%x"`, m.Digest) }

// failure is the error that the program does not catch.
func (m *machine) failure() *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeProgram, "program", "it fails with %x", m.Digest)
}

// image is the machine as bytes.
func (m *machine) image() ([]byte, error) { return json.Marshal(m) }
