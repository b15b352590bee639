package library

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"agentkernel/internal/strictjson"

	"agentkernel"
)

const opState = "state"

// documentFile is the path of a document; CodeInvalid for a name that no file should have.
func (l *Library) documentFile(namespace, owner, name string) (string, error) {
	if !plainName().MatchString(name) {
		return "", agentkernel.Errorf(agentkernel.CodeInvalid, opState, "%.100q is not a name of a state file", name).
			WithHint("write lower-case letters, digits, dots, - and _, at most 80, such as state.json")
	}
	return filepath.Join(l.dir, "states", fileName(namespace, "default"), fileName(owner, "=all"), name), nil
}

// Document is one document.
func (l *Library) Document(_ context.Context, namespace, owner, name string) (agentkernel.Document, error) {
	path, err := l.documentFile(namespace, owner, name)
	if err != nil {
		return agentkernel.Document{}, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return readDocument(path, namespace, owner, name)
}

func readDocument(path, namespace, owner, name string) (agentkernel.Document, error) {
	d := agentkernel.Document{Namespace: namespace, Owner: owner, Name: name}
	raw, err := os.ReadFile(path)
	switch {
	case missing(err):
		return d, agentkernel.Errorf(agentkernel.CodeNotFound, opState, "there is no state %q", name).WithHint("save it first")
	case err != nil:
		return d, storage(path, err)
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return d, agentkernel.Errorf(agentkernel.CodeCorrupt, opState, "the file of state %q is damaged: %w", name, err).
			WithHint("save it again, or mend %s", path)
	}
	d.Namespace, d.Owner, d.Name = namespace, owner, name
	return d, nil
}

// otherVersion refuses a write over another version than is there; 0: there is none, or it cannot be read.
func otherVersion(name string, have, want int64) error {
	e := agentkernel.Errorf(agentkernel.CodeConflict, opState, "state %q is at version %d, not %d", name, have, want)
	switch {
	case have == 0:
		e = agentkernel.Errorf(agentkernel.CodeConflict, opState, "there is no state %q, so it is not at version %d", name, want)
		return e.WithHint("write it without a version")
	case have > want:
		e = agentkernel.Errorf(agentkernel.CodeConflict, opState, "state %q is at version %d, not %d: somebody else has written it", name, have, want)
	}
	return e.WithHint("read it again, then write")
}

// PutDocument replaces a document.
func (l *Library) PutDocument(_ context.Context, d agentkernel.Document) (agentkernel.Document, error) {
	path, err := l.documentFile(d.Namespace, d.Owner, d.Name)
	if err != nil {
		return d, err
	}
	if len(d.Data) > agentkernel.MaxDocument {
		return d, agentkernel.Errorf(agentkernel.CodeInvalid, opState, "state %q is %d bytes long; the limit is %d", d.Name, len(d.Data), agentkernel.MaxDocument)
	}
	var data bytes.Buffer
	if err := json.Compact(&data, d.Data); err != nil {
		return d, agentkernel.Errorf(agentkernel.CodeInvalid, opState, "state %q is not JSON: %s", d.Name, strictjson.Wrong(err, d.Data))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	have, err := readDocument(path, d.Namespace, d.Owner, d.Name)
	if err != nil && agentkernel.CodeOf(err) == agentkernel.CodeStorage {
		return d, err
	}
	if d.Version != 0 && d.Version != have.Version {
		return d, otherVersion(d.Name, have.Version, d.Version)
	}
	d.Version, d.Data, d.Updated = have.Version+1, data.Bytes(), l.instant()
	stored, err := json.Marshal(d)
	if err != nil {
		return d, agentkernel.AsError(err, agentkernel.CodeInternal, opState)
	}
	return d, replace(path, stored)
}
