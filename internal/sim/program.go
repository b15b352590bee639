package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// instr is one instruction of a model program. A program is a list of them, as JSON; the last one is opEnd.
type instr struct {
	Op    string `json:"op"`
	Async bool   `json:"async,omitempty"` // the call is issued, and its result is taken by opTake or opDrain
	N     int64  `json:"n,omitempty"`
	S     string `json:"s,omitempty"`
	To    int    `json:"to,omitempty"` // where to go on
}

// The instructions. Those of the first group are calls.
const (
	opNow   = "now"
	opRand  = "rand"
	opSet   = "set"   // key S to the digest
	opGet   = "get"   // key S
	opTool  = "tool"  // the tool S
	opSleep = "sleep" // N nanoseconds
	opSpawn = "spawn" // a child that runs S, and may make N calls that leave the kernel; 0: as many as it likes
	opWait  = "wait"  // for the child number N, of those that there are
	opHear  = "hear"  // for a user signal, N nanoseconds at most
	opMask  = "mask"  // holds signals back
	opOpen  = "open"  // and lets them through again
	opExit  = "exit"  // with code N

	// Where there are models. They are asked for the digest.
	opAsk      = "ask"      // the model S for N tokens at most
	opComplete = "complete" // as opAsk, in another way
	opStream   = "stream"   // as opAsk, bit by bit
	opNext     = "next"     // bits of the stream that was opened last but N
	opClose    = "close"    // that one

	opTake    = "take"    // waits for one result of an async call
	opDrain   = "drain"   // takes results until none is under way
	opPrint   = "print"   // the digest
	opCompute = "compute" // for N nanoseconds
	opLoop    = "loop"    // goes to To, N times
	opOdd     = "odd"     // goes to To if the digest is odd
	opFail    = "fail"
	opEnd     = "end" // with the digest as the result
)

// tools are those of the model server: what they are called says what they do.
var toolNames = []string{"read0", "read1", "idem0", "write0", "write1", paidTool}

// generator writes programs.
type generator struct {
	rng   *rand.Rand
	depth int  // how deep children may be nested
	asks  bool // there are models
}

func (g *generator) n(limit int) int { return g.rng.IntN(limit) }

// source is a new program as text.
func (g *generator) source() string {
	var code []instr
	for range 1 + g.n(5) {
		code = g.block(code)
	}
	if g.n(4) > 0 {
		code = append(code, instr{Op: opDrain})
	}
	switch g.n(12) {
	case 0:
		code = append(code, instr{Op: opFail})
	case 1:
		code = append(code, instr{Op: opExit, N: int64(g.n(3))})
	}
	code = append(code, instr{Op: opEnd})
	text, err := json.Marshal(code)
	if err != nil {
		panic(err) // texts and numbers always encode
	}
	return string(text)
}

// block adds a few instructions that belong together.
func (g *generator) block(code []instr) []instr {
	if g.asks && g.n(4) == 0 {
		return g.stream(code)
	}
	switch g.n(10) {
	case 9: // a critical section, which a signal may wait for
		code = append(code, instr{Op: opHear, N: g.span(5 * time.Second), Async: true}, instr{Op: opMask}, g.call(), g.call(), instr{Op: opOpen})
		return append(code, instr{Op: opDrain})
	case 0: // what follows depends on the answers so far
		at := len(code)
		code = append(code, instr{Op: opOdd})
		code = append(code, g.call(), instr{Op: opPrint})
		code[at].To = len(code)
		return code
	case 1:
		at := len(code)
		code = append(code, g.call())
		return append(code, instr{Op: opLoop, N: int64(1 + g.n(3)), To: at})
	case 2, 3: // as asyncio.gather does
		for range 1 + g.n(4) {
			c := g.call()
			c.Async = true
			code = append(code, c)
		}
		if g.n(3) == 0 {
			return append(code, instr{Op: opTake}, g.call())
		}
		return append(code, instr{Op: opDrain})
	case 4:
		return g.family(code)
	case 5:
		return append(code, instr{Op: opCompute, N: g.span(3 * time.Second)})
	case 6:
		return append(code, instr{Op: opPrint})
	}
	return append(code, g.call())
}

// family starts children and mostly waits for them.
func (g *generator) family(code []instr) []instr {
	if g.depth == 0 {
		return append(code, g.call())
	}
	n := 1 + g.n(3)
	child := &generator{rng: g.rng, depth: g.depth - 1, asks: g.asks}
	for range n {
		code = append(code, instr{Op: opSpawn, S: child.source(), N: int64(max(0, g.n(9)-5))})
	}
	if g.n(5) == 0 { // it leaves them alone
		return code
	}
	async := g.n(2) == 0
	for i := range n {
		code = append(code, instr{Op: opWait, N: int64(i), Async: async})
	}
	if async {
		code = append(code, instr{Op: opDrain})
	}
	return code
}

// call is one call.
func (g *generator) call() instr {
	if g.asks && g.n(3) == 0 {
		return g.ask()
	}
	switch g.n(11) {
	case 10:
		return instr{Op: opHear, N: g.span(5 * time.Second)}
	case 0:
		return instr{Op: opNow}
	case 1:
		return instr{Op: opRand, N: int64(g.n(8))}
	case 2:
		return instr{Op: opSet, S: fmt.Sprintf("k%d", g.n(3))}
	case 3:
		return instr{Op: opGet, S: fmt.Sprintf("k%d", g.n(3))}
	case 4, 5:
		return instr{Op: opSleep, N: g.span(5 * time.Second)}
	}
	return instr{Op: opTool, S: toolNames[g.n(len(toolNames))]}
}

// ask asks a model.
func (g *generator) ask() instr {
	return instr{Op: []string{opAsk, opComplete}[g.n(2)], S: modelNames[g.n(len(modelNames))], N: int64(1 + g.n(8))}
}

// stream opens a stream and mostly reads it.
func (g *generator) stream(code []instr) []instr {
	ask := g.ask()
	ask.Op = opStream
	code = append(code, ask)
	for range g.n(5) {
		switch g.n(6) {
		case 0:
			code = append(code, g.call())
		default:
			code = append(code, instr{Op: opNext, N: int64(g.n(7) / 6)})
		}
	}
	if g.n(3) == 0 {
		code = append(code, instr{Op: opClose})
	}
	return code
}

// span is a time up to a limit, mostly short. No two are the same, so no two timers fire at the same moment.
func (g *generator) span(limit time.Duration) int64 {
	if g.n(3) > 0 {
		limit /= 100
	}
	return 1 + g.rng.Int64N(int64(limit))
}
