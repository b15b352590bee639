package monty

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"agentkernel"
	"agentkernel/internal/sandbox/monty/frontend"
	"agentkernel/internal/sandbox/monty/montypb"
)

// A session is a program that does not end: when its source has run, its variables stay in the engine, and
// it asks the kernel for more with a call like any other (proc.next). What the kernel answers is fed to the
// engine. So a session is journalled, parked and replayed as programs are.

const opNext = "proc.next"

// sessionState is what a session has that other programs have not.
type sessionState struct {
	asked json.RawMessage // arguments of the proc.next that it stands at; nil while a cell runs
	last  json.RawMessage // value of the last expression of the last cell
	base  int             // feeds of the first source that were sent, if not all
	cells []cellHeader    // in the order in which they ran
	texts []string        // the first source, and those of cells that are not plain
	owned bool            // the program is this sandbox's alone: a cell may be added in place
	left  map[int64]bool  // async calls of cells that have ended: their results are dropped
	lone  bool            // the cell awaits a call of an earlier one
}

// cellHeader is one cell as images keep it.
type cellHeader struct {
	Cell  agentkernel.Cell   `json:"piece"`
	Tools []agentkernel.Tool `json:"tools,omitempty"`
	Feeds int                `json:"feeds"` // how many of its feeds were sent, if it failed before the last
}

// ask hands the kernel the call for the next cell.
func (s *sandbox) ask(args json.RawMessage) (agentkernel.Turn, bool, error) {
	s.session.asked = args
	s.leaveCalls()
	s.stage, s.call = stageCall, pendingCall{}
	return agentkernel.Turn{Kind: agentkernel.TurnCall, Call: agentkernel.Call{Op: opNext, Args: args}}, true, nil
}

// leaveCalls forgets the async calls that a cell has not awaited: the engine knows its futures until the end of what it
// was fed.
func (s *sandbox) leaveCalls() {
	if len(s.flights) > 0 && s.session.left == nil {
		s.session.left = map[int64]bool{}
	}
	for id := range s.flights {
		s.session.left[id] = true
	}
	s.flights, s.landed = nil, nil
}

// wasLeft takes the result of a call that an earlier cell left.
func (s *sandbox) wasLeft(reply *agentkernel.Reply) bool {
	if s.stage != stageWait || reply == nil || !s.session.left[reply.ID] {
		return false
	}
	delete(s.session.left, reply.ID)
	return true
}

// errLone is what a cell raises that awaits a call of an earlier one. Journals have its text, and a replay compares it.
var errLone = errors.New("RuntimeError: the call that is awaited was begun by an earlier piece, and ended with it: await a call in the piece that begins it")

// cellDone reports a cell that has run to its end.
func (s *sandbox) cellDone(result json.RawMessage) (agentkernel.Turn, bool, error) {
	s.session.last = result
	return s.ask(slices.Concat([]byte(`{"result":`), orNull(result), []byte(`}`)))
}

// cellFailed reports a cell that raised; false if the session cannot go on after this.
func (s *sandbox) cellFailed(turn agentkernel.Turn) (agentkernel.Turn, bool) {
	if turn.Kind != agentkernel.TurnFail || s.w.killedFor() != nil {
		return turn, false
	}
	switch turn.Err.Code {
	case agentkernel.CodeProgram, agentkernel.CodeSyntax, agentkernel.CodeUnsupported:
	default:
		return turn, false
	}
	if s.session.lone {
		s.session.lone, turn.Err.Err = false, errLone
	}
	s.settleFeeds()
	fault := turn.Fault
	turn, _, _ = s.askWithError(turn.Err)
	turn.Fault = fault
	return turn, true
}

func (s *sandbox) askWithError(e *agentkernel.Error) (agentkernel.Turn, bool, error) {
	text, err := json.Marshal(map[string]*agentkernel.Error{"error": e})
	if err != nil {
		return agentkernel.Turn{}, false, err
	}
	return s.ask(text)
}

// settleFeeds forgets feeds that a failed cell did not come to: the engine numbers what it was fed.
func (s *sandbox) settleFeeds() {
	if s.fed == len(s.prog.feeds) {
		return
	}
	unsent := len(s.prog.feeds) - s.fed
	s.keepFeeds(s.fed)
	if n := len(s.session.cells); n > 0 {
		s.session.cells[n-1].Feeds -= unsent
	} else {
		s.session.base = s.fed
	}
}

// keepFeeds keeps the first n feeds.
func (s *sandbox) keepFeeds(n int) {
	s.ownProgram()
	s.prog.feeds = s.prog.feeds[:n]
}

// ownProgram copies the program, which is shared with other sandboxes, when the session changes it first: what
// a cell costs must not grow with those that ran before it.
func (s *sandbox) ownProgram() {
	if !s.session.owned {
		s.prog = &program{key: s.prog.key, feeds: slices.Clone(s.prog.feeds), tools: maps.Clone(s.prog.tools)}
		s.session.owned, s.session.texts = true, []string{s.req.Program.Source}
	}
}

// nextCell takes the kernel's answer to proc.next. done: turn is the kernel's; else the engine was fed.
func (s *sandbox) nextCell(reply *agentkernel.Reply) (turn agentkernel.Turn, done bool, err error) {
	switch {
	case reply == nil || reply.Pending:
		return turn, false, agentkernel.Errorf(agentkernel.CodeInternal, "sandbox", "the answer to %s is missing", opNext)
	case reply.Err == nil:
	case reply.Err.Op == agentkernel.OpCell:
		return s.askWithError(reply.Err) // the cell did not come to its end
	case reply.Err.Code == agentkernel.CodeInterrupted:
		return s.ask(s.session.asked)
	case reply.Err.Code == agentkernel.CodeLimit && !bytes.HasPrefix(s.session.asked, []byte(`{"error":`)):
		return s.askWithError(reply.Err) // the result is too large to be handed over
	default:
		s.stage = stageEnded
		return failTurn(reply.Err), true, nil
	}
	var next agentkernel.NextCell
	if err := json.Unmarshal(reply.Result, &next); err != nil {
		return turn, false, agentkernel.Errorf(agentkernel.CodeInternal, "sandbox", "the answer to %s cannot be read: %w", opNext, err)
	}
	if next.End {
		s.stage = stageEnded
		return agentkernel.Turn{Kind: agentkernel.TurnExit, Result: s.session.last}, true, nil
	}
	if err := s.addCell(cellHeader{Cell: next.Cell, Tools: next.Tools, Feeds: -1}); err != nil {
		return s.askWithError(agentkernel.AsError(err, agentkernel.CodeInternal, "run"))
	}
	s.session.asked, s.session.last = nil, nil
	return turn, false, s.feedNext()
}

// addCell makes a cell ready for the engine.
func (s *sandbox) addCell(h cellHeader) error {
	s.ownProgram()
	cell := agentkernel.Program{Name: h.Cell.Name, Language: agentkernel.Python, Source: h.Cell.Source, Args: s.req.Program.Args,
		Modules: h.Cell.Modules, Earlier: s.session.texts, Cells: 1 + len(s.session.cells)}
	bundle, err := frontend.Bind(cell, h.Tools)
	if err != nil {
		return err
	}
	added := assemble(programKey{}, cell, bundle, h.Tools)
	maps.Copy(s.prog.tools, added.tools)
	if h.Feeds < 0 || h.Feeds > len(added.feeds) {
		h.Feeds = len(added.feeds)
	}
	s.prog.feeds = append(s.prog.feeds, added.feeds[:h.Feeds]...)
	s.session.cells = append(s.session.cells, h)
	if !bundle.Plain {
		s.session.texts = append(s.session.texts, h.Cell.Source)
	}
	return nil
}

// waitsForCell says that a loaded image stands between two cells: the engine has nothing to say then.
func waitsForCell(ev *montypb.Event) bool {
	_, ok := ev.Kind.(*montypb.Event_Ok)
	return ok
}
