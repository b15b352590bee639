package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/tool/shape"
)

// record is what is remembered of a server. Its JSON is the file.
type record struct {
	Form   int               `json:"form"` // of this file
	Server string            `json:"server"`
	Source string            `json:"source"` // the file that configures it
	Tools  map[string]*known `json:"tools"`

	path  string
	mu    sync.Mutex
	nodes int // shapes of all tools
	dirty bool
	saved time.Time
}

// recordForm is the form of the files that this version writes.
const recordForm = 1

// restBetween is how long a file is left alone after it was written; what is learned meanwhile comes with the
// next write, at the latest when the kernel ends.
const restBetween = 2 * time.Second

// What is remembered of one server at most. It must be less than what can be read again: a server that lists
// other tools each time could make its own record too large, and have what was accepted forgotten.
const (
	maxRecord = 32 << 20 // bytes of the largest file that is read
	maxKnown  = 20_000   // tools, also those that are gone
	maxNodes  = 100_000  // shapes in shapes
)

// known is one tool.
type known struct {
	Accepted time.Time     `json:"accepted"`
	Pin      pin           `json:"pin"`
	Shape    shape.Learned `json:"shape,omitzero"`
	now      pin           // of the tool as it is
	shown    agentkernel.ToolShape
}

// observed is the shape for readers. Its texts are made once for each version; r.mu is held.
func (k *known) observed() *agentkernel.ToolShape {
	if k.Shape.Results == 0 {
		return nil
	}
	if k.shown.Version != k.Shape.Version {
		k.shown = agentkernel.ToolShape{Version: k.Shape.Version, Type: k.Shape.Type(), Text: k.Shape.TextType(), Members: k.Shape.Members()}
	}
	out := k.shown
	out.Results = k.Shape.Results
	return &out
}

// pin are the hashes of a tool as it was accepted, part by part, so that a change can be named.
type pin struct {
	Description string `json:"description"`
	Input       string `json:"input"`
	Output      string `json:"output"`
	Effect      string `json:"effect"`
}

func pinOf(t *agentkernel.Tool) pin {
	return pin{Description: hash([]byte(t.Description)), Input: hash(compact(t.InputSchema)), Output: hash(compact(t.OutputSchema)),
		Effect: string(t.Effect)}
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// compact takes white space out of a schema, which means nothing.
func compact(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// differs names the parts that are not as accepted.
func (p pin) differs(now pin) []string {
	var what []string
	for _, part := range []struct {
		name     string
		was, now string
	}{{"description", p.Description, now.Description}, {"input_schema", p.Input, now.Input},
		{"output_schema", p.Output, now.Output}, {"effect", p.Effect, now.Effect}} {
		if part.was != part.now {
			what = append(what, part.name)
		}
	}
	return what
}

// record gives what is remembered of a server, reading it the first time.
func (c *Catalog) record(server, file string) *record {
	key := server + "\x00" + file
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.records[key]; r != nil {
		return r
	}
	r := &record{Form: recordForm, Server: server, Source: file, Tools: map[string]*known{}}
	if c.cfg.Dir != "" {
		r.path = filepath.Join(c.cfg.Dir, fileName(server)+"-"+hash([]byte(key))[:12]+".json")
		r.read(c)
	}
	c.records[key] = r
	return r
}

// fileName is a server's name as far as it can stand in a file's.
func fileName(server string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, server)
	return name[:min(len(name), 60)]
}

func (r *record) read(c *Catalog) {
	st, err := os.Stat(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var raw []byte
	if err == nil && st.Size() > maxRecord {
		err = errors.New("it is too large")
	}
	if err == nil {
		raw, err = os.ReadFile(r.path)
	}
	stored := record{}
	if err == nil {
		err = json.Unmarshal(raw, &stored)
	}
	if err == nil && stored.Form != recordForm {
		err = errors.New("another version wrote it")
	}
	if err != nil {
		c.cfg.Logger.Warn("what was learned of a tool server cannot be read and is learned anew", "file", r.path, "err", err)
		return
	}
	for name, k := range stored.Tools {
		if k != nil {
			if !k.Shape.Sound() {
				k.Shape = shape.Learned{}
			}
			r.Tools[name] = k
			r.nodes += k.Shape.Size()
		}
	}
}

// see takes the tools as they are now. One that was never seen is accepted.
func (r *record) see(c *Catalog, tools []agentkernel.Tool) {
	r.mu.Lock()
	full := false
	for i := range tools {
		now := pinOf(&tools[i])
		k := r.Tools[tools[i].Name]
		if k == nil && len(r.Tools) >= maxKnown {
			full = true
			continue
		}
		if k == nil {
			k = &known{Accepted: c.cfg.Now().UTC().Truncate(time.Second), Pin: now}
			r.Tools[tools[i].Name] = k
			r.dirty = true
		}
		k.now = now
	}
	r.mu.Unlock()
	if full {
		c.cfg.Logger.Warn("a tool server has listed so many tools that no change of the newest is noticed", "server", r.Server, "remembered", maxKnown)
	}
	r.saveSoon(c)
}

// accept makes the tools' present state the accepted one and gives how many had changed.
func (r *record) accept(c *Catalog, tools []agentkernel.Tool) int {
	r.mu.Lock()
	changed := 0
	for i := range tools {
		k := r.Tools[tools[i].Name]
		if k == nil || len(k.Pin.differs(k.now)) == 0 {
			continue
		}
		changed++
		k.Accepted, k.Pin = c.cfg.Now().UTC().Truncate(time.Second), k.now
		r.dirty = true
	}
	r.mu.Unlock()
	r.save(c)
	return changed
}

// describe adds to tools what is known of them.
func (r *record) describe(tools []agentkernel.Tool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range tools {
		k := r.Tools[tools[i].Name]
		if k == nil {
			continue
		}
		if what := k.Pin.differs(k.now); len(what) > 0 && k.now != (pin{}) {
			tools[i].Changed = &agentkernel.ToolChange{Accepted: k.Accepted, Hash: k.Pin.Input[:min(8, len(k.Pin.Input))], What: what}
		}
		if len(tools[i].OutputSchema) == 0 {
			tools[i].Observed = k.observed()
		}
	}
}

// learn looks at a result of a tool.
func (r *record) learn(c *Catalog, tool string, value json.RawMessage) {
	r.mu.Lock()
	k := r.Tools[tool]
	changed := false
	if k != nil && (k.Shape.Value != nil || r.nodes < maxNodes) {
		before := k.Shape.Size()
		changed = k.Shape.Learn(value)
		r.nodes += k.Shape.Size() - before
	}
	r.dirty = r.dirty || changed
	r.mu.Unlock()
	if changed {
		r.saveSoon(c)
	}
}

// saveSoon writes the file unless it was written a moment ago.
func (r *record) saveSoon(c *Catalog) {
	r.mu.Lock()
	rest := c.cfg.Now().Sub(r.saved) < restBetween
	r.mu.Unlock()
	if !rest {
		r.save(c)
	}
}

// save writes the file in one step, if there is something new.
func (r *record) save(c *Catalog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.path == "" || !r.dirty {
		return
	}
	r.saved, r.dirty = c.cfg.Now(), false
	raw, err := json.Marshal(r)
	if err == nil {
		err = replaceFile(r.path, raw)
	}
	if err != nil {
		c.cfg.Logger.Warn("what was learned of a tool server cannot be written", "file", r.path, "err", err)
	}
}

// replaceFile writes a file so that a reader sees the old content or the new one.
func replaceFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(content)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
