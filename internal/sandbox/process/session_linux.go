package process

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/internal/bytesize"
)

// A session is a program that does not end: the guest keeps its variables, says how each cell ended, and waits for the
// next one (message next). The kernel hears of that as a call like any other, proc.next. What is wrong with the answer is
// dealt with here; the guest gets cells and the end.

const opNext = "proc.next"

// cellDone takes the guest's word that a cell has ended.
func (s *sandbox) cellDone(m *message) (turn agentkernel.Turn, done bool, err error) {
	switch {
	case !s.req.Program.Session:
		return turn, false, broke("next, from a program that is no session")
	case m.ID <= s.last:
		return turn, false, broke("next %d after call %d", m.ID, s.last)
	}
	s.last, s.async = m.ID, false
	if m.Failure != nil {
		return s.askWithError(cellError(m.Failure, inForce(s.req.Limits, s.c.cell)))
	}
	result := m.Result
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	if most := s.req.Limits.Output; int64(len(result)) > most {
		text, err := json.Marshal(map[string]string{"$repr": fmt.Sprintf("<no result: it is larger than the output limit of %s>", bytesize.InMiB(most))})
		if err != nil {
			return turn, false, err
		}
		result = text
	}
	return s.ask(slices.Concat([]byte(`{"result":`), result, []byte(`}`)))
}

// cellError is what a cell failed with. A replay compares it, so nothing in it is measured.
func cellError(m *message, limits agentkernel.Limits) *agentkernel.Error {
	return programFailed(m, limits, time.Duration(limits.Time)).Err
}

// ask hands the kernel the call for the next cell.
func (s *sandbox) ask(args json.RawMessage) (agentkernel.Turn, bool, error) {
	s.stage, s.asked = stageCall, args
	return agentkernel.Turn{Kind: agentkernel.TurnCall, Call: agentkernel.Call{Op: opNext, Args: args}}, true, nil
}

func (s *sandbox) askWithError(e *agentkernel.Error) (agentkernel.Turn, bool, error) {
	text, err := json.Marshal(map[string]*agentkernel.Error{"error": e})
	if err != nil {
		return agentkernel.Turn{}, false, err
	}
	return s.ask(text)
}

// noCell deals with an answer to proc.next that is neither a cell nor the end: turn is the kernel's then. Not done: it is
// one of them, or the answer to something else.
func (s *sandbox) noCell(reply *agentkernel.Reply) (turn agentkernel.Turn, done bool, err error) {
	if s.asked == nil || reply == nil || reply.Err == nil {
		return turn, false, nil
	}
	switch e := reply.Err; {
	case e.Op == agentkernel.OpCell:
		return s.askWithError(e) // the cell did not come to its end
	case e.Code == agentkernel.CodeInterrupted:
		return s.ask(s.asked)
	case e.Code == agentkernel.CodeLimit && !bytes.HasPrefix(s.asked, []byte(`{"error":`)):
		return s.askWithError(e) // the result is too large to be handed over
	}
	s.stage = stageEnded
	return failTurn(reply.Err), true, nil
}
