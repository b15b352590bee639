package recording

import (
	"context"
	"fmt"
	"path/filepath"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/history"
)

// Replay runs the program of a recording on nothing but the recording.
func (r *Recorder) Replay(ctx context.Context, file []byte, o agentkernel.ReplayOptions) (agentkernel.Verdict, error) {
	if err := r.host.Accepting(); err != nil {
		return agentkernel.Verdict{}, err
	}
	rec, err := Decode(file)
	if err != nil {
		return agentkernel.Verdict{}, err
	}
	if err := selfContained(rec); err != nil {
		return agentkernel.Verdict{}, err
	}
	if err := replayEnvironment(rec, o); err != nil {
		return agentkernel.Verdict{}, err
	}
	p, cut := &rec.Process, cutBy(rec)
	got, err := r.host.Verify(ctx, agentkernel.Verification{Spec: rec.Spec, Backend: p.Backend, Journal: rec.Entries, Cut: cut != "", Time: o.Time, Memory: o.Memory})
	if err != nil {
		return agentkernel.Verdict{}, err
	}
	if got.NotBegun {
		return agentkernel.Verdict{}, agentkernel.Errorf(agentkernel.CodeUnsupported, "replay", "the process ended before its program ran: %s", endText(p.State, p.ExitCode, p.Error)).
			WithHint("agentkernel import puts it into the store, where it can be looked at")
	}
	v := agentkernel.Verdict{
		Cut: cut, State: p.State, ExitCode: p.ExitCode, Result: p.Result, Error: p.Error, PID: p.PID, Name: rec.Spec.Program.Name,
		Engine: got.Engine, Recorded: rec.Manifest.Fingerprint, Output: got.Output, Calls: got.Calls,
	}
	v.Difference, err = difference(p, cut, &got)
	v.Equal = v.Difference == ""
	return v, err
}

// selfContained refuses the recording of a program that needs files which are not in it.
func selfContained(r *Recording) error {
	switch {
	case r.Spec.HasFiles():
		e := agentkernel.Errorf(agentkernel.CodeUnsupported, "replay", "the program worked in a folder, and a recording does not hold what it found there: it cannot be repeated here")
		if r.Files != nil {
			e = e.WithHint("agentkernel import shows what it did, and the files that it made")
		}
		return e
	case r.Spec.Stdin != "":
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "replay", "the program read standard input, and a recording holds no files: it cannot be repeated here")
	}
	return nil
}

// replayEnvironment puts the environment that the caller names in the place of the one that the recording names, which
// may have been written by anybody.
func replayEnvironment(r *Recording, o agentkernel.ReplayOptions) error {
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

// cutBy says why a recording does not show the program's own end: it was ended from outside, at a moment that no
// replay can find again.
func cutBy(r *Recording) string {
	e := r.Process.Error
	limit, _ := e.Limit()
	switch {
	case !r.Process.State.Terminal():
		return "the process had not ended when it was exported"
	case e == nil || r.Process.State == agentkernel.StateFailed && history.Repeatable(e):
		return ""
	case limit == "memory" || limit == "recursion" || limit == "output" || limit == "calls":
		return ""
	}
	return "the process was ended from outside: " + e.Message()
}

// difference is the first one between the recorded process and what its program did now, "" if there is none. cut is what
// cutBy says. The error says that the program was not run to an end of its own.
func difference(want *agentkernel.Process, cut string, got *agentkernel.Verified) (string, error) {
	err := got.Error
	switch {
	case got.Repeated:
		return "", nil
	case err != nil && err.Code == agentkernel.CodeDiverged:
		return err.Message(), nil
	case err != nil && (err.Code == agentkernel.CodeUnavailable || err.Code == agentkernel.CodeCrashed || err.Code == agentkernel.CodeInternal):
		return "", err
	case cut != "":
		return fmt.Sprintf("it ended before all was repeated: %s", endText(got.State, got.ExitCode, err)), nil
	}
	end, wanted := endText(got.State, got.ExitCode, err), endText(want.State, want.ExitCode, want.Error)
	switch {
	case end != wanted:
		text := fmt.Sprintf("it ended as %s; the recording ends as %s", end, wanted)
		if err != nil && err.Code == agentkernel.CodeLimit {
			text += fmt.Sprintf(" (a replay has %s and %s; --time and --memory grant more)", got.Limits.Time, bytesize.Text(got.Limits.Memory))
		}
		return text, nil
	case string(got.Result) != string(want.Result):
		return "its result is another\n" + journal.Diff(want.Result, got.Result), nil
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
