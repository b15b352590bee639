package confine

import "sync"

// shares bounds what sandboxes take of something that Linux has once for all of them. Safe for concurrent use.
type shares struct {
	each, all int64 // at most for one sandbox, and for all together

	mu   sync.Mutex
	of   map[*Process]int64 // as of the last look at each
	sum  int64
	ends *Process // the one that has to end because all together have too many, until it has
}

// What sandboxes may have of a user's watches.
const (
	watchesOfOne     = 16 // the part that one may have, as a divisor
	watchesOfAll     = 4  // the part for all together
	watchesIfUnknown = 200_000
	unbounded        = 1 << 62
)

// newWatches bounds what the epolls of sandboxes wait for. Linux lets each user have so many (fs.epoll.max_user_watches), and
// the sandboxes of an ordinary user's kernel are that user: without any left, every program of the user that wants to wait
// for a descriptor fails, the kernel too. Those of root's kernel are other users; what one of them has is bounded so that a look at it ends.
func newWatches(m *Machine) *shares {
	if m.root {
		return newShares(MostWatches, unbounded)
	}
	limit, err := readInt("/proc/sys/fs/epoll/max_user_watches")
	if err != nil {
		limit = watchesIfUnknown
	}
	return newShares(min(MostWatches, limit/watchesOfOne), limit/watchesOfAll)
}

// newLocks bounds locks of files. All sandboxes of a kernel may lock the same file, and of users too many.
func newLocks() *shares { return newShares(MostLocks, MostLocksOfAll) }

func newShares(each, all int64) *shares {
	return &shares{each: each, all: all, of: map[*Process]int64{}}
}

// exceeded takes what p was seen to have, and says whether p has to end: it has too many, or has the most and all together
// have too many.
func (s *shares) exceeded(p *Process, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum += n - s.of[p]
	s.of[p] = n
	if n > s.each {
		return true
	}
	if s.sum <= s.all {
		return false
	}
	if s.ends != nil {
		return s.ends == p
	}
	for _, m := range s.of {
		if m > n {
			return false
		}
	}
	s.ends = p
	return true
}

// drop forgets a sandbox that has ended.
func (s *shares) drop(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum -= s.of[p]
	delete(s.of, p)
	if s.ends == p {
		s.ends = nil
	}
}
