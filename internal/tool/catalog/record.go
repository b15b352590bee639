package catalog

import (
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
	Source string            `json:"source"`           // the file that configures it
	Config string            `json:"config,omitempty"` // fingerprint of its entry there when the tools were accepted
	Tools  map[string]*known `json:"tools"`

	path  string
	mu    sync.Mutex
	nodes int // shapes of all tools
	words int // bytes of the words of all tools
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
	maxTook   = 60       // bytes of known.Took
	maxWords  = 4 << 20  // bytes of what tools said of themselves when they were accepted, as JSON
)

// known is one tool.
type known struct {
	Accepted time.Time     `json:"accepted"`
	Pin      pin           `json:"pin"`
	Words    *wording      `json:"words,omitempty"` // behind the pin; nil: too many, or an older version wrote the record
	New      bool          `json:"new,omitempty"`   // its server was known without it, and nobody has accepted it since
	Took     string        `json:"took,omitempty"`  // the tool that programs imported by its name before, clipped
	Shape    shape.Learned `json:"shape,omitzero"`

	now    pin      // of the tool as it is
	said   *wording // as it is
	change *agentkernel.ToolChange
	shown  agentkernel.ToolShape
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
	r.Config = stored.Config
	for name, k := range stored.Tools {
		if k != nil {
			if !k.Shape.Sound() {
				k.Shape = shape.Learned{}
			}
			r.Tools[name] = k
			r.nodes += k.Shape.Size()
			r.words += k.Words.size()
		}
	}
}

// see takes the tools as they are now. What a server has when it is first seen, or first seen with another entry in
// the user's own file (config), is accepted. What comes later counts as a write, whatever it says of itself, until it is
// accepted too: else a tool that was refused could come back under another name.
func (r *record) see(c *Catalog, tools []agentkernel.Tool, config string) {
	r.mu.Lock()
	first := r.reconfigured(config)
	full, pinned := false, false
	var names map[string]string // of known tools by pin.Name, made for the first that has no pin
	for i := range tools {
		t := &tools[i]
		now := pinOf(t)
		k := r.Tools[t.Name]
		if k == nil && len(r.Tools) >= maxKnown {
			full = true
			continue
		}
		if k == nil {
			k = &known{}
			r.Tools[t.Name] = k
		}
		if k.now != now {
			k.now, k.said, k.change = now, wordingOf(t), nil
		}
		switch {
		case k.Pin == (pin{}):
			if names == nil && !first {
				names = r.names()
			}
			r.meet(c, k, first, names)
			pinned = true
		case k.Pin.Title == "" && len(k.Pin.differs(now)) == 0: // an older version pinned it
			at := k.Accepted
			r.pinned(c, k)
			k.Accepted, pinned = at, true
		}
	}
	r.dirty = r.dirty || pinned
	r.mu.Unlock()
	if full {
		c.cfg.Logger.Warn("a tool server has listed so many tools that the newest are not remembered: they count as writes", "server", r.Server, "remembered", maxKnown)
	}
	if pinned { // what was accepted must outlive a kernel that is killed
		r.save(c)
	}
}

func (r *record) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.Tools) == 0
}

// reconfigured says whether the tools are to be accepted as they are: nothing is known of the server yet, or the user has
// changed its entry. r.mu is held.
func (r *record) reconfigured(config string) bool {
	if config == "" || r.Config == config {
		return len(r.Tools) == 0
	}
	before := r.Config
	r.Config, r.dirty = config, true
	if before == "" { // of an older version, which did not note it
		return len(r.Tools) == 0
	}
	for _, k := range r.Tools {
		k.Pin, k.change = pin{}, nil
	}
	return true
}

// names are the tools that have a pin, by their names in programs; r.mu is held.
func (r *record) names() map[string]string {
	names := make(map[string]string, len(r.Tools))
	for name, k := range r.Tools {
		if k.Pin.Name != "" {
			names[k.Pin.Name] = name
		}
	}
	return names
}

// meet pins a tool that has no pin; r.mu is held. names are those of the tools that had one before.
func (r *record) meet(c *Catalog, k *known, first bool, names map[string]string) {
	r.pinned(c, k)
	if first {
		return
	}
	k.New, k.Pin.Effect = k.now.Effect != string(agentkernel.EffectWrite), string(agentkernel.EffectWrite)
	if before, taken := names[k.now.Name]; taken {
		k.New, k.Took = false, strings.ToValidUTF8(before[:min(len(before), maxTook)], "")
	}
}

// pinned makes what a tool is now what was accepted; r.mu is held.
func (r *record) pinned(c *Catalog, k *known) {
	r.words -= k.Words.size()
	k.Accepted, k.Pin, k.Words, k.New, k.Took, k.change = c.cfg.Now().UTC().Truncate(time.Second), k.now, k.said, false, "", nil
	if r.words+k.Words.size() > maxWords {
		k.Words = nil
	}
	r.words += k.Words.size()
}

// accept makes the tools' present state the accepted one and gives how many had changed.
func (r *record) accept(c *Catalog, tools []agentkernel.Tool) int {
	r.mu.Lock()
	changed := 0
	for i := range tools {
		k := r.Tools[tools[i].Name]
		if k == nil || k.changed() == nil {
			continue
		}
		changed++
		r.pinned(c, k)
		r.dirty = true
	}
	r.mu.Unlock()
	r.save(c)
	return changed
}

// changed says how a tool is not what was accepted; nil: it is. r.mu is held.
func (k *known) changed() *agentkernel.ToolChange {
	if k.change != nil || k.now == (pin{}) {
		return k.change
	}
	what := k.Pin.differs(k.now)
	if k.Took != "" {
		what = append(what, "name")
	}
	if len(what) == 0 {
		return nil
	}
	c := &agentkernel.ToolChange{Accepted: k.Accepted, Hash: k.Pin.Input[:min(8, len(k.Pin.Input))], What: what, New: k.New, Diff: k.diff(what)}
	if k.New {
		c.What = []string{"new"}
	}
	k.change = c
	return c
}

// describe adds to tools what is known of them. One that has changed keeps the stricter of its effects.
func (r *record) describe(tools []agentkernel.Tool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range tools {
		t := &tools[i]
		k := r.Tools[t.Name]
		if k == nil {
			t.Effect = agentkernel.EffectWrite // there was no room to remember it
			continue
		}
		if t.Changed = k.changed(); t.Changed != nil {
			t.Effect = t.Effect.Stricter(agentkernel.Effect(k.Pin.Effect))
		}
		if len(t.OutputSchema) == 0 {
			t.Observed = k.observed()
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
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
