package process

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"agentkernel"
)

// checkWait bounds the static pass over one program.
const checkWait = 30 * time.Second

// checkNamespace owns the zygote whose children look at programs. Each such child looks at one and ends, so that no
// program's text meets another's.
const checkNamespace = "default"

// Check refuses, before anything ran, a program that does not compile, and says what it imports.
func (b *Backend) Check(p agentkernel.Program) (agentkernel.Needs, error) {
	ctx, cancel := context.WithTimeout(context.Background(), checkWait)
	defer cancel()
	if !p.Language.Replayable() {
		_, err := b.recipeFor(ctx, p, nil, agentkernel.DefaultLimits())
		return agentkernel.Needs{Tools: nodeTools(p)}, err
	}
	v, err := b.verdict(ctx, p)
	if err != nil {
		return agentkernel.Needs{}, err
	}
	return agentkernel.Needs{Tools: slices.Clone(v.Tools), Skills: slices.Clone(v.Skills)}, nil
}

// verdict is what a child found in a program; programs that were looked at before are known.
func (b *Backend) verdict(ctx context.Context, p agentkernel.Program) (*verdict, error) {
	python, problem := b.pythonFor(p)
	if problem != nil {
		return nil, problem
	}
	key := keyOf(p)
	v := b.checked.get(key)
	if v == nil {
		var err error
		for left := takeTries; left > 0; left-- {
			if v, err = b.look(ctx, python, p); !errors.Is(err, errLost) || ctx.Err() != nil {
				break
			}
		}
		if err != nil {
			return nil, b.unavailable(err)
		}
		b.checked.put(key, v)
	}
	return v, v.refusal(p, python)
}

// look has a child of its own compile the program, without running any of it.
func (b *Backend) look(ctx context.Context, python Interpreter, p agentkernel.Program) (*verdict, error) {
	c, err := b.tenants.take(ctx, python, tenant{checkNamespace, stdlibSet, identity(p.Host)}, agentkernel.DefaultLimits(), nil, nil)
	if err != nil {
		return nil, err
	}
	defer c.close()
	stop := context.AfterFunc(ctx, func() { c.kill(ctx.Err()) })
	defer func() {
		stop()
		c.kill(errChecked)
	}()
	c.foreign = func(int, []byte) error { return nil }
	frame, err := encode(startMessage{Type: "check", Name: nameOf(p), Source: p.Source, Modules: p.Modules})
	if err != nil {
		return nil, err
	}
	if err := c.send(frame); err != nil {
		return nil, c.failed(err)
	}
	for {
		kind, payload, err := c.next()
		if err != nil {
			return nil, c.failed(err)
		}
		if kind != kindJSON {
			continue // a warning that the compiler prints
		}
		m, err := decodeMessage(payload)
		switch {
		case err != nil:
			return nil, c.failed(err)
		case m.Type == "checked":
			v, err := decodeVerdict(payload)
			if err != nil {
				return nil, c.failed(err)
			}
			return v, nil
		case m.Type == "hello":
		default:
			return nil, c.failed(broke("%s in place of checked", m.Type))
		}
	}
}

var errChecked = errClosed

func nameOf(p agentkernel.Program) string {
	if p.Name == "" {
		return "<string>"
	}
	return p.Name
}

// keptPrograms is how many verdicts are kept: the same few programs are started again and again.
const keptPrograms = 256

type programKey [sha256.Size]byte

// checked remembers verdicts, those used last.
type checked struct {
	mu    sync.Mutex
	byKey map[programKey]*list.Element
	order *list.List // of checkedEntry, the one used last in front
}

type checkedEntry struct {
	key programKey
	v   *verdict
}

func newChecked() *checked {
	return &checked{byKey: map[programKey]*list.Element{}, order: list.New()}
}

func (c *checked) get(key programKey) *verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.byKey[key]
	if at == nil {
		return nil
	}
	c.order.MoveToFront(at)
	return at.Value.(checkedEntry).v
}

func (c *checked) put(key programKey, v *verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[key] != nil {
		return
	}
	c.byKey[key] = c.order.PushFront(checkedEntry{key, v})
	if c.order.Len() > keptPrograms {
		delete(c.byKey, c.order.Remove(c.order.Back()).(checkedEntry).key)
	}
}

// keyOf is a digest of all that decides a verdict.
func keyOf(p agentkernel.Program) (key programKey) {
	h := sha256.New()
	text := func(s string) {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	text(p.Name)
	text(p.Source)
	text(identity(p.Host))
	for _, name := range slices.Sorted(maps.Keys(p.Modules)) {
		text(name)
		text(p.Modules[name])
	}
	h.Sum(key[:0])
	return key
}
