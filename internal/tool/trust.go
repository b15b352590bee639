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
	"slices"
	"sync"

	"agentkernel"
	"agentkernel/internal/shellword"
)

// Trust remembers which contents of which project files the user has accepted. A file that a project folder
// brings along starts commands and declares tools harmless, so it counts only after the user has seen it;
// a changed file must be accepted again. Safe for concurrent use within one process.
type Trust struct {
	path string
	mu   sync.Mutex
}

// NewTrust keeps its records in the JSON file at path ({"accepted": {"<file>": ["<sha256>", ...]}}), which
// need not exist yet.
func NewTrust(path string) *Trust { return &Trust{path: path} }

type trustFile struct {
	Accepted map[string][]string `json:"accepted"`
}

// Accepted says whether the file, with the content that it has now, was accepted.
func (t *Trust) Accepted(file string) (bool, error) {
	content, err := ReadFile(file)
	if err != nil {
		return false, err
	}
	return t.AcceptedContent(file, content)
}

// AcceptedContent is Accepted for content that was read already, so that what is checked is what is used.
func (t *Trust) AcceptedContent(file string, content []byte) (bool, error) {
	file, err := canonicalFile(file)
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	rec, err := t.read()
	if err != nil {
		return false, err
	}
	return slices.Contains(rec.Accepted[file], contentHash(content)), nil
}

// Accept accepts the file with the content that it has now; earlier contents stay accepted no longer.
func (t *Trust) Accept(file string) error {
	content, err := ReadFile(file)
	if err != nil {
		return err
	}
	return t.AcceptContent(file, content)
}

// AcceptContent is Accept for the content that the user has seen, whatever the file holds by now.
func (t *Trust) AcceptContent(file string, content []byte) error {
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
	rec.Accepted[file] = []string{contentHash(content)}
	return t.write(rec)
}

// Require is the check for [Config.Accepted]: CodeDenied if the content was not accepted.
func (t *Trust) Require(file string, content []byte) error {
	ok, err := t.AcceptedContent(file, content)
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
	rec := &trustFile{Accepted: map[string][]string{}}
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
		rec.Accepted = map[string][]string{}
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
