package recording

import (
	"context"
	"encoding/json"
	"path/filepath"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/history"
)

// Export gives a process as a recording.
func (r *Recorder) Export(ctx context.Context, pid agentkernel.PID, o agentkernel.ExportOptions) ([]byte, error) {
	rec, err := r.record(ctx, pid)
	if err != nil {
		return nil, err
	}
	if o.Files {
		if rec.Files, err = r.recordFiles(ctx, pid); err != nil {
			return nil, err
		}
	}
	created := rec.Spec
	rec.Spec = exportedSpec(&created)
	if !o.Unredacted && len(created.Tools) > 0 {
		if err := r.redact(ctx, rec, &created); err != nil {
			return nil, err
		}
	}
	return encodeExported(rec)
}

// encodeExported encodes a recording that may have been redacted.
func encodeExported(rec *Recording) ([]byte, error) {
	if len(rec.Entries) > 0 && rec.Entries[0].Kind == agentkernel.EntryCreated {
		rec.Entries[0].Data = history.SpecData(&rec.Spec)
	}
	rec.Files = withoutTwins(rec.Files)
	if p := &rec.Process; !p.Ended.IsZero() && p.Created.Sub(p.Ended) > maxSetBack { // no import would take it
		p.Ended = p.Created
	}
	return Encode(rec)
}

// Redact takes secrets out of a recording that was exported. Errors: those of Decode.
func Redact(file []byte, red agentkernel.Redaction) ([]byte, error) {
	rec, err := Decode(file)
	if err != nil {
		return nil, err
	}
	redactRecording(rec, red)
	rec.Manifest.Redacted = true
	clean, err := encodeExported(rec)
	if err != nil {
		return nil, err
	}
	_, err = Decode(clean) // what was replaced may have had a form
	return clean, err
}

// recordedEnvironment stands in a recording for the place of the program's packages.
const recordedEnvironment = "/environment"

// exportedSpec names what of a Spec leaves the machine: a field that is added to Spec stays at home until somebody
// has thought about it here.
func exportedSpec(s *agentkernel.Spec) agentkernel.Spec {
	bare := s.WithoutHost()
	out := agentkernel.Spec{
		Program: bare.Program, Backend: s.Backend, Namespace: s.Namespace, Parent: s.Parent, Priority: s.Priority, Limits: s.Limits,
		Allow: s.Allow, AllowHosts: s.AllowHosts, Deny: s.Deny, OnUnknown: s.OnUnknown, Durability: s.Durability, Past: s.Past,
	}
	if s.Program.Host != "" {
		out.Program.Host = recordedEnvironment
	}
	if s.HasFiles() { // the files stay here; that there were some is told, since a replay needs them
		out.Workspace = &agentkernel.Workspace{Path: "/workspace"}
	}
	if s.Stdin != "" {
		out.Stdin = "/dev/stdin"
	}
	for _, f := range s.Tools {
		out.Tools = append(out.Tools, filepath.Base(f)) // where they lie on this machine is nobody's business
	}
	return out
}

// record reads a process as it is at this moment.
func (r *Recorder) record(ctx context.Context, pid agentkernel.PID) (*Recording, error) {
	row, err := r.store.Process(ctx, pid)
	if err != nil {
		return nil, err
	}
	entries, err := r.store.Entries(ctx, pid, 1, 0)
	if err != nil {
		return nil, err
	}
	if n := len(entries); n > 0 && entries[n-1].Kind == agentkernel.EntryTerminal && !row.State.Terminal() {
		if row, err = r.store.Process(ctx, pid); err != nil { // it has just ended
			return nil, err
		}
	}
	state, err := r.store.State(ctx, pid)
	if err := history.StillThere(ctx, r.store, pid, err); err != nil {
		return nil, err
	}
	return &Recording{
		Manifest: Manifest{Version: r.cfg.Version, Store: r.origin.UUIDOf(pid), PID: pid, Backend: row.Backend, Fingerprint: row.Fingerprint},
		Spec:     row.Spec, Process: row.Process, Entries: entries, State: state,
	}, r.host.Settled(ctx)
}

// redact takes the secrets of the process's tool servers out of everything.
func (r *Recorder) redact(ctx context.Context, rec *Recording, created *agentkernel.Spec) error {
	red, err := r.redaction(ctx, created)
	if err != nil {
		e := agentkernel.AsError(err, agentkernel.CodeUnavailable, "export")
		return agentkernel.Errorf(e.Code, "export", "the secrets of its tool servers, which are taken out, are not known: %w", e).
			WithHint("mend the configuration, or export with --unredacted and look what is in it before you pass it on")
	}
	redactRecording(rec, red)
	rec.Manifest.Redacted = true
	return nil
}

// redaction knows the secrets of the tool servers that a Spec names.
func (r *Recorder) redaction(ctx context.Context, s *agentkernel.Spec) (agentkernel.Redaction, error) {
	var keeper agentkernel.SecretKeeper
	if r.cfg.Tools != nil {
		src, err := r.cfg.Tools(s.ToolFiles())
		if err != nil {
			return nil, err
		}
		keeper, _ = src.(agentkernel.SecretKeeper)
	}
	if keeper == nil {
		return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "export", "these tools keep their secrets to themselves")
	}
	return keeper.Redaction(ctx)
}

func redactRecording(r *Recording, red agentkernel.Redaction) {
	s := &r.Spec
	s.Program.Name, s.Program.Source = red.Text(s.Program.Name), red.Source(s.Program.Source)
	if len(s.Program.Modules) > 0 {
		modules := map[string]string{}
		for name, text := range s.Program.Modules {
			modules[name] = red.Source(text)
		}
		s.Program.Modules = modules
	}
	s.Program.Args = redactTexts(s.Program.Args, red)
	s.Allow, s.AllowHosts, s.Deny = redactTexts(s.Allow, red), redactTexts(s.AllowHosts, red), redactTexts(s.Deny, red)
	p := &r.Process
	p.Name, p.PauseNote, p.Result, p.Error = red.Text(p.Name), red.Text(p.PauseNote), red.JSON(p.Result), redactError(p.Error, red)
	if p.Moved != nil {
		moved := *p.Moved
		moved.Why = red.Text(moved.Why)
		p.Moved = &moved
	}
	state := map[string]json.RawMessage{}
	for key, v := range r.State {
		state[red.Text(key)] = redactNamed(key, v, red)
	}
	r.State = state
	for i := range r.Entries { // before what was printed, of which arguments may tell what is secret
		r.Entries[i].Args = redactArgs(r.Entries[i].Args, red)
	}
	redactOutput(r.Entries, red) // a piece alone may not show that it is one
	for i := range r.Entries {
		e := &r.Entries[i]
		e.Data, e.Note, e.Err = red.JSON(e.Data), red.Text(e.Note), redactError(e.Err, red)
	}
	redactFiles(r.Files, red)
}

// redactNamed shows the redaction the name of a value, which may say that it is secret.
func redactNamed(name string, value json.RawMessage, red agentkernel.Redaction) json.RawMessage {
	type named struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	}
	pair, err := json.Marshal(named{name, value})
	var clean named
	if err != nil || json.Unmarshal(red.JSON(pair), &clean) != nil || len(clean.Value) == 0 {
		return red.JSON(value) // no value of JSON: its text is looked through
	}
	return clean.Value
}

// redactArgs keeps the canonical form: a replaced key may belong elsewhere.
func redactArgs(args json.RawMessage, red agentkernel.Redaction) json.RawMessage {
	if len(args) == 0 {
		return args
	}
	clean := red.JSON(args)
	if canonical, err := journal.Canonical(clean); err == nil {
		return canonical
	}
	return clean
}

func redactTexts(list []string, red agentkernel.Redaction) []string {
	var out []string
	for _, s := range list {
		out = append(out, red.Text(s))
	}
	return out
}

func redactError(e *agentkernel.Error, red agentkernel.Redaction) *agentkernel.Error {
	if e == nil {
		return nil
	}
	c := agentkernel.Errorf(e.Code, e.Op, "%s", red.Text(e.Message()))
	c.PID, c.Hint, c.Traceback, c.Exception = e.PID, red.Text(e.Hint), red.Text(e.Traceback), e.Exception
	return c
}

// redactOutput finds what was printed in pieces: a secret whose characters stand in several entries. The text of
// a stream goes into its first entry then; a replay compares texts, not pieces.
func redactOutput(entries []agentkernel.Entry, red agentkernel.Redaction) {
	for _, stream := range []string{"stdout", "stderr"} {
		var whole []byte
		first := -1
		for i := range entries {
			if entries[i].Kind == agentkernel.EntryOutput && entries[i].Stream == stream {
				if first < 0 {
					first = i
				}
				whole = append(whole, history.Text(&entries[i])...)
			}
		}
		if first < 0 || red.Text(string(whole)) == string(whole) {
			continue
		}
		for i := range entries {
			if entries[i].Kind == agentkernel.EntryOutput && entries[i].Stream == stream {
				entries[i].Data = json.RawMessage(`""`)
			}
		}
		entries[first].Data = journal.String(red.Text(string(whole)))
	}
}
