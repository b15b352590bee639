package agentkernel

import (
	"strings"
	"time"
)

// PauseKind is what a process is paused for.
type PauseKind string

// The kinds of pauses. More may come.
const (
	PausedByHand      PauseKind = "hand"        // somebody wanted it, of the process or of one above it
	PausedForBudget   PauseKind = "budget"      // too little is left of a budget
	PausedAllowance   PauseKind = "allowance"   // too little is left of the allowance of its namespace
	PausedForAnswer   PauseKind = "answer"      // nobody was there to answer what it asks
	PausedNoProgress  PauseKind = "no_progress" // it made the same call with the same answer too often in a row
	PausedOfFunctions PauseKind = "functions"   // its tools are functions of a program that has ended
	PausedForOther    PauseKind = "other"       // Process.PauseNote says what
)

// PauseCause is why a process is paused, for programs; Process.PauseNote is for people.
type PauseCause struct {
	Kind PauseKind `json:"kind"`
	// Of a budget or an allowance: what of it is too little, and whose it is.
	Amount    string    `json:"amount,omitempty"`    // one of BudgetAmounts
	Budget    PID       `json:"budget,omitempty"`    // the process whose budget it is
	Namespace string    `json:"namespace,omitempty"` // the one whose allowance it is
	Until     time.Time `json:"until,omitzero"`      // when the allowance begins anew
}

// The words of the notes of pauses that somebody wanted, which are in stored rows and journals, and never change: NoteByHand with NoteAsks and what
// the process asks, or what keeps it from going on; NoteWith and the process with which it is paused.
const (
	NoteByHand = "by hand"
	NoteWith   = "with process "
	NoteAsks   = "; "
)

// ByHand says that somebody has paused the process, or the one with which it is paused.
func (p *Process) ByHand() bool {
	word, _, _ := strings.Cut(p.PauseNote, NoteAsks)
	return p.Paused && (p.PauseNote == "" || word == NoteByHand || strings.HasPrefix(word, NoteWith))
}

// WithCause is a process with PausedFor as PauseNote says it.
func (p Process) WithCause() Process {
	p.PausedFor = nil
	if p.Paused && !p.State.Terminal() {
		p.PausedFor = p.pauseCause()
	}
	return p
}

func (p *Process) pauseCause() *PauseCause {
	if s := p.Shortage(); s != nil {
		c := &PauseCause{Kind: PausedForBudget, Amount: s.Amount, Budget: s.Budget, Namespace: s.Namespace, Until: s.Until}
		if s.Budget == 0 {
			c.Kind = PausedAllowance
		}
		return c
	}
	switch {
	case p.Unheard():
		return &PauseCause{Kind: PausedForAnswer}
	case p.Repeats():
		return &PauseCause{Kind: PausedNoProgress}
	case strings.Contains(p.PauseNote, OfProgram):
		return &PauseCause{Kind: PausedOfFunctions}
	case p.ByHand():
		return &PauseCause{Kind: PausedByHand}
	}
	return &PauseCause{Kind: PausedForOther}
}
