package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/recording"
)

// sealedNamespace is where recorded programs run: a worker never changes its namespace, so that one that ran
// a stranger's program serves nobody else.
const sealedNamespace = "$replay"

// sealed makes a process repeat a recording and do nothing else: no call is made, nothing is journalled, and
// whatever the recording does not have ends it as a divergence. It is not in the process table.
type sealed struct {
	cut     string             // why the recording does not show the program's own end; "": it does
	last    int64              // number of the last recorded call
	stop    *agentkernel.Error // ends a process that has repeated all of a recording that was cut
	done    chan struct{}      // closed when the process has ended
	once    sync.Once
	outcome ending
}

// Replay runs the program of a recording on nothing but the recording.
func (k *Kernel) Replay(ctx context.Context, file []byte, o agentkernel.ReplayOptions) (agentkernel.Verdict, error) {
	if err := k.accepting(); err != nil {
		return agentkernel.Verdict{}, err
	}
	r, err := recording.Decode(file)
	if err != nil {
		return agentkernel.Verdict{}, err
	}
	if r.Spec.HasFiles() {
		e := agentkernel.Errorf(agentkernel.CodeUnsupported, "replay", "the program worked in a folder, and a recording does not hold what it found there: it cannot be repeated here")
		if r.Files != nil {
			e = e.WithHint("agentkernel import shows what it did, and the files that it made")
		}
		return agentkernel.Verdict{}, e
	}
	if r.Spec.Stdin != "" {
		return agentkernel.Verdict{}, agentkernel.Errorf(agentkernel.CodeUnsupported, "replay", "the program read standard input, and a recording holds no files: it cannot be repeated here")
	}
	if err := replayEnvironment(r, o); err != nil {
		return agentkernel.Verdict{}, err
	}
	p, err := k.sealedProcess(r, o)
	if err != nil {
		return agentkernel.Verdict{}, err
	}
	v := agentkernel.Verdict{
		Cut: p.sealed.cut, State: r.Process.State, ExitCode: r.Process.ExitCode, Result: r.Process.Result, Error: r.Process.Error,
		PID: r.Process.PID, Name: r.Spec.Program.Name, Engine: p.fingerprint, Recorded: r.Manifest.Fingerprint, Output: p.account.Output,
	}
	if p.replay == nil && p.sealed.cut != "" { // nothing was recorded that could be repeated
		v.Equal = true
		return v, nil
	}
	if err := k.runSealed(ctx, p); err != nil {
		return agentkernel.Verdict{}, err
	}
	v.Calls = p.calls
	v.Difference, err = p.sealed.compare(r, p.spec.limits)
	v.Equal = v.Difference == ""
	return v, err
}

// replayEnvironment puts the environment that the caller names in the place of the one that the recording names, which
// may have been written by anybody.
func replayEnvironment(r *recording.Recording, o agentkernel.ReplayOptions) error {
	had := r.Spec.Program.Host != ""
	r.Spec = r.Spec.WithoutHost()
	switch {
	case o.Environment != "" && !filepath.IsAbs(o.Environment):
		return agentkernel.Errorf(agentkernel.CodeInvalid, "replay", "the environment %.100q is not an absolute path", o.Environment)
	case had && o.Environment == "":
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "replay", "the program had packages, and a recording holds none").
			WithHint("name them: agentkernel replay FILE --with PACKAGE, or --python VENV")
	case had:
		r.Spec.Program.Host = o.Environment
	}
	return nil
}

// runSealed runs a sealed process to its end.
func (k *Kernel) runSealed(ctx context.Context, p *process) error {
	// Close waits for programs that run; this one is in no table in which it could be found.
	release := context.AfterFunc(k.ctx, func() {
		k.killFor(p, agentkernel.Errorf(agentkernel.CodeUnavailable, "replay", "the kernel is stopping"))
	})
	defer release()
	p.mu.Lock()
	p.to(agentkernel.StateReady)
	p.mu.Unlock()
	k.queue.push(p)
	select {
	case <-p.sealed.done:
		return nil
	case <-k.ctx.Done():
	case <-ctx.Done():
	}
	k.killFor(p, agentkernel.Errorf(agentkernel.CodeCanceled, "replay", "the replay was given up"))
	<-p.sealed.done
	if k.ctx.Err() != nil {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "replay", "the kernel is stopping")
	}
	return agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "replay")
}

// sealedProcess makes a process of a recording, or says why its program cannot run here.
func (k *Kernel) sealedProcess(r *recording.Recording, o agentkernel.ReplayOptions) (*process, error) {
	unsupported := func(format string, args ...any) *agentkernel.Error {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "replay", format, args...)
	}
	var found *backend
	for _, b := range k.backends {
		if b.Name == r.Process.Backend {
			found = b
		}
	}
	switch {
	case r.Process.Backend == hostedBackend:
		return nil, unsupported("the program ran outside the kernel and is not in the recording")
	case found == nil:
		return nil, unsupported("the program ran on the backend %.40q, which is not here", r.Process.Backend)
	case !found.Replayable || !r.Spec.Program.Language.Replayable():
		return nil, unsupported("programs in %s on the backend %s do not repeat themselves", r.Spec.Program.Language, found.Name)
	}
	spec := agentkernel.Spec{Program: r.Spec.Program, Namespace: sealedNamespace, Backend: found.Name, Deny: r.Spec.Deny,
		Limits: sealedLimits(r.Spec.Limits, o, k.cfg.Limits)}
	needs, err := found.Check(spec.Program)
	if err != nil {
		return nil, err
	}
	h := history.Fold(history.Base{}, r.Entries)
	var tools []agentkernel.Tool
	noted := h.Noted && json.Unmarshal(h.Tools, &tools) == nil
	if !noted && len(needs.Tools) > 0 {
		return nil, unsupported("the process ended before its program ran: %s", endText(r.Process.State, r.Process.ExitCode, r.Process.Error)).
			WithHint("agentkernel import puts it into the store, where it can be looked at")
	}
	// Not a PID of the store's: none is used up, and none is like it.
	p := k.newProcess(agentkernel.PID(k.replays.Add(-1)), k.specs.own(&spec), found)
	p.fingerprint, p.noted = found.Fingerprint, true
	p.bound = &binding{source: noTools{}, tools: tools}
	p.replay = &replay{Queue: h.Queue, session: spec.Program.Session}
	p.account = h.Account
	p.sealed = &sealed{cut: cutBy(r), done: make(chan struct{}),
		stop: agentkernel.Errorf(agentkernel.CodeCanceled, "replay", "the recording ends here")}
	p.sealed.last = p.account.Calls
	if p.replay.Empty() { // replayed would end it: it has not begun
		p.replay = nil
	}
	return p, nil
}

// sealedLimits are those of the recording where they matter for what the program does, but never more of this
// machine than whoever replays it grants.
func sealedLimits(l agentkernel.Limits, o agentkernel.ReplayOptions, defaults agentkernel.Limits) agentkernel.Limits {
	granted := agentkernel.Limits{Time: o.Time, Memory: o.Memory}.WithDefaults(defaults)
	l = l.WithDefaults(defaults)
	l.Time, l.Memory, l.Wall = min(l.Time, granted.Time), min(l.Memory, granted.Memory), 0
	return l
}

// cutBy says why a recording does not show the program's own end: it was ended from outside, at a moment that no
// replay can find again.
func cutBy(r *recording.Recording) string {
	e := r.Process.Error
	switch {
	case !r.Process.State.Terminal():
		return "the process had not ended when it was exported"
	case e == nil || r.Process.State == agentkernel.StateFailed && repeatable(e):
		return ""
	case e.Code == agentkernel.CodeLimit:
		switch e.Op {
		case "limit.memory", "limit.recursion", "limit.output", "limit.calls":
			return ""
		}
	}
	return "the process was ended from outside: " + e.Message()
}

// repeatable says whether an end is the program's own, so that it comes again.
func repeatable(e *agentkernel.Error) bool {
	switch agentkernel.CodeOf(errOrNil(e)) {
	case agentkernel.CodeCrashed, agentkernel.CodeDiverged, agentkernel.CodeUnavailable, agentkernel.CodeStorage, agentkernel.CodeCorrupt,
		agentkernel.CodeVersion, agentkernel.CodeInternal, agentkernel.CodeCanceled:
		return false
	}
	return true
}

// repeated is called when nothing is left to repeat; p.mu is held.
func (s *sealed) repeated(p *process) {
	if s.cut != "" && p.cause == nil {
		p.cause = s.stop
		p.endLife()
	}
}

// beyond deals with a call that the recording does not have. False: the process has ended.
func (k *Kernel) beyond(p *process, f *inflight, canonical json.RawMessage) bool {
	if f.id < p.sealed.last && f.async {
		// It was under way when the process ended, and not as far as its journal.
		p.mu.Lock()
		p.inflight.add(f)
		p.mu.Unlock()
		return true
	}
	k.finish(p, endingFor(diverged("the program goes on with call %d, which the recording does not have: %s", f.id,
		journal.Short(describeCall(f.op, f.async, canonical), 120))))
	return false
}

// stuck ends a sealed process that waits: nothing comes from outside.
func (k *Kernel) stuck(p *process) {
	p.mu.Lock()
	waits := p.state == agentkernel.StateWaiting && !p.owned && !p.deliverable()
	cause := p.cause
	p.mu.Unlock()
	switch {
	case cause != nil:
		k.finish(p, endingFor(cause))
	case waits:
		k.finish(p, endingFor(diverged("the program waits for a result that the recording does not have")))
	}
}

// ended takes how a sealed process ended.
func (s *sealed) ended(e ending) {
	s.once.Do(func() {
		s.outcome = e
		close(s.done)
	})
}

// compare gives the first difference between the recording and what came of its replay, "" if there is none.
// The error says that there was no replay.
func (s *sealed) compare(r *recording.Recording, limits agentkernel.Limits) (string, error) {
	got, err := s.outcome, s.outcome.err
	want := r.Process.Error
	switch {
	case err == s.stop:
		return "", nil
	case err != nil && err.Code == agentkernel.CodeDiverged:
		return err.Message(), nil
	case err != nil && (err.Code == agentkernel.CodeUnavailable || err.Code == agentkernel.CodeCrashed || err.Code == agentkernel.CodeInternal):
		return "", err
	case s.cut != "":
		return fmt.Sprintf("it ended before all was repeated: %s", endText(got.state, got.exitCode, err)), nil
	}
	end, wanted := endText(got.state, got.exitCode, err), endText(r.Process.State, r.Process.ExitCode, want)
	switch {
	case end != wanted:
		text := fmt.Sprintf("it ended as %s; the recording ends as %s", end, wanted)
		if err != nil && err.Code == agentkernel.CodeLimit {
			text += fmt.Sprintf(" (a replay has %s and %s; --time and --memory grant more)", limits.Time, byteCount(limits.Memory))
		}
		return text, nil
	case string(got.result) != string(r.Process.Result):
		return "its result is another\n" + journal.Diff(r.Process.Result, got.result), nil
	}
	return "", nil
}

// endText is an end as far as a replay can find it again.
func endText(state agentkernel.State, code int, err *agentkernel.Error) string {
	switch {
	case err == nil:
		return fmt.Sprintf("%s with code %d", state, code)
	case err.Code == agentkernel.CodeLimit:
		return fmt.Sprintf("%s by %s", state, err.Op)
	}
	return fmt.Sprintf("%s (%s: %s)", state, err.Code, err.Message())
}
