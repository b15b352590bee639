package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"agentkernel"
	"agentkernel/internal/shellword"
)

// Kind says what a file was accepted as. What a model is told is read with other eyes than what starts commands, so one does not count as
// the other.
type Kind string

// The kinds.
const (
	AsTools Kind = "tools" // a tools file: it starts commands and declares tools harmless
	AsRules Kind = "rules" // it is told to a model
	AsLocal Kind = "local" // a folder of local tools, which a model is told of
)

// Trust remembers which contents of which project files the user has accepted, and as what. A file that a project folder
// brings along starts commands and declares tools harmless, so it counts only after the user has seen it;
// a changed file must be accepted again. Safe for concurrent use within one process.
type Trust struct {
	path    string
	project string // whose acceptances count; "": each file's own
	mu      sync.Mutex
}

// NewTrust keeps its records in the JSON file at path ({"accepted_as": {"tools": {"<file>": "<sha256>", ...}, ...}}), which
// need not exist yet. What an earlier version has accepted, without saying as what, counts no longer.
func NewTrust(path string) *Trust { return &Trust{path: path} }

// In is the trust in files that a project names and that are not its own: what was accepted in another project starts commands there, and has
// not been accepted for this one. They are in "accepted_for", by the project's folder.
func (t *Trust) In(project string) *Trust { return &Trust{path: t.path, project: project} }

type trustFile struct {
	Accepted map[Kind]map[string]string            `json:"accepted_as"`
	For      map[string]map[Kind]map[string]string `json:"accepted_for,omitempty"`
}

// of is what was accepted in a project; "": in each file's own.
func (f *trustFile) of(project string) map[Kind]map[string]string {
	if project == "" {
		return f.Accepted
	}
	return f.For[project]
}

// Accepted says whether a file with this content was accepted. The content is what was read already, so that what is checked is what is used.
func (t *Trust) Accepted(as Kind, file string, content []byte) (ok bool, err error) {
	err = t.look(file, func(rec *trustFile, file string) { ok = rec.of(t.project)[as][file] == contentHash(content) })
	return ok, err
}

// look hands fn what was accepted, and the name by which a file stands there.
func (t *Trust) look(file string, fn func(rec *trustFile, file string)) error {
	file, err := canonicalFile(file)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	rec, err := t.read()
	if err != nil {
		return err
	}
	fn(rec, file)
	return nil
}

// Accept accepts a file with the content that the user has seen, whatever it holds by now; earlier contents stay accepted no longer.
func (t *Trust) Accept(as Kind, file string, content []byte) error {
	file, err := canonicalFile(file)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	rec, err := t.read()
	if err != nil {
		return err
	}
	if t.project != "" && rec.For == nil {
		rec.For = map[string]map[Kind]map[string]string{}
	}
	if t.project != "" && rec.For[t.project] == nil {
		rec.For[t.project] = map[Kind]map[string]string{}
	}
	accepted := rec.of(t.project)
	if accepted[as] == nil {
		accepted[as] = map[string]string{}
	}
	accepted[as][file] = contentHash(content)
	return t.write(rec)
}

// anywhere says whether a tools file with this content was accepted in any project.
func (t *Trust) anywhere(file string, content []byte) (ok bool, err error) {
	err = t.look(file, func(rec *trustFile, file string) {
		ok = rec.Accepted[AsTools][file] == contentHash(content)
		for _, accepted := range rec.For {
			ok = ok || accepted[AsTools][file] == contentHash(content)
		}
	})
	return ok, err
}

// Require is the check for [Config.Changed]: CodeDenied if the content was not accepted as a tools file. The file was named already, by
// whoever started the process, so the project does not matter.
func (t *Trust) Require(file string, content []byte) error {
	ok, err := t.anywhere(file, content)
	if err != nil {
		return err
	}
	if !ok {
		return agentkernel.Errorf(agentkernel.CodeDenied, "trust", "the project file %s has not been accepted; it would start commands", file).
			WithHint("read it, then: agentkernel tools trust %s", shellword.File(file))
	}
	return nil
}

func (t *Trust) read() (*trustFile, error) {
	rec := &trustFile{Accepted: map[Kind]map[string]string{}}
	raw, err := os.ReadFile(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return rec, nil
	}
	if err != nil {
		return nil, fileError(t.path, err)
	}
	if err := json.Unmarshal(raw, rec); err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeCorrupt, "trust", "%s is damaged: %w", t.path, err).
			WithHint("delete it and accept your project files again")
	}
	if rec.Accepted == nil {
		rec.Accepted = map[Kind]map[string]string{}
	}
	return rec, nil
}

// write replaces the record in one step.
func (t *Trust) write(rec *trustFile) error {
	raw, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(t.path), ".trust-*")
	if err == nil {
		_, err = tmp.Write(append(raw, '\n'))
		err = errors.Join(err, tmp.Sync(), tmp.Close())
		if err == nil {
			err = os.Rename(tmp.Name(), t.path)
		}
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}
	if err != nil {
		return &agentkernel.Error{Code: agentkernel.CodeStorage, Op: "trust", Err: fmt.Errorf("writing %s: %w", t.path, err)}
	}
	return nil
}

// canonicalFile is the absolute path without symbolic links, so that one file has one record.
func canonicalFile(file string) (string, error) {
	abs, err := filepath.Abs(file)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fileError(file, err)
	}
	return abs, nil
}

func contentHash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
