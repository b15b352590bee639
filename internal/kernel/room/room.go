// Package room bounds what the kernel keeps in memory for all programs together: arguments of calls under way, and results
// that were not taken. It must not know what they are.
package room

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"agentkernel/internal/bytesize"
)

// ArgsCopies is how often the kernel has the arguments of a call that is under way: as the program wrote them, in the
// canonical form for the journal, and as they go to a server, with what the garbage collector has not taken back.
const ArgsCopies = 4

// BigPayload is the size from which arguments and results are counted in the kernel's memory: smaller ones are bounded by
// their number.
const BigPayload = 64 << 10

// Most is how many bytes are kept for all programs: a quarter of the machine's memory, or of what Go was told to use.
var Most = sync.OnceValue(func() int64 {
	total := int64(4 << 30) // a machine that does not say
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err == nil {
			total = kib << 10
		}
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		total = min(total, limit)
	}
	return total / 4
})

// Total adds up what is kept. The zero value is ready.
type Total struct{ held atomic.Int64 }

// Share is what of it is kept for one program. The zero value is ready.
type Share struct{ held atomic.Int64 }

// Set notes that n bytes are kept for the program of s, and returns n.
func (t *Total) Set(s *Share, n int64) int64 {
	t.held.Add(n - s.held.Swap(n))
	return n
}

// Held is what is kept.
func (t *Total) Held() int64 { return t.held.Load() }

// Full says why there is no room for more bytes of a program for which held are kept and which may have limit; "": there is.
func (t *Total) Full(held, more, limit int64) string {
	const advice = "take results before you issue more calls"
	switch all := t.Held(); {
	case held+more > limit:
		return fmt.Sprintf("%s wait in the kernel for this program and its tree of processes, and its memory limit is %s: "+advice,
			bytesize.Text(held), bytesize.Text(limit))
	case all+more > Most():
		return fmt.Sprintf("%s wait in the kernel for all programs, and the most is %s: "+advice, bytesize.Text(all), bytesize.Text(Most()))
	}
	return ""
}
