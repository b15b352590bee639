package confine

import "sync"

// watches is what the epolls of all sandboxes wait for. Linux lets each user have so many (fs.epoll.max_user_watches), and
// the sandboxes of an ordinary user's kernel are that user: without any left, every program of the user that wants to wait
// for a descriptor fails, the kernel too. Safe for concurrent use.
type watches struct {
	each, all int64 // at most for one sandbox, and for all together

	mu   sync.Mutex
	of   map[*Process]int64 // as of the last look at each
	sum  int64
	ends *Process // the one that has to end because all together have too many, until it has
}

// What sandboxes may have of a user's watches. A program waits for a descriptor or two in each process, or for a thousand in
// one; 65,536 are found in some 20 ms, so that few are added meanwhile.
const (
	mostWatches      = 64 << 10
	watchesOfOne     = 16 // the part that one may have, as a divisor
	watchesOfAll     = 4  // the part for all together
	watchesIfUnknown = 200_000
)

// newWatches is nil for root's kernel, whose sandboxes are other users.
func newWatches(m *Machine) *watches {
	if m.root {
		return nil
	}
	limit, err := readInt("/proc/sys/fs/epoll/max_user_watches")
	if err != nil {
		limit = watchesIfUnknown
	}
	return &watches{each: min(mostWatches, limit/watchesOfOne), all: limit / watchesOfAll, of: map[*Process]int64{}}
}

// exceeded takes what p was seen to have, and says whether p has to end: it has too many, or has the most and all together
// have too many.
func (w *watches) exceeded(p *Process, n int64) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sum += n - w.of[p]
	w.of[p] = n
	if n > w.each {
		return true
	}
	if w.sum <= w.all {
		return false
	}
	if w.ends != nil {
		return w.ends == p
	}
	for _, m := range w.of {
		if m > n {
			return false
		}
	}
	w.ends = p
	return true
}

// drop forgets a sandbox that has ended.
func (w *watches) drop(p *Process) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sum -= w.of[p]
	delete(w.of, p)
	if w.ends == p {
		w.ends = nil
	}
}

// most is how many are worth counting.
func (w *watches) most() int64 {
	if w == nil {
		return 1 << 62
	}
	return w.each
}

// count counts those of a tree of processes; beyond the most for one it stops. blind: one of them, which is not init, cannot be
// looked into.
func (w *watches) count(tree []int, init int) (n int64, blind bool) {
	for _, pid := range tree {
		dir, _ := living(pid)
		names, err := openNames(dir)
		blind = blind || unlessGone(dir, err) != nil && pid != init
		for _, name := range names {
			if n += watchesIn(dir, name, ""); n > w.each {
				return n, blind
			}
		}
	}
	return n, blind
}
