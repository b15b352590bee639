package monty

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"

	"agentkernel"
	"agentkernel/internal/sandbox/monty/frontend"
	"agentkernel/internal/sandbox/monty/montypb"
)

// keptPrograms is how many programs are kept checked and bound, and keptText how many bytes those that are bound may have: the same few
// are started again and again. What is larger than an eighth of that is made anew each time.
const (
	keptPrograms = 256
	keptText     = 32 << 20
)

// program is a program made ready for the engine, shared by all its sandboxes and never changed.
type program struct {
	key   programKey
	feeds []feed
	tools map[string]*agentkernel.Tool // by "server.name", both as Python writes them
}

// size is how many bytes of text it keeps.
func (p *program) size() (n int) {
	for i := range p.feeds {
		n += len(p.feeds[i].frame) + len(p.feeds[i].source)
	}
	return n
}

// feed is one request that feeds source, and what tracebacks need to know of it.
type feed struct {
	frame  []byte
	file   string
	offset int
	hidden bool
	source string // the user's own text; "" if only the engine knows it
}

// programKey is a digest of everything that decides what the engine is fed.
type programKey [sha256.Size]byte

// programs remembers what the front end made of programs.
type programs struct {
	checked *lru[programKey, checkResult]
	bound   *lru[programKey, *program]
	last    atomic.Pointer[lastProgram]
}

// lastProgram is the plain program that was asked for last: the same one often comes again, and to compare it takes less
// than to digest it. Plain is what has nothing but its text: no arguments, no modules, no tools.
type lastProgram struct {
	name, source string
	language     agentkernel.Language
	needs        agentkernel.Needs
	bound        *program // nil: not yet
}

// again gives what is known of a program if it is the last one; nil: it is not.
func (p *programs) again(prog *agentkernel.Program, tools []agentkernel.Tool) *lastProgram {
	l := p.last.Load()
	if l == nil || !textOnly(prog) || len(tools) > 0 || prog.Name != l.name || prog.Language != l.language || prog.Source != l.source {
		return nil
	}
	return l
}

func textOnly(prog *agentkernel.Program) bool {
	return len(prog.Args) == 0 && len(prog.Modules) == 0 && len(prog.Earlier) == 0 && !prog.Session && prog.Cells == 0
}

// note makes a program the last one, if it is plain.
func (p *programs) note(prog *agentkernel.Program, needs agentkernel.Needs) {
	if textOnly(prog) {
		p.last.Store(&lastProgram{name: prog.Name, source: prog.Source, language: prog.Language, needs: needs})
	}
}

type checkResult struct {
	needs agentkernel.Needs
	err   error
}

func newPrograms() *programs {
	return &programs{
		checked: newLRU[programKey, checkResult](keptPrograms, func(checkResult) int { return 0 }),
		bound:   newLRU[programKey, *program](keptPrograms, (*program).size),
	}
}

func (p *programs) check(prog agentkernel.Program) (agentkernel.Needs, error) {
	if prog.Cells > 0 { // of a session: it runs once, and must not push out what runs again
		return frontend.Check(prog)
	}
	if l := p.again(&prog, nil); l != nil {
		return l.needs, nil
	}
	key := keyOf(prog, nil)
	r, ok := p.checked.get(key)
	if !ok {
		r.needs, r.err = frontend.Check(prog)
		p.checked.put(key, r)
	}
	if r.err == nil {
		p.note(&prog, r.needs)
	}
	return r.needs, r.err
}

func (p *programs) bind(prog agentkernel.Program, tools []agentkernel.Tool) (*program, error) {
	l := p.again(&prog, tools)
	if l != nil && l.bound != nil {
		return l.bound, nil
	}
	key := keyOf(prog, tools)
	out, ok := p.bound.get(key)
	if !ok {
		bundle, err := frontend.Bind(prog, tools)
		if err != nil {
			return nil, err
		}
		out = assemble(key, prog, bundle, tools)
		p.bound.put(key, out)
	}
	if l != nil {
		known := *l
		known.bound = out
		p.last.Store(&known)
	}
	return out, nil
}

// assemble encodes what the front end made.
func assemble(key programKey, prog agentkernel.Program, bundle *frontend.Bundle, tools []agentkernel.Tool) *program {
	out := &program{key: key, tools: make(map[string]*agentkernel.Tool, len(tools))}
	for i := range tools {
		t := tools[i]
		out.tools[t.PythonServer+"."+t.PythonName] = &t
	}
	for i, f := range bundle.Feeds {
		req := &montypb.Feed{Code: f.Code, SkipTypeCheck: true}
		if strings.TrimSpace(f.Code) == "" {
			req.Code = "pass" // the engine numbers no feed that is empty, and tracebacks go by the numbers
		}
		if i == 0 {
			req.Inputs = inputs(bundle.Functions)
		}
		out.feeds = append(out.feeds, feed{
			frame:  frame(&montypb.Request{Kind: &montypb.Request_Feed{Feed: req}}),
			file:   f.File,
			offset: f.LineOffset,
			hidden: f.Hidden,
			source: sourceOf(prog, f.File),
		})
	}
	return out
}

// inputs are the host functions as variables of the first feed.
func inputs(fns []frontend.Function) []*montypb.Input {
	in := make([]*montypb.Input, len(fns))
	for i, f := range fns {
		fn := appendStr(nil, 1, f.Name)
		if f.Doc != "" {
			fn = appendStr(fn, 2, f.Doc)
		}
		val := protowire.AppendTag(nil, fieldFunction, protowire.BytesType)
		in[i] = &montypb.Input{Name: f.Input, Value: protowire.AppendBytes(val, fn)}
	}
	return in
}

// sourceOf finds the text that the user wrote for a file of a traceback.
func sourceOf(p agentkernel.Program, file string) string {
	if file == p.Name {
		return p.Source
	}
	return p.Modules[strings.ReplaceAll(strings.TrimSuffix(file, ".py"), "/", ".")]
}

func keyOf(p agentkernel.Program, tools []agentkernel.Tool) (key programKey) {
	d := digest{h: sha256.New()}
	d.text(p.Name, string(p.Language), p.Source)
	d.list(p.Args)
	if p.Session {
		d.text("session")
	}
	if len(p.Earlier) > 0 {
		d.list(p.Earlier)
	}
	d.number(len(p.Modules))
	// Sorted, not added up: any sum of digests can be reached with a few hundred modules of one's own, and a
	// program of one tenant would run with the modules of another.
	for _, name := range slices.Sorted(maps.Keys(p.Modules)) {
		d.text(name, p.Modules[name])
	}
	d.number(len(tools))
	for i := range tools {
		t := &tools[i]
		d.text(t.Server, t.Name, t.PythonServer, t.PythonName, t.Signature, t.Doc)
		d.number(len(t.Params))
		for _, par := range t.Params {
			required := ""
			if par.Required {
				required = "required"
			}
			d.text(par.Name, par.Python, par.Type, par.Default, required)
		}
	}
	d.h.Sum(key[:0])
	return key
}

// digest hashes values so that no two lists of values run together.
type digest struct{ h hash.Hash }

func (d digest) number(n int) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	d.h.Write(b[:])
}

func (d digest) text(ss ...string) {
	for _, s := range ss {
		d.number(len(s))
		d.h.Write([]byte(s))
	}
}

func (d digest) list(ss []string) {
	d.number(len(ss))
	d.text(ss...)
}

// lru keeps the values that were asked for last, and not more bytes of them than keptText. Safe for concurrent use.
type lru[K comparable, V any] struct {
	mu    sync.Mutex
	limit int
	size  func(V) int // bytes of a value that count
	bytes int
	order *list.List // of lruPair[K, V], the newest in front
	byKey map[K]*list.Element
}

type lruPair[K comparable, V any] struct {
	key  K
	val  V
	size int
}

func newLRU[K comparable, V any](limit int, size func(V) int) *lru[K, V] {
	return &lru[K, V]{limit: limit, size: size, order: list.New(), byKey: map[K]*list.Element{}}
}

func (l *lru[K, V]) get(key K) (val V, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.byKey[key]
	if !ok {
		return val, false
	}
	l.order.MoveToFront(at)
	return at.Value.(lruPair[K, V]).val, true
}

func (l *lru[K, V]) put(key K, val V) {
	size := l.size(val)
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.byKey[key]; ok {
		l.drop(at)
	}
	if size > keptText/8 {
		return
	}
	l.byKey[key] = l.order.PushFront(lruPair[K, V]{key, val, size})
	for l.bytes += size; l.order.Len() > l.limit || l.bytes > keptText; {
		l.drop(l.order.Back())
	}
}

func (l *lru[K, V]) drop(at *list.Element) {
	gone := l.order.Remove(at).(lruPair[K, V])
	delete(l.byKey, gone.key)
	l.bytes -= gone.size
}
