// Package moves decides what a move of a program to another backend means: where a cell of a session may run, what a journal
// and a user are told of a move, and what becomes of a session that does not come to the same place. It never moves anything:
// it sees backends and errors, and no process.
package moves

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/kernel/advice"
)

// Moved is the last move of a process.
type Moved struct {
	agentkernel.Move
	Err *agentkernel.Error // what ended the program there
	Seq int64              // the entry that says so
}

// New is a move from a backend.
func New(from string, at time.Time, why *agentkernel.Error) *Moved {
	line, _, _ := strings.Cut(why.Message(), "\n")
	return &Moved{Move: agentkernel.Move{From: from, At: at, Why: clip.Short(line)}, Err: why}
}

// Of is the move that an entry of the journal tells of.
func Of(e *agentkernel.Entry) *Moved {
	var names struct{ From string }
	if json.Unmarshal(e.Data, &names) != nil {
		names.From = "?"
	}
	m := New(names.From, e.At, e.Err)
	m.Seq = e.Seq
	return m
}

// Entry is the move to a backend as an entry of the journal.
func (m *Moved) Entry(to string) agentkernel.Entry {
	data, err := json.Marshal(map[string]string{"from": m.From, "to": to})
	if err != nil {
		data = nil // two names always encode
	}
	return agentkernel.Entry{Kind: agentkernel.EntryMoved, At: m.At, Data: data, Err: m.Err}
}

// NotStarted is the error of a program whose next backend does not start.
func (m *Moved) NotStarted(to string, err error) *agentkernel.Error {
	why := agentkernel.AsError(err, agentkernel.CodeUnavailable, "move")
	return m.Err.WithHint("the %s backend was to go on with it and did not start: %s", to, why.Message())
}

// Ending adds to the error with which a process fails on the backend to what it had moved for, if that is something else.
func (m *Moved) Ending(err *agentkernel.Error, to string, pid agentkernel.PID) *agentkernel.Error {
	switch {
	case err.Code == agentkernel.CodeDiverged:
		c := *err
		c.Err = fmt.Errorf("%w\nit had moved from %s to %s, for: %s", err.Err, m.From, to, m.Err.Message())
		c.Hint = fmt.Sprintf(advice.FromTheStart, to, to, pid)
		c.Traceback, c.Exception = m.Err.Traceback, m.Err.Exception
		return &c
	case err.Hint == "" && !m.Same(err):
		return err.WithHint("it had moved from %s, for: %s", m.From, m.Why)
	}
	return err
}

// CellOf is the cell that answered a session's call for one, as a program like the session's own. False: there is none.
func CellOf(entries []agentkernel.Entry, call int64, session *agentkernel.Program) (*agentkernel.Program, bool) {
	for _, e := range slices.Backward(entries) {
		var next agentkernel.NextCell
		if e.Kind == agentkernel.EntryResult && e.Call == call && e.Err == nil && json.Unmarshal(e.Data, &next) == nil {
			return &agentkernel.Program{Name: next.Cell.Name, Language: session.Language, Source: next.Cell.Source,
				Host: session.Host, Modules: next.Cell.Modules}, true
		}
	}
	return nil, false
}
