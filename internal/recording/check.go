package recording

import (
	"maps"
	"math"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/lazy"
)

var effects = []agentkernel.Effect{agentkernel.EffectPure, agentkernel.EffectRead, agentkernel.EffectIdempotent,
	agentkernel.EffectPaid, agentkernel.EffectWrite, agentkernel.EffectByTool, agentkernel.EffectByMethod, ""}

// The bounds of texts that are shown on one line.
const (
	maxName = 4 << 10
	maxNote = 1 << 20
)

// The bounds of what a process has used: far above what any can have, and so low that sums of them are numbers.
const (
	maxCount   = 1 << 40
	maxBytes   = 1 << 50
	maxRunning = 10 * 366 * 24 * time.Hour
)

// maxDropped is how many numbers of calls may be missing in a journal: a call that was dropped before it was written down has taken one.
const maxDropped = 1 << 20

// maxSetBack is by how much a process may have ended before it was created: clocks are set back.
const maxSetBack = 24 * time.Hour

// check says what makes no sense in a recording, so that whoever uses it need not.
func check(r *Recording) error {
	if err := checkProcess(r); err != nil {
		return err
	}
	r.Spec.Budget = agentkernel.Budget{} // it was for that run
	if err := r.Spec.Validate(); err != nil {
		return corrupt("the spec makes no sense: %w", err)
	}
	if err := checkFiles(r.Files); err != nil {
		return err
	}
	return checkJournal(r)
}

func checkProcess(r *Recording) error {
	p := &r.Process
	switch {
	case p.PID < 1 || p.PID != r.Manifest.PID:
		return corrupt("the process has the pid %d, the manifest says %d", p.PID, r.Manifest.PID)
	case len(p.Name) > maxName || len(r.Spec.Program.Name) > maxName || len(p.PauseNote) > maxNote:
		return corrupt("a name is too long")
	case len(p.Backend) > maxName || len(p.Fingerprint) > maxName || len(r.Spec.Backend) > maxName:
		return corrupt("the name of the backend, or its fingerprint, is too long")
	case !p.State.Terminal() && p.State != agentkernel.StateUnfinished:
		return corrupt("the process is in the state %.40q", string(p.State))
	case p.ExitCode < 0 || p.ExitCode > 255:
		return corrupt("the exit code is %d", p.ExitCode)
	case !sane(p.Created):
		return corrupt("the process was created (created) at %s, which cannot be", p.Created.Format(time.RFC3339))
	case !p.Ended.IsZero() && (!sane(p.Ended) || p.Created.Sub(p.Ended) > maxSetBack):
		return corrupt("the process ended (ended) at %s, which cannot be: it was created at %s", p.Ended.Format(time.RFC3339), p.Created.Format(time.RFC3339))
	}
	for _, n := range []struct {
		field      string
		used, most int64
	}{
		{"usage.syscalls", p.Usage.Syscalls, r.maxCall()}, {"usage.tool_calls", p.Usage.ToolCalls, maxCount}, {"usage.waits", p.Usage.Waits, maxCount},
		{"usage.running_ns", int64(p.Usage.Running), int64(maxRunning)}, {"usage.output", p.Usage.Output, maxBytes}, {"usage.bytes_in", p.Usage.BytesIn, maxBytes},
		{"recoveries", int64(p.Recoveries), math.MaxInt32},
	} {
		if n.used < 0 || n.used > n.most {
			return corrupt("%s of the process is %d, which cannot be: it is from 0 to %d", n.field, n.used, n.most)
		}
	}
	return nil
}

// maxCall is the highest number that a call can have: each call that has one more has an entry of its own, or was dropped.
func (r *Recording) maxCall() int64 { return int64(len(r.Entries)) + maxDropped }

var (
	changeKinds = []agentkernel.ChangeKind{agentkernel.FileAdded, agentkernel.FileChanged, agentkernel.FileDeleted}
	fileTypes   = []agentkernel.FileType{agentkernel.TypeFile, agentkernel.TypeDir, agentkernel.TypeSymlink, agentkernel.TypeOther}
	fileMode    = lazy.Regexp(`^[0-7]{0,4}$`)
)

// checkFiles says what makes no sense in what was done to files. Their names are shown and compared; nothing is opened
// by them.
func checkFiles(files []agentkernel.RecordedFile) error {
	seen := map[string]bool{}
	for i := range files {
		c := &files[i].Change
		bad := ""
		name, err := agentkernel.ParseFileName(c.Name())
		switch {
		case err != nil || name.Path != c.Path || name.Volume != c.Volume || len(c.Path) > maxName || len(c.Volume) > maxName:
			bad = "name"
		case seen[c.Name()]:
			bad = "twin"
		case !slices.Contains(changeKinds, c.Kind):
			bad = "kind of change"
		case !slices.Contains(fileTypes, c.Type):
			bad = "type"
		case c.Size < 0 || c.Before < 0 || c.Type != agentkernel.TypeFile && c.Size+c.Before != 0:
			bad = "size"
		case !fileMode().MatchString(c.Mode):
			bad = "mode"
		case len(c.Media) > maxName || len(c.Target) > maxName || len(c.LeftOut) > maxName || c.Conflict != "" || c.Withheld != "" || c.Applied:
			bad = "description"
		}
		if bad != "" {
			return corrupt("file %d, %.80q, has an impossible %s", i+1, c.Path, bad)
		}
		seen[c.Name()] = true
	}
	return nil
}

func checkJournal(r *Recording) error {
	if len(r.Entries) == 0 || r.Entries[0].Kind != agentkernel.EntryCreated {
		return corrupt("the journal does not begin with the creation of the process")
	}
	last, kinds := len(r.Entries)-1, agentkernel.EntryKinds()
	calls := map[int64]bool{} // true: it has its result
	for i := range r.Entries {
		e := &r.Entries[i]
		switch {
		case e.PID != r.Process.PID || e.Seq != int64(i)+1:
			return corrupt("entry %d of the journal says that it is entry %d of process %d", i+1, e.Seq, e.PID)
		case !slices.Contains(kinds, e.Kind):
			return newer("entry %d of the journal is of the kind %.40q, which this agentkernel does not know", e.Seq, string(e.Kind))
		case (e.Kind == agentkernel.EntryTerminal) != (i == last && r.Process.State.Terminal()):
			return corrupt("the journal and the process do not agree on where it ends")
		case e.Kind == agentkernel.EntryCreated && i > 0:
			return corrupt("entry %d of the journal creates the process once more", e.Seq)
		case !inOrder(calls, e):
			return corrupt("entry %d of the journal is the second %s of call %d, or the result of a call that was not made", e.Seq, e.Kind, e.Call)
		}
		if err := checkEntry(e, r.maxCall()); err != nil {
			return err
		}
	}
	return nil
}

// inOrder says whether a call is made once, and has at most one result, behind it: of two, one reader takes the first and another the last.
func inOrder(calls map[int64]bool, e *agentkernel.Entry) bool {
	answered, made := calls[e.Call]
	switch e.Kind {
	case agentkernel.EntryCall:
		calls[e.Call] = e.Done
		return !made
	case agentkernel.EntryResult:
		calls[e.Call] = true
		return made && !answered
	}
	return true
}

func checkEntry(e *agentkernel.Entry, maxCall int64) error {
	var bad string
	switch {
	case e.Call < 0 || e.Call > maxCall || (e.Kind == agentkernel.EntryCall || e.Kind == agentkernel.EntryResult) && e.Call == 0:
		bad = "number of the call"
	case len(e.Op) > maxName || e.Kind == agentkernel.EntryCall && e.Op == "":
		bad = "operation"
	case !slices.Contains(effects, e.Effect):
		bad = "effect"
	case e.Stream != "" && e.Stream != "stdout" && e.Stream != "stderr" && !placed(e):
		bad = "stream"
	case len(e.Note) > maxNote:
		bad = "note"
	case !sane(e.At):
		bad = "time"
	case lessThanNothing(e):
		bad = "amount"
	default:
		return nil
	}
	return corrupt("entry %d of the journal has an impossible %s", e.Seq, bad)
}

// lessThanNothing says whether an entry uses up or reserves less than nothing: that would leave others more.
func lessThanNothing(e *agentkernel.Entry) bool {
	all := []agentkernel.Amounts{e.Reserve, e.Settle}
	if e.Kind == agentkernel.EntrySignal {
		all = append(all, history.SignalOf(e).Warns)
	}
	return slices.ContainsFunc(all, func(a agentkernel.Amounts) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(a)), func(n int64) bool { return n < 0 })
	})
}

// placed says whether an entry is a call of a hosted program, and says where in it.
func placed(e *agentkernel.Entry) bool {
	_, ok := agentkernel.ParsePlace(e.Stream)
	return ok && e.Kind == agentkernel.EntryCall
}

// sane says whether a time is one that a clock can show: as nanoseconds since 1970, so that the time between any two is a number, too.
func sane(t time.Time) bool { return t.Year() >= 1970 && t.Year() < 2262 }
