package assistant

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"agentkernel"
)

// record is what install leaves for uninstall. It holds what the client's file held, secrets included: only the user
// can read it.
type record struct {
	Version   int       `json:"version"`
	Client    string    `json:"client"`
	Scope     Scope     `json:"scope"`
	File      string    `json:"file"`
	Tools     string    `json:"tools"`
	Installed time.Time `json:"installed"`
	There     bool      `json:"there"`              // the file was there before
	Original  string    `json:"original,omitempty"` // the backup that is the exact original; "": only merging restores
	Before    string    `json:"before"`             // digest of the original
	After     string    `json:"after"`              // digest of what install wrote
	ToolsSum  string    `json:"tools_digest"`       // of the tools file that install wrote
	ToolsWas  bool      `json:"tools_was"`          // there was a tools file before: it is not ours to remove
	// Entry is AgentKernel's entry as text; Moved are the servers, as text, in their order.
	Entry string  `json:"entry"`
	Moved []moved `json:"moved"`
}

type moved struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

const recordVersion = 1

// recorded gives the record of an installation; nil if there is none. now is the client's file. One that was made while the file had
// another name, since the project was entered through a link, or has been moved as a whole, is the place's own from then on.
func (p *Place) recorded(now content) (*record, error) {
	r, err := p.load()
	if r != nil || err != nil || !now.there {
		return r, err
	}
	paths, _ := filepath.Glob(filepath.Join(p.host.Config, "mcp", "installed", p.Client.Name+"-*.json")) // a pattern without an error
	for _, path := range paths {
		other := Place{Client: p.Client, record: path, host: p.host}
		if r, err := other.load(); err == nil && r != nil && r.Client == p.Client.Name && r.Scope == p.Scope && r.isOf(now) {
			p.record, p.earlier = path, r.Tools
			if _, err := os.Lstat(r.Tools); err == nil && p.Scope == User { // its name comes from that of the client's file
				p.Tools = r.Tools
			}
			return r, nil
		}
	}
	return nil, nil
}

// isOf says whether the client's file that was changed is the one that is there now, under another name.
func (r *record) isOf(now content) bool {
	then, err := filepath.EvalSymlinks(r.File)
	if errors.Is(err, fs.ErrNotExist) {
		return r.After == now.digest
	}
	return err == nil && then == now.path
}

// load reads the record of this name; nil if there is none.
func (p *Place) load() (*record, error) {
	raw, err := os.ReadFile(p.record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, storage("reading "+p.record, err)
	}
	var r record
	if err := json.Unmarshal(raw, &r); err != nil || r.Version != recordVersion {
		return nil, agentkernel.Errorf(agentkernel.CodeCorrupt, op, "%s, which says what was installed, is not understood", p.record).
			WithHint("the originals are in %s", filepath.Join(p.host.Config, "mcp", "backups"))
	}
	return &r, nil
}

// others are the places where something else is installed for the same client.
func (p *Place) others() []Place { return installed(p.host, p.Client) }

// Installed are all places where something is installed, the clients in their order.
func Installed(h Host) (list []Place) {
	for _, c := range Clients() {
		list = append(list, installed(h, c)...)
	}
	return list
}

// installed are the places of a client where something is.
func installed(host Host, c Client) (list []Place) {
	paths, _ := filepath.Glob(filepath.Join(host.Config, "mcp", "installed", c.Name+"-*.json")) // a pattern without an error
	for _, path := range paths {
		other := Place{Client: c, record: path, host: host}
		r, err := other.load()
		if err != nil || r == nil || r.Client != c.Name {
			continue
		}
		other.Scope, other.File, other.Tools, other.Folder = r.Scope, r.File, r.Tools, host.Home
		h := host
		if r.Scope == Project {
			h.Dir = filepath.Dir(r.Tools)
			other.Folder = h.Dir
		}
		usual, err := Find(h, c.Name, r.Scope, "")
		other.named = err != nil || usual.File != r.File
		list = append(list, other)
	}
	return list
}

func (r *record) save(path string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("the record of the installation: %w", err)
	}
	return write(path, append(raw, '\n'), private)
}

// add notes servers that have moved; a name that is there gets its newer text.
func (r *record) add(list []moved) {
next:
	for _, m := range list {
		for i := range r.Moved {
			if r.Moved[i].Name == m.Name {
				r.Moved[i] = m
				continue next
			}
		}
		r.Moved = append(r.Moved, m)
	}
}
