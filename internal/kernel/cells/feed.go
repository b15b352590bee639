package cells

import (
	"errors"
	"maps"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/history"
)

// Conflict is an error about a session that is not where its caller takes it to be.
func Conflict(pid agentkernel.PID, format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeConflict, "session", format, args...).WithPID(pid)
}

// Ended is the error of who wants something of a session that has ended.
func Ended(pid agentkernel.PID, state agentkernel.State) *agentkernel.Error {
	return Conflict(pid, "session %d has ended: %s", pid, state)
}

// Unfinished is the error of who wants something of a session that no kernel runs.
func Unfinished(pid agentkernel.PID) *agentkernel.Error {
	return Conflict(pid, "session %d is unfinished: no kernel runs it", pid).WithHint(advice.Recover, pid)
}

// Earlier are the sources that a session was fed, as its journal has them; first is the program with which it began.
func Earlier(first string, handed []history.Handed) Sources {
	out := Sources{}.And(first, false)
	for _, c := range handed {
		if !c.Aborted {
			out = out.And(c.Source, false)
		}
	}
	return out
}

// FedBefore finds where in the journal of a session a cell with this one's key was handed over; 0: nowhere. CodeConflict if that
// was another cell.
func FedBefore(pid agentkernel.PID, handed []history.Handed, cell *agentkernel.Cell) (at int64, err error) {
	for _, had := range handed {
		switch {
		case had.Key != cell.Key:
		case had.Source != cell.Source:
			return at, Conflict(pid, "the key %.80q belongs to another cell of session %d", cell.Key, pid).WithHint("take another key")
		default:
			at = had.Seq
		}
	}
	return at, nil
}

// Program is a cell as a program: with what its session is, and has been fed. It names a cell that has no name.
func Program(session *agentkernel.Program, cell *agentkernel.Cell, earlier Sources) agentkernel.Program {
	if cell.Name == "" {
		cell.Name = "<cell>"
	}
	p := agentkernel.Program{Name: cell.Name, Language: session.Language, Source: cell.Source, Args: session.Args, Host: session.Host,
		Modules: maps.Clone(session.Modules), Earlier: earlier.Texts, Cells: earlier.Cells}
	if p.Modules == nil {
		p.Modules = map[string]string{}
	}
	maps.Copy(p.Modules, cell.Modules)
	return p
}

// Fed is what a session of a namespace has been fed when it has a cell, too; plain: later ones are understood without it.
func (s Sources) Fed(cell *agentkernel.Cell, plain bool, namespace string) Sources {
	fed := s.And(cell.Source, plain)
	fed.Key, fed.Bind = cell.Key, nil
	if cell.Shared && cell.Key != "" {
		fed.Bind = &agentkernel.Key{Namespace: namespace, Name: cell.Key}
	}
	return fed
}

// Tools are the tools of a cell as they are handed over. That is journalled, so that a replay needs no server: the schemas stay
// out.
func Tools(bound []agentkernel.Tool) []agentkernel.Tool {
	out := make([]agentkernel.Tool, len(bound))
	for i, t := range bound {
		t.InputSchema, t.OutputSchema, t.Observed, t.Changed = nil, nil, nil, nil
		out[i] = t
	}
	return out
}

var errDone = errors.New("the cell has run")

// Follow hands fn the events that read reports, until one says that the cell has run, or that its session has ended or is
// paused: done. end is what they said of that; its Process is left out.
func Follow(read func(fn func(agentkernel.Event) error) error, fn func(agentkernel.Event) error) (end agentkernel.CellEnd, done bool, err error) {
	err = read(func(ev agentkernel.Event) error {
		if err := fn(ev); err != nil {
			return err
		}
		switch ev.Kind {
		case agentkernel.EventIdle:
			end.Result, end.Error = ev.Idle.Result, ev.Idle.Error
		case agentkernel.EventEnd:
			end.Ended, end.Result, end.Error = true, ev.Process.Result, ev.Process.Error
		case agentkernel.EventState:
			if !ev.Process.Paused {
				return nil
			}
		default:
			return nil
		}
		done = true
		return errDone
	})
	if errors.Is(err, errDone) {
		err = nil
	}
	return end, done, err
}
