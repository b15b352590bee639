package sqlite

import (
	"bytes"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/binary"
	"encoding/json"
	"hash"
	"maps"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/internal/fastpath"
)

// programSum names a program's content: its language, source and modules, not its name or arguments.
type programSum [sha256.Size]byte

func sumProgram(p *agentkernel.Program) programSum {
	h := sha256.New()
	part(h, "agentkernel program 1")
	part(h, string(p.Language))
	part(h, p.Source)
	for _, name := range slices.Sorted(maps.Keys(p.Modules)) {
		part(h, name)
		part(h, p.Modules[name])
	}
	return programSum(h.Sum(nil))
}

// part hashes one field behind its length, so that no two lists of fields look alike.
func part[T string | []byte](h hash.Hash, field T) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(field)))
	h.Write(n[:])
	h.Write([]byte(field))
}

// programIndex remembers which programs have rows. An entry counts once the commit that made the row
// succeeded; after a failed commit nothing is written any more, so it need not be taken back.
type programIndex struct {
	ids map[programSum]int64
	// last is the program that was found last, if it has no modules: the same one often comes again, and
	// comparing it costs nothing while hashing it costs time in proportion to its length.
	last struct {
		language agentkernel.Language
		source   string
		sum      programSum
		id       int64
	}
}

// maxProgramIndex bounds the index; a program that fell out is found in the database again.
const maxProgramIndex = 4096

// maxLastProgram bounds the text that programIndex.last keeps in memory, in bytes.
const maxLastProgram = 1 << 20

// findProgram names the program of a change and looks for its row.
func (w *writer) findProgram(ch *processChange) (err error) {
	if ch.process == nil {
		return nil
	}
	p, last := &ch.process.Spec.Program, &w.programs.last
	if last.id != 0 && len(p.Modules) == 0 && p.Language == last.language && p.Source == last.source {
		ch.sum, ch.program = last.sum, last.id
		return nil
	}
	ch.sum = sumProgram(p)
	if ch.program = w.programs.ids[ch.sum]; ch.program != 0 {
		if len(p.Modules) == 0 && len(p.Source) <= maxLastProgram {
			last.language, last.source, last.sum, last.id = p.Language, p.Source, ch.sum, ch.program
		}
		return nil
	}
	if ch.program, err = w.c.int("SELECT id FROM programs WHERE sha256 = ?", ch.sum[:]); ch.program != 0 {
		w.programs.remember(ch.sum, ch.program)
	}
	return err
}

func (x *programIndex) remember(sum programSum, id int64) {
	if x.ids == nil || len(x.ids) >= maxProgramIndex {
		x.ids = map[programSum]int64{}
	}
	x.ids[sum] = id
}

// programID gives the id of the program's row and makes the row if this content is new.
func (w *writer) programID(ch *processChange) (id int64, err error) {
	if w.taken != nil {
		defer func() { w.taken[id] = true }()
	}
	if ch.program == 0 { // an earlier process of this group may have made it
		ch.program = w.programs.ids[ch.sum]
	}
	if ch.program != 0 {
		return ch.program, nil
	}
	p := &ch.process.Spec.Program
	source, err := w.payload([]byte(p.Source), BlobThreshold)
	if err != nil {
		return 0, err
	}
	if source == nil {
		source = ""
	}
	modules, err := w.payload(modulesText(p.Modules), BlobThreshold)
	if err != nil {
		return 0, err
	}
	if ch.program, err = w.insertProgram(ch.sum, p.Language, source, modules); err == nil {
		w.programs.remember(ch.sum, ch.program)
	}
	return ch.program, err
}

func (w *writer) insertProgram(sum programSum, language agentkernel.Language, source, modules driver.Value) (int64, error) {
	r, _, err := w.c.one("INSERT INTO programs(sha256, language, source, modules) VALUES (?,?,?,?) RETURNING id",
		sum[:], string(language), source, modules)
	if err != nil {
		return 0, err
	}
	return r.int(0), nil
}

// modulesText is the modules column: a JSON object from dotted name to source, nil if there are none.
func modulesText(modules map[string]string) []byte {
	if len(modules) == 0 {
		return nil
	}
	text, _ := plainJSON(modules) // a map of strings always encodes
	return text
}

// plainJSON is json.Marshal without the escapes that HTML would need, for people who read the column.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// storedSpec is the spec column: what a Spec says beyond its program and the row's own columns. A
// pointer field is there only where the Spec differs from the column of that name.
type storedSpec struct {
	Name         *string                `json:"name,omitempty"`
	Args         []string               `json:"args,omitempty"`
	Session      bool                   `json:"session,omitempty"`
	Host         string                 `json:"host,omitempty"`
	Restart      agentkernel.Restart    `json:"restart,omitempty"`
	Backend      *string                `json:"backend,omitempty"`
	Isolation    agentkernel.Isolation  `json:"isolation,omitempty"`
	Namespace    *string                `json:"namespace,omitempty"`
	Parent       *agentkernel.PID       `json:"parent,omitempty"`
	Ancestors    []agentkernel.PID      `json:"ancestors,omitempty"`
	Detached     bool                   `json:"detached,omitempty"`
	DetachedFrom agentkernel.PID        `json:"detached_from,omitempty"`
	Deadline     time.Time              `json:"deadline,omitzero"`
	Priority     *int                   `json:"priority,omitempty"`
	Limits       agentkernel.Limits     `json:"limits,omitzero"`
	Budget       agentkernel.Budget     `json:"budget,omitzero"`
	OnBudget     agentkernel.OnBudget   `json:"on_budget,omitempty"`
	Budgets      []agentkernel.PID      `json:"budgets,omitempty"`
	BudgetsUSD   bool                   `json:"budgets_usd,omitempty"`
	BudgetsTime  bool                   `json:"budgets_time,omitempty"`
	Tools        []string               `json:"tools,omitempty"`
	ToolDigests  map[string]string      `json:"tool_digests,omitempty"`
	Allow        []string               `json:"allow,omitempty"`
	AllowHosts   []string               `json:"allow_hosts,omitempty"`
	Deny         []string               `json:"deny,omitempty"`
	OnUnknown    agentkernel.OnUnknown  `json:"on_unknown,omitempty"`
	Durability   agentkernel.Durability `json:"durability,omitempty"`
	Past         *agentkernel.Past      `json:"past,omitempty"`
	Workspace    *agentkernel.Workspace `json:"workspace,omitempty"`
	Stdin        string                 `json:"stdin,omitempty"`
	Volumes      []agentkernel.Volume   `json:"volumes,omitempty"`
	Interactive  bool                   `json:"interactive,omitempty"`
	Models       []string               `json:"models,omitempty"`
	// Moved is the process's and not the Spec's. It stands here because it says how the backend that was asked for
	// became the one of the column.
	Moved *agentkernel.Move `json:"moved,omitempty"`
	// UnderWay is the process's, too: most have none, and need no column for it.
	UnderWay []string `json:"under_way,omitempty"`
	Left     []string `json:"left,omitempty"` // as UnderWay
}

func unless[T comparable](same T, v *T) *T {
	if *v == same {
		return nil
	}
	return v
}

func or[T any](v *T, same T) T {
	if v == nil {
		return same
	}
	return *v
}

// specTexts remembers the spec columns of Specs that ask for nothing special beyond tools: they mostly say the same.
type specTexts struct {
	texts fastpath.Texts[specColumn, string]
}

// specColumn is what the spec column of such a process follows from.
type specColumn struct {
	spec                     fastpath.Key
	name, backend, namespace string
	priority                 int
}

// encode is encodeSpec.
func (t *specTexts) encode(p *agentkernel.ProcessRecord) (string, error) {
	s := p.Spec
	s.IdempotencyKey = "" // has a column of its own
	simple, ok := fastpath.Of(&s)
	if !ok || p.Parent != 0 || p.Moved != nil || len(p.UnderWay)+len(p.Left) > 0 {
		return encodeSpec(p)
	}
	return t.texts.Get(specColumn{simple, p.Name, p.Backend, p.Namespace, p.Priority}, func() (string, error) { return encodeSpec(p) })
}

func encodeSpec(p *agentkernel.ProcessRecord) (string, error) {
	s := &p.Spec
	text, err := plainJSON(storedSpec{
		Name: unless(p.Name, &s.Program.Name), Args: s.Program.Args, Session: s.Program.Session,
		Host: s.Program.Host, Restart: s.Restart, Backend: unless(p.Backend, &s.Backend), Isolation: s.Isolation,
		Namespace: unless(p.Namespace, &s.Namespace), Parent: unless(p.Parent, &s.Parent), Ancestors: s.Ancestors, Detached: s.Detached, DetachedFrom: s.DetachedFrom, Deadline: s.Deadline,
		Priority: unless(p.Priority, &s.Priority), Limits: s.Limits, Budget: s.Budget, OnBudget: s.OnBudget, Budgets: s.Budgets, BudgetsUSD: s.BudgetsUSD, BudgetsTime: s.BudgetsTime, Tools: s.Tools, ToolDigests: s.ToolDigests,
		Allow: s.Allow, AllowHosts: s.AllowHosts, Deny: s.Deny, OnUnknown: s.OnUnknown, Durability: s.Durability, Past: s.Past, Interactive: s.Interactive, Models: s.Models,
		Workspace: s.Workspace, Stdin: s.Stdin, Volumes: s.Volumes, Moved: p.Moved, UnderWay: p.UnderWay, Left: p.Left,
	})
	return string(text), err
}

// decodeSpec is the reverse of encodeSpec; p's columns, its idempotency key in p.Spec included, and the
// program's language are filled already.
func decodeSpec(text string, p *agentkernel.ProcessRecord) error {
	var s storedSpec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "the spec of this process cannot be read: %w", err).WithPID(p.PID)
	}
	program := p.Spec.Program
	program.Name, program.Args, program.Session, program.Host = or(s.Name, p.Name), s.Args, s.Session, s.Host
	p.Spec = agentkernel.Spec{
		Program: program, Backend: or(s.Backend, p.Backend), Isolation: s.Isolation, Namespace: or(s.Namespace, p.Namespace),
		Parent: or(s.Parent, p.Parent), Ancestors: s.Ancestors, Detached: s.Detached, DetachedFrom: s.DetachedFrom, Deadline: s.Deadline, Priority: or(s.Priority, p.Priority), Limits: s.Limits, Budget: s.Budget, OnBudget: s.OnBudget, Budgets: s.Budgets, BudgetsUSD: s.BudgetsUSD, BudgetsTime: s.BudgetsTime,
		Tools: s.Tools, ToolDigests: s.ToolDigests, Allow: s.Allow, AllowHosts: s.AllowHosts, Deny: s.Deny, OnUnknown: s.OnUnknown, Durability: s.Durability,
		Past: s.Past, Interactive: s.Interactive, Models: s.Models, Restart: s.Restart, IdempotencyKey: p.Spec.IdempotencyKey,
		Workspace: s.Workspace, Stdin: s.Stdin, Volumes: s.Volumes,
	}
	p.Moved, p.UnderWay, p.Left = s.Moved, s.UnderWay, s.Left
	return nil
}
