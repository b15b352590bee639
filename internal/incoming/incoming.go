// Package incoming bounds what the kernel receives for all programs together: bodies of http.fetch and messages of tool servers,
// until the kernel counts what became of them. It must not know what they are.
package incoming

import (
	"sync"
	"sync/atomic"
)

// Copies is how often there is what was received: as it came, decoded, as JSON, and in the canonical form for the journal, with what
// the garbage collector has not taken back.
const Copies = 4

// usual is the size that must always find room where nothing else is received: the 10 MiB that http.fetch allows if a program says
// nothing, with what JSON adds.
const usual = 16 << 20

// most bounds the bytes that are received at once, whatever the machine has.
const most = 512 << 20

// small is up to which size a message, with its copies, finds room where larger ones have taken it all, and reserve what such messages have
// for that: bodies that one program has sent slowly keep no other's small answers out.
const (
	small   = Copies << 20
	reserve = 8 * small
)

// Room is what all that is received has together.
type Room struct {
	most    int64
	reserve int64 // beyond it, for small messages
	used    atomic.Int64
}

// New makes a Room of as many bytes as the machine allows, copies included, and a reserve for small messages.
func New(allowed int64) *Room {
	return &Room{most: max(min(allowed, Copies*most), Copies*usual), reserve: reserve}
}

// Exactly makes a Room of so many bytes, for tests.
func Exactly(bytes int64) *Room { return &Room{most: bytes} }

// Used is how many bytes are taken.
func (r *Room) Used() int64 { return r.used.Load() }

// Hold takes nothing yet. Of a nil Room it is nil.
func (r *Room) Hold() *Hold {
	if r == nil {
		return nil
	}
	return &Hold{room: r}
}

// Hold is what one message has of a Room. It is safe for concurrent use. Nil holds nothing, and may always.
type Hold struct {
	room *Room
	mu   sync.Mutex
	n    int64
}

// Set changes what is held to n bytes. False: there is no room, and nothing has changed.
func (h *Hold) Set(n int64) bool {
	if h == nil {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	more, most := n-h.n, h.room.most
	if n <= small {
		most += h.room.reserve
	}
	if used := h.room.used.Add(more); more > 0 && used > most {
		h.room.used.Add(-more)
		return false
	}
	h.n = n
	return true
}

// Part is a Hold of its own with up to n bytes of this one; nil: there are none.
func (h *Hold) Part(n int64) *Hold {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n = min(n, h.n); n == 0 {
		return nil
	}
	h.n -= n
	return &Hold{room: h.room, n: n}
}

// Release gives back what is held. It may be called again.
func (h *Hold) Release() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.room.used.Add(-h.n)
	h.n = 0
}
