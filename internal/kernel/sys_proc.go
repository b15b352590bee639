package kernel

import (
	"context"
	"encoding/json"
	"fmt"

	"agentkernel"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/specs"
	"agentkernel/internal/sys"
)

// procCalls is the family of processes: who am I, end, start a child, wait for it.
var procCalls = map[string]ownOp{
	opSelf:       {now: procSelf, inherit: selfOf},
	opExit:       {exits: true},
	"proc.spawn": {now: procSpawn, once: true},
	"proc.wait":  {begin: procWait},
}

// The names of the calls that the kernel knows by name.
const (
	opSelf = "proc.self"
	opExit = "proc.exit"
)

// decodeArgs reads a call's arguments strictly; the error says the expected signature.
func decodeArgs(f *inflight, v any) error { return sys.Decode(&f.handler.Syscall, f.args, v) }

func procSelf(_ *Kernel, p *process, _ *inflight) (json.RawMessage, error) {
	return json.Marshal(map[string]any{"pid": p.pid, "parent": p.spec.Parent, "namespace": p.spec.Namespace,
		"name": p.spec.Program.Name, "priority": p.spec.Priority, "args": append([]string{}, p.spec.Program.Args...)})
}

// exit journals proc.exit, unless the journal has it since the end was lost, and ends the process.
func (k *Kernel) exit(p *process, f *inflight, canonical json.RawMessage, again bool) {
	code, text := history.ExitCode(f.args)
	if text != "" {
		k.output(p, "stderr", text+"\n")
	}
	p.mu.Lock()
	if !again && !p.state.Terminal() {
		entry := f.entry(canonical)
		entry.Done = true
		k.append(p, entry)
	}
	p.mu.Unlock()
	k.finish(p, k.settleFiles(p, ends.Ending{State: agentkernel.StateExited, ExitCode: code}))
}

func procSpawn(k *Kernel, p *process, f *inflight) (json.RawMessage, error) {
	var a specs.SpawnArgs
	if err := decodeArgs(f, &a); err != nil {
		return nil, err
	}
	p.mu.Lock()
	stopping := p.stopping()
	p.mu.Unlock()
	if stopping {
		return nil, agentkernel.Errorf(agentkernel.CodeConflict, f.op, "the process was asked to stop, and can start no children")
	}
	spec, err := k.childSpec(p, f, a)
	if err != nil {
		return nil, err
	}
	if pid, err := k.inheritChild(p, f, &spec); pid != 0 || err != nil {
		return json.RawMessage(pid.String()), err
	}
	room, err := k.roomForChild(p, f.op)
	if err != nil {
		return nil, err
	}
	child, existing, err := k.create(p.context(), spec, nil)
	if err != nil || existing != 0 {
		room.Settle(0)
		return json.RawMessage(existing.String()), err
	}
	room.Settle(child.pid)
	k.stopNewborn(p, child)
	k.launch(child)
	return json.Marshal(child.pid)
}

type waitArgs struct {
	PID     agentkernel.PID `json:"pid"`
	Timeout *float64        `json:"timeout"`
}

func procWait(k *Kernel, p *process, f *inflight) error {
	var a waitArgs
	if err := decodeArgs(f, &a); err != nil {
		return err
	}
	p.mu.Lock()
	f.label, f.child = fmt.Sprintf("%s %d", f.op, a.PID), a.PID
	p.mu.Unlock()
	rec, err := k.store.Process(p.context(), a.PID)
	if err != nil || rec.Parent != p.pid && !p.run.origin.IsOf(rec.Parent) {
		return p.run.origin.NoChild(f.op, a.PID, p.pid)
	}
	if k.lookup(a.PID) == nil && rec.State.Terminal() {
		k.completeWait(p, f, a.PID)
		return nil
	}
	if rec.Parent != p.pid {
		k.watchForeign(p, f, a.PID)
	}
	if a.Timeout != nil {
		p.mu.Lock()
		f.timer = k.timers.At(f.since.Add(sys.Seconds(*a.Timeout)), func() {
			k.complete(p, f, outcome{}, agentkernel.Errorf(agentkernel.CodeTimeout, f.op, "process %d has not ended within %v s", a.PID, *a.Timeout))
		})
		p.mu.Unlock()
	}
	k.recheckChild(p, f, a.PID)
	return nil
}

// recheckChild catches a child that ended while its parent began to wait.
func (k *Kernel) recheckChild(p *process, f *inflight, child agentkernel.PID) {
	if k.lookup(child) != nil {
		return
	}
	rec, err := k.store.Process(p.context(), child)
	if err == nil && rec.State.Terminal() {
		k.completeWait(p, f, child)
	}
}

// completeWait answers a wait for a child that has ended.
func (k *Kernel) completeWait(p *process, f *inflight, child agentkernel.PID) {
	ctx := context.WithoutCancel(p.context())
	result, err := history.Waited(ctx, k.store, child)
	k.complete(p, f, outcomeOf(result), err)
}
