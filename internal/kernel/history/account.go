package history

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"agentkernel"
)

// entryCost is what an entry costs beside its payload, in bytes.
const entryCost = 128

// Account is what a process has used and been granted in all its runs. It is kept entry by entry: by the kernel for each
// entry that it appends, and by Fold for those that it reads.
type Account struct {
	Calls     int64    `json:"calls"`                // the number of the last call
	ToolCalls int64    `json:"tool_calls,omitempty"` // that were made: not refused, and not answered by an origin
	BytesIn   int64    `json:"bytes_in,omitempty"`   // of results of tools
	Output    int64    `json:"output,omitempty"`     // bytes printed
	Journal   int64    `json:"journal,omitempty"`    // bytes of the journal, as limits.journal counts them
	Allowed   []string `json:"approved,omitempty"`   // patterns of tools that a human has allowed from then on
	Amounts   *Amounts `json:"amounts,omitempty"`
	Imported  bool     `json:"imported,omitempty"` // of a recording: what it has spent was spent elsewhere
	// Added is by what the budget was raised beyond that of the Spec.
	Added agentkernel.Amounts `json:"added,omitempty"`
	// Warned are the limits of its budget with which it was told that most is spent, as BudgetWarning says.
	Warned agentkernel.Amounts `json:"warned,omitempty"`
	// Host is the epoch of the last attachment of a host; 0: there was none.
	Host int64 `json:"host,omitempty"`
	// Interrupted says that an interrupt waits for the program's next call.
	Interrupted bool `json:"interrupted,omitempty"`
	// StopBy is when the process is killed that was asked to stop; zero: nobody has asked.
	StopBy time.Time `json:"stop_by,omitzero"`
	// StopAll says that those below it were asked, too, that are detached.
	StopAll bool `json:"stop_all,omitempty"`
	// Deadline is that because of which StopBy is; zero: somebody has asked.
	Deadline time.Time `json:"deadline,omitzero"`
	// Masks is how many hold signals back.
	Masks int `json:"masks,omitempty"`
	// Repeats is how often in a row the last call was made with the same answer.
	Repeats *Repeats `json:"repeats,omitempty"`
	// TakenOver are the calls of tools that a rerun has from its origin and that have no result yet: one that is made once more counts.
	TakenOver []int64 `json:"taken_over,omitempty"`
}

// Size is what an entry counts for the limit of a journal, in bytes: about what it takes in memory, too.
func Size(e *agentkernel.Entry) int64 { return entryCost + int64(len(e.Args)) + int64(len(e.Data)) }

// Add counts an entry that stands behind all that were added before.
func (a *Account) Add(e *agentkernel.Entry) {
	a.Amounts = a.Amounts.Add(e)
	a.Repeats = a.Repeats.add(e)
	a.Journal += Size(e)
	switch e.Kind {
	case agentkernel.EntryCreated:
		a.Imported = a.Imported || e.Imported != nil
	case agentkernel.EntryCall:
		a.Calls = max(a.Calls, e.Call)
		a.countTool(e)
		if e.Done {
			a.tookInterrupt(e)
		}
		if e.Done && e.Err == nil {
			a.Masks = max(0, a.Masks+masks(e.Op))
		}
	case agentkernel.EntryRetry:
		a.countTool(e)
	case agentkernel.EntryResult:
		a.handedOver(e.Call)
		a.tookInterrupt(e)
		if e.Incarnation != "" { // a tool's server has answered
			a.BytesIn += int64(len(e.Data))
		}
	case agentkernel.EntryOutput:
		a.Output += printedSize(e.Data)
	case agentkernel.EntryAllowed:
		a.Allowed = append(slices.Clip(a.Allowed), e.Pattern)
	case agentkernel.EntrySignal:
		s := SignalOf(e)
		a.Interrupted = a.Interrupted || s.Pending
		a.warned(s.Warns)
		if !s.By.IsZero() {
			a.StopBy, a.StopAll, a.Deadline = s.By, s.All, s.Deadline
		}
	case agentkernel.EntryBudget:
		a.Added = a.Added.Plus(BudgetOf(e).Amounts())
	case agentkernel.EntryAttached:
		a.Host++
	case agentkernel.EntryAborted:
		a.Interrupted, a.Masks = false, 0
	}
}

// countTool counts a call of a tool that is made: not one that a rerun takes over, unless that is made once more.
func (a *Account) countTool(e *agentkernel.Entry) {
	switch {
	case e.Kind == agentkernel.EntryRetry:
		if a.handedOver(e.Call) {
			a.ToolCalls++
		}
	case e.Done || !callsTool(e.Op):
	case e.TakenOver():
		a.TakenOver = append(slices.Clip(a.TakenOver), e.Call)
	default:
		a.ToolCalls++
	}
}

// handedOver says whether a call was one that a rerun has taken over, which is no more.
func (a *Account) handedOver(call int64) bool {
	at := slices.Index(a.TakenOver, call)
	if at < 0 {
		return false
	}
	a.TakenOver = slices.Delete(slices.Clone(a.TakenOver), at, at+1)
	if len(a.TakenOver) == 0 {
		a.TakenOver = nil
	}
	return true
}

// HasTakenOver says whether a call was answered by its origin, and neither made by this process itself nor answered in it.
func (a *Account) HasTakenOver(call int64) bool { return slices.Contains(a.TakenOver, call) }

// tookInterrupt notes that a call was answered with an interrupt: none waits any more.
func (a *Account) tookInterrupt(e *agentkernel.Entry) {
	if !e.TakenOver() && e.Err != nil && e.Err.Code == agentkernel.CodeInterrupted {
		a.Interrupted = false
	}
}

// Stops is when a process with a deadline (zero: with none) is asked to stop, or, if ask is false, killed that was asked; zero:
// never. One that was asked before, and has as little time, is not asked again.
func (a *Account) Stops(deadline, now time.Time) (at time.Time, ask bool) {
	asked := deadline
	if now.After(deadline) {
		asked = now
	}
	if deadline.IsZero() || !a.Deadline.IsZero() || !a.StopBy.IsZero() && !a.StopBy.After(asked.Add(time.Duration(agentkernel.DefaultGrace))) {
		return a.StopBy, false
	}
	return deadline, true
}

// masks is what a call adds to the number of those who hold signals back.
func masks(op string) int {
	desc, _ := agentkernel.FindSyscall(op)
	return desc.Mask
}

// callsTool says whether calls of a name are those of tools.
func callsTool(op string) bool {
	desc, _ := agentkernel.FindSyscall(op)
	return desc.Effect == agentkernel.EffectByTool
}

// SignalData is the Data of an EntrySignal.
type SignalData struct {
	Pending  bool            `json:"pending,omitempty"` // it waits for the program's next call
	By       time.Time       `json:"by,omitzero"`       // of stop: the process is killed then
	All      bool            `json:"all,omitempty"`     // of stop: so are those that are detached from it
	Deadline time.Time       `json:"deadline,omitzero"` // of stop: because of this one of the process
	Payload  json.RawMessage `json:"payload,omitempty"` // of user
	// Warns: the kernel has sent it, since most of these limits of the process's budget is spent.
	Warns agentkernel.Amounts `json:"warns,omitempty"`
}

// Encode gives the Data; nil: there is nothing to say.
func (d SignalData) Encode() json.RawMessage {
	if !d.Pending && d.By.IsZero() && d.Payload == nil {
		return nil
	}
	raw, _ := json.Marshal(d) // nothing in it can fail
	return raw
}

// SignalOf decodes the Data of an EntrySignal.
func SignalOf(e *agentkernel.Entry) (d SignalData) {
	_ = json.Unmarshal(e.Data, &d) // what is no SignalData says nothing
	return d
}

// BudgetOf decodes the Data of an EntryBudget.
func BudgetOf(e *agentkernel.Entry) (more agentkernel.Budget) {
	_ = json.Unmarshal(e.Data, &more) // what is none raises nothing
	return more
}

// Text is what an EntryOutput says that the program printed.
func Text(e *agentkernel.Entry) string {
	var s string
	if json.Unmarshal(e.Data, &s) != nil {
		return string(e.Data)
	}
	return s
}

// printedSize is the length of the text of an EntryOutput.
func printedSize(data json.RawMessage) int64 {
	if len(data) >= 2 && data[0] == '"' && !bytes.Contains(data, []byte(`\u`)) {
		n := len(data) - 2
		for i := 1; i < len(data); i++ {
			if data[i] == '\\' { // it and the next stand for one byte
				n--
				i++
			}
		}
		return int64(n)
	}
	return int64(len(Text(&agentkernel.Entry{Data: data})))
}
