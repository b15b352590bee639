// Package locals keeps the data that families of system calls have of each process (sys.Local). It is folded from the entries
// of their calls with the rest of the journal: by the kernel for each entry that it appends, and by history.FoldInto for those
// that it reads. So it is the same in a process that lives, in one that was read back from its image, and in one whose whole
// journal was read, and neither an abort nor a move unwinds it.
package locals

import (
	"encoding/json"
	"slices"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/sys"
)

// Set is the families that keep something.
type Set struct {
	names  []string
	locals []*sys.Local
	byOp   map[string][]int
	empty  *Of // that of all processes of which nothing is kept yet
}

// New finds them among all.
func New(families []sys.Family) *Set {
	s := &Set{byOp: map[string][]int{}}
	for i := range families {
		local := families[i].Local
		if local == nil {
			continue
		}
		for j := range families {
			for k := range families[j].Ops {
				if op := &families[j].Ops[k]; i == j || local.Wants != nil && local.Wants(op) {
					s.byOp[op.Name] = append(s.byOp[op.Name], len(s.locals))
				}
			}
		}
		s.names, s.locals = append(s.names, families[i].Name), append(s.locals, local)
	}
	s.empty = &Of{set: s}
	return s
}

// Of is what the families keep of one process. Its lock is that of the process.
type Of struct {
	set  *Set
	pid  agentkernel.PID
	data []any               // by the place of the family in the set; nil: nothing yet
	open map[int64]*sys.Step // the calls without a result, as they began
}

// Empty is that of a process whose journal is empty. All of them share it: a hundred thousand processes may be parked.
func (s *Set) Empty() history.Locals { return s.empty }

// own is o for a process whose families begin to keep something.
func (o *Of) own(pid agentkernel.PID) *Of {
	if o == o.set.empty {
		return &Of{set: o.set, pid: pid}
	}
	return o
}

// At is that of a process as a base has it.
func (s *Set) At(pid agentkernel.PID, base *history.Base) (history.Locals, error) {
	o := s.empty
	if base.Whole() { // all of the journal is added to it
		return o, nil
	}
	for i, name := range s.names {
		saved := base.Locals[name]
		if len(saved) == 0 {
			continue
		}
		data, err := s.locals[i].Load(saved)
		if err != nil {
			return nil, agentkernel.Errorf(agentkernel.CodeCorrupt, name, "what the image of process %d has of %s cannot be read: %s", pid, name, err)
		}
		o = o.own(pid)
		o.put(i, data)
	}
	return o, nil
}

// From is At for the bases of one process.
func (s *Set) From(pid agentkernel.PID) func(*history.Base) (history.Locals, error) {
	return func(base *history.Base) (history.Locals, error) { return s.At(pid, base) }
}

func (o *Of) put(i int, data any) {
	if o.data == nil {
		o.data = make([]any, len(o.set.locals))
	}
	o.data[i] = data
}

// Open takes the intent of a call that is in the base already, and has no result there.
func (o *Of) Open(e *agentkernel.Entry) history.Locals {
	if len(o.set.byOp[e.Op]) == 0 {
		return o
	}
	o = o.own(e.PID)
	if o.open == nil {
		o.open = map[int64]*sys.Step{}
	}
	o.open[e.Call] = o.begun(e)
	return o
}

func (o *Of) begun(e *agentkernel.Entry) *sys.Step {
	return &sys.Step{PID: o.pid, Call: e.Call, Op: e.Op, Args: e.Args, At: e.At, Origin: e.TakenOver()}
}

// Add takes an entry that stands behind all that were added before.
func (o *Of) Add(e *agentkernel.Entry) history.Locals {
	switch e.Kind {
	case agentkernel.EntryCall:
		if len(o.set.byOp[e.Op]) == 0 {
			return o
		}
		o = o.own(e.PID)
		step := *o.begun(e)
		if e.Done {
			step.Answered, step.Result, step.Err = true, e.Data, e.Err
		} else {
			o.Open(e)
		}
		o.fold(step)
	case agentkernel.EntryResult:
		if begun := o.open[e.Call]; begun != nil {
			step := *begun
			step.Answered, step.Result, step.Err = true, e.Data, e.Err
			if delete(o.open, e.Call); len(o.open) == 0 {
				o.open = nil
			}
			o.fold(step)
		}
	case agentkernel.EntryAborted:
		o.tell(sys.Step{PID: o.pid, Call: e.Call, At: e.At, Aborted: true, Err: e.Err})
	case agentkernel.EntrySettled:
		if e.Async || len(e.Reserve) > 0 { // it has more to give, or waits for its turn again
			break
		}
		o.tell(sys.Step{PID: o.pid, Call: e.Call, At: e.At, Settled: true})
	}
	return o
}

// tell tells all who keep something.
func (o *Of) tell(step sys.Step) {
	for i := range o.data {
		if o.data[i] != nil {
			o.data[i] = o.set.locals[i].Fold(o.data[i], &step)
		}
	}
}

func (o *Of) fold(step sys.Step) {
	for _, i := range o.set.byOp[step.Op] {
		var data any
		if o.data != nil {
			data = o.data[i]
		}
		if data = o.set.locals[i].Fold(data, &step); data != nil || o.data != nil {
			o.put(i, data)
		}
	}
}

// Data is what a family keeps; nil: nothing.
func (o *Of) Data(family string) any {
	if i := slices.Index(o.set.names, family); i >= 0 && o.data != nil {
		return o.data[i]
	}
	return nil
}

// Save is what an image keeps, by family; nil: nothing.
func (o *Of) Save() map[string]json.RawMessage {
	var all map[string]json.RawMessage
	for i, data := range o.data {
		if data != nil {
			if all == nil {
				all = map[string]json.RawMessage{}
			}
			all[o.set.names[i]] = o.set.locals[i].Save(data)
		}
	}
	return all
}

// Drop lets go of everything, once: the process has ended, or leaves memory.
func (o *Of) Drop() {
	data := o.data
	if data != nil {
		o.data, o.open = nil, nil
	}
	for i := range data {
		if drop := o.set.locals[i].Drop; drop != nil && data[i] != nil {
			drop(o.pid, data[i])
		}
	}
}
