package llm

import (
	"bytes"
	"container/list"
	"encoding/json"
	"hash/maphash"
	"sync"

	"agentkernel/internal/llm"
)

// memo remembers messages that were read, by what programs wrote: each turn of a conversation has all messages of the turn
// before. Namespaces do not share it, so that nobody learns from the time that a call takes what others have said. What it
// gives must not be changed.
type memo struct {
	seed maphash.Seed
	max  int // bytes, about

	mu    sync.Mutex
	size  int
	order list.List // of *memory, newest first
	known map[uint64]*list.Element
}

// memory is a message that was read.
type memory struct {
	sum       uint64
	namespace string
	raw       []byte
	message   llm.Message
}

// maxMemory bounds what is remembered: some dozen long conversations.
const maxMemory = 32 << 20

// What a message and a part of it take beside their texts, in bytes: a program may send a million of them in one call.
const (
	aroundMemory  = 400
	aroundMessage = 100
	aroundPart    = 150
)

// memory is about how many bytes a message takes: what was written, and what was read of it.
func (k *memory) size() int {
	return 3*len(k.raw) + aroundMemory + aroundPart*countParts(k.message.Parts)
}

func countParts(parts []llm.Part) int {
	n := len(parts)
	for i := range parts {
		if r := parts[i].Result; r != nil {
			n += countParts(r.Parts)
		}
	}
	return n
}

func newMemo() *memo {
	return &memo{seed: maphash.MakeSeed(), max: maxMemory, known: map[uint64]*list.Element{}}
}

func (m *memo) sum(namespace string, raw []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	_, _ = h.WriteString(namespace) // never fails
	_ = h.WriteByte(0)
	_, _ = h.Write(raw)
	return h.Sum64()
}

// shortMessage is below which length a simple message is read as quickly as it is looked up, in bytes.
const shortMessage = 256

// read reads a message, or remembers it.
func (m *memo) read(namespace string, raw json.RawMessage) (llm.Message, error) {
	if len(raw) < shortMessage {
		if message, ok := simple(raw); ok {
			return message, nil
		}
	}
	sum := m.sum(namespace, raw)
	m.mu.Lock()
	if e, ok := m.known[sum]; ok {
		if k := e.Value.(*memory); k.namespace == namespace && bytes.Equal(k.raw, raw) {
			m.order.MoveToFront(e)
			m.mu.Unlock()
			return k.message, nil
		}
	}
	m.mu.Unlock()
	message, err := readMessage(raw)
	if err == nil {
		m.put(&memory{sum, namespace, bytes.Clone(raw), message})
	}
	return message, err
}

func (m *memo) put(k *memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.known[k.sum]; ok {
		m.remove(e)
	}
	m.known[k.sum] = m.order.PushFront(k)
	for m.size += k.size(); m.size > m.max; {
		m.remove(m.order.Back())
	}
}

func (m *memo) remove(e *list.Element) {
	k := e.Value.(*memory)
	m.size -= k.size()
	m.order.Remove(e)
	delete(m.known, k.sum)
}
