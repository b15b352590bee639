package history

import (
	"cmp"
	"strings"
	"time"

	"agentkernel"
)

// Pause is why a process is paused. The Note of its entry and of its row tell people so; whoever decides anything goes by the other
// fields. PauseOf sets them for a pause of an earlier kernel, by what agentkernel.Process reads in such notes.
type Pause struct {
	Note    string                // "": somebody wanted it
	Short   *agentkernel.Shortage // that of a budget or an allowance because of which it is; nil: there is none
	Unheard bool                  // nobody could answer what the process asks
	ByHand  bool                  // somebody wanted it, or that of the process with which it is paused
}

// Pausing is a pause of a process that a kernel carries.
type Pausing struct {
	Pause
	All   bool     // with what the process detaches
	Under *Pausing // one that somebody wanted before this one, and that outlives it; nil: there is none
}

// Wanted says that somebody wants the process to stand still, and not the kernel alone.
func (p *Pausing) Wanted() bool { return p.ByHand || p.Under != nil }

// ByHand is a pause that somebody wanted, of the process itself (with is 0) or of the one with which it is paused. Its note ends with what
// the process asks, for whoever sees it after this kernel; asks is "" if that is nothing.
func ByHand(with agentkernel.PID, asks string) Pause {
	p := Pause{ByHand: true}
	if with != 0 {
		p.Note = agentkernel.NoteWith + with.String()
	}
	if asks != "" {
		p.Note = cmp.Or(p.Note, agentkernel.NoteByHand) + agentkernel.NoteAsks + asks
	}
	return p
}

// Found is a pause that somebody wanted, with what has been found meanwhile that keeps the process from going on, for whoever resumes it.
// Other pauses say already what is to be done.
func (p Pause) Found(why string) Pause {
	if p.ByHand && !strings.Contains(p.Note, agentkernel.YourAnswer) {
		p.Note = cmp.Or(p.Note, agentkernel.NoteByHand) + agentkernel.NoteAsks + why
	}
	return p
}

// Prevents is what Found found; "": nothing.
func (p Pause) Prevents() string {
	_, why, _ := strings.Cut(p.Note, agentkernel.NoteAsks)
	if !p.ByHand || strings.HasPrefix(why, agentkernel.YourAnswer) {
		return ""
	}
	return why
}

// Unheard is a pause because nobody could answer a question, in the words of Process.WaitsFor.
func Unheard(question string) Pause { return Pause{Note: question, Unheard: true} }

// Short is a pause because too little is left of a budget or an allowance.
func Short(s *agentkernel.Shortage) Pause { return Pause{Note: s.PauseNote(), Short: s} }

// PauseOf is the pause that a note is about.
func PauseOf(note string) Pause {
	row := agentkernel.Process{Paused: true, PauseNote: note}
	return Pause{
		Note: note, Short: row.Shortage(), Unheard: row.Unheard(),
		ByHand: row.ByHand(),
	}
}

// For says that the pause is because of the budget of a process.
func (p Pause) For(pid agentkernel.PID) bool { return p.Short != nil && p.Short.Budget == pid }

// Until is when the allowance begins anew because of which it is; zero: it is because of none.
func (p Pause) Until() (at time.Time) {
	if p.Short != nil {
		at = p.Short.Until
	}
	return at
}

// EndsByItself says that the kernel ends the pause when its cause is gone.
func (p Pause) EndsByItself() bool { return p.Short != nil || p.Unheard }
