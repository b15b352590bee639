// Package room bounds what the kernel keeps in memory for all programs together: arguments of calls under way, results
// that were not taken, and the programs themselves. It must not know what they are.
package room

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"agentkernel/internal/bytesize"
)

// ArgsCopies is how often the kernel has the arguments of a call that is under way: as the program wrote them, in the
// canonical form for the journal, and as they go to a server, with what the garbage collector has not taken back.
const ArgsCopies = 4

// Copies is how often the kernel has the arguments of a call at the moment when it reads them: a list of short items takes many times
// its length, which is far from ArgsCopies for all else.
func Copies(args []byte) int {
	if len(args) < BigPayload {
		return ArgsCopies
	}
	return ArgsCopies + (itemCost*items(args)+len(args)-1)/len(args)
}

// itemCost is what an item of JSON takes when it is read, in bytes, with what the growth of its list leaves behind.
const itemCost = 48

// items is about how many items there are in JSON: the commas outside of its texts.
func items(raw []byte) (n int) {
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case ',':
			n++
		case '"':
			i = textEnd(raw, i+1)
		}
	}
	return n
}

// textEnd is where the quote is that ends the text of JSON that begins at i; len(raw): nowhere. Arguments that are large are long texts,
// almost always: it leaps where no quote is near.
func textEnd(raw []byte, i int) int {
	const near = 16
	for far := i + near; i < len(raw); i++ {
		switch {
		case raw[i] == '"':
			return i
		case raw[i] == '\\':
			i++
		case i >= far:
			next := bytes.IndexByte(raw[i:], '"')
			if next < 0 {
				return len(raw)
			}
			before := raw[i : i+next]
			i += next - (next-len(bytes.TrimRight(before, `\`)))%2 // to the quote, or the backslash that makes it a part of the text
			far, i = i+near, i-1
		}
	}
	return len(raw)
}

// BigPayload is the size from which what is kept is held against the memory limit of one program and its tree: smaller ones are
// bounded by their number, and by what all programs may have together.
const BigPayload = 64 << 10

// Most is how many bytes are kept for all programs: a quarter of the machine's memory, of what its cgroup may have, or of what Go was
// told to use.
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
	group, _ := os.ReadFile("/proc/self/cgroup") // none: there are no groups
	return min(total, groupLimit(os.DirFS("/sys/fs/cgroup"), string(group))) / 4
})

// Bound has the garbage collector work harder before this process has more than five eighths of the memory of which [Most] is a quarter:
// without a bound it lets a heap grow to twice what is in use, and what is received has another quarter. What Go was told stays, also that
// there is to be none ("off", which Go itself says as no limit).
func Bound() {
	if most := Most(); os.Getenv("GOMEMLIMIT") == "" && debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(most / 2 * 5)
	}
}

// groupLimit is the least memory limit of a cgroup and those above it, as the file system of groups has them (v2, or the controller of
// memory of v1); MaxInt64: there is none. A container often sees itself as the root.
func groupLimit(groups fs.FS, self string) int64 {
	limit := int64(math.MaxInt64)
	least := func(name string) {
		text, err := fs.ReadFile(groups, name)
		if n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil && n > 0 { // "max" is no number
			limit = min(limit, n)
		}
	}
	for line := range strings.Lines(self) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] != "" && !slices.Contains(strings.Split(parts[1], ","), "memory") {
			continue
		}
		for dir := path.Join("/", parts[2]); ; dir = path.Dir(dir) {
			if parts[1] == "" {
				least(path.Join(".", dir, "memory.max"))
			} else {
				least(path.Join("memory", dir, "memory.limit_in_bytes"))
			}
			if dir == "/" {
				break
			}
		}
	}
	return limit
}

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

// Exceeded says whether with more bytes there would be too much for all programs.
func (t *Total) Exceeded(more int64) bool { return t.Held()+more > Most() }

// Full says why there is no room for more bytes of a program for which held are kept and which may have limit; "": there is.
func (t *Total) Full(held, more, limit int64) string {
	const advice = "take results before you issue more calls"
	switch all := t.Held(); {
	case held+more > limit:
		return fmt.Sprintf("%s wait in the kernel for this program and its tree of processes, and its memory limit is %s: "+advice,
			bytesize.Text(held), bytesize.Text(limit))
	case t.Exceeded(more):
		return fmt.Sprintf("%s wait in the kernel for all programs, and the most is %s: "+advice, bytesize.Text(all), bytesize.Text(Most()))
	}
	return ""
}
