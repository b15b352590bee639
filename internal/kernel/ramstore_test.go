package kernel_test

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"agentkernel"
)

// ramStore is the smallest Store, for tests that need virtual time or count commits. What was not flushed
// is lost by crash.
type ramStore struct {
	readBytes int // of entries and images that were handed out
	mu        sync.Mutex
	pending   []agentkernel.Batch
	durable   []agentkernel.Batch
	pos       agentkernel.Position
	flushes   int
	nextPID   agentkernel.PID
	noPID     error // what NewPID answers; nil: a PID
	failed    error
	// crashAt is the operation (append or flush, from 1) at which the power fails; 0: never. With after,
	// the operation still happens.
	crashAt, ops int
	after        bool
	mostRead     int // entries that one read gave
	entriesRead  int
	onEntries    func() // runs before entries are read
	holds        []agentkernel.Hold
}

var errPowerCut = agentkernel.Errorf(agentkernel.CodeStorage, "store", "the power failed")

// operate counts an operation and says whether it happens and what its caller sees; s.mu is held.
func (s *ramStore) operate() (happens bool, err error) {
	if s.failed != nil {
		return false, s.failed
	}
	s.ops++
	if s.crashAt != 0 && s.ops == s.crashAt {
		s.failed = errPowerCut
		return s.after, errPowerCut
	}
	return true, nil
}

// cutPower lets the power fail at one of the operations from now on: at, from 1, counts each twice, before and after it.
func (s *ramStore) cutPower(at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashAt, s.after = s.ops+(at+1)/2, at%2 == 0
}

func newRAMStore() *ramStore { return &ramStore{nextPID: 1} }

// crash gives the store as it would be found after a power cut.
func (s *ramStore) crash() *ramStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = agentkernel.Errorf(agentkernel.CodeStorage, "store", "crashed")
	return &ramStore{durable: slices.Clone(s.durable), nextPID: s.nextPID, holds: slices.Clone(s.holds)}
}

func (s *ramStore) Info() agentkernel.StoreInfo { return agentkernel.StoreInfo{UUID: "ram"} }

func (s *ramStore) NewPID(ctx context.Context) (agentkernel.PID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noPID != nil {
		return 0, s.noPID
	}
	s.nextPID++
	return s.nextPID - 1, ctx.Err()
}

func (s *ramStore) Append(b agentkernel.Batch) (agentkernel.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	happens, err := s.operate()
	if happens {
		s.pending = append(s.pending, b)
		s.pos++
	}
	return s.pos, err
}

func (s *ramStore) Flush(context.Context, agentkernel.Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	happens, err := s.operate()
	if !happens {
		return err
	}
	if len(s.pending) > 0 {
		s.flushes++
	}
	s.durable = append(s.durable, s.pending...)
	s.pending = nil
	return err
}

// beforeNextRead runs a function once, before entries are read the next time.
func (s *ramStore) beforeNextRead(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onEntries = func() {
		s.mu.Lock()
		s.onEntries = nil
		s.mu.Unlock()
		fn()
	}
}

// flushCount is how many commits were waited for.
func (s *ramStore) flushCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushes
}

func (s *ramStore) all() []agentkernel.Batch { return append(slices.Clone(s.durable), s.pending...) }

func (s *ramStore) Process(_ context.Context, pid agentkernel.PID) (agentkernel.ProcessRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *agentkernel.ProcessRecord
	for _, b := range s.all() {
		if b.Process != nil && b.Process.PID == pid {
			found = b.Process
		}
	}
	if found == nil {
		return agentkernel.ProcessRecord{}, agentkernel.Errorf(agentkernel.CodeNotFound, "process", "there is no process %d", pid)
	}
	return *found, nil
}

func (s *ramStore) Processes(_ context.Context, f agentkernel.Filter) ([]agentkernel.ProcessRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := map[agentkernel.PID]agentkernel.ProcessRecord{}
	for _, b := range s.all() {
		if b.Process != nil {
			rows[b.Process.PID] = *b.Process
		}
	}
	var out []agentkernel.ProcessRecord
	for _, r := range rows {
		if f.Unfinished && r.State.Terminal() || f.Active && (r.State.Terminal() || r.Parked != nil) || f.Before != 0 && r.PID >= f.Before || f.Parent != 0 && r.Parent != f.Parent || f.Namespace != "" && f.Key == "" && r.Namespace != f.Namespace {
			continue
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b agentkernel.ProcessRecord) int { return int(b.PID - a.PID) })
	return out, nil
}

func (s *ramStore) Due(ctx context.Context, kernel int64, limit int) (list []agentkernel.Due, err error) {
	rows, err := s.Processes(ctx, agentkernel.Filter{Unfinished: true})
	for _, p := range slices.Backward(rows) {
		if p.Parked != nil && !p.Parked.Until.IsZero() && (kernel == 0 || p.Parked.Kernel == kernel) {
			list = append(list, agentkernel.Due{PID: p.PID, At: p.Parked.Until})
		}
	}
	slices.SortStableFunc(list, func(a, b agentkernel.Due) int { return a.At.Compare(b.At) })
	return list[:min(limit, len(list))], err
}

func (s *ramStore) Inbox(_ context.Context, pid agentkernel.PID) (list []agentkernel.Post, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.all() {
		for _, p := range b.Posts {
			if p.To == pid {
				list = append(list, p)
			}
		}
		if len(b.Entries) > 0 && b.Entries[0].PID == pid {
			list = slices.DeleteFunc(list, func(p agentkernel.Post) bool { return slices.Contains(b.Took, p.PostID) })
			if b.Process != nil && b.Process.State.Terminal() {
				list = nil
			}
		}
	}
	slices.SortStableFunc(list, func(a, b agentkernel.Post) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.At.Compare(b.At))
	})
	return list, nil
}

func (s *ramStore) Waiting(ctx context.Context, pid agentkernel.PID, kind string) (int, error) {
	list, err := s.Inbox(ctx, pid)
	return len(slices.DeleteFunc(list, func(p agentkernel.Post) bool { return p.Kind != kind })), err
}

func (s *ramStore) Posted(ctx context.Context) (found []agentkernel.PID, err error) {
	rows, err := s.Processes(ctx, agentkernel.Filter{Unfinished: true})
	for _, p := range slices.Backward(rows) {
		if list, _ := s.Inbox(ctx, p.PID); len(list) > 0 {
			found = append(found, p.PID)
		}
	}
	return found, err
}

func (s *ramStore) Count(ctx context.Context, f agentkernel.Filter) (int, error) {
	list, err := s.Processes(ctx, f)
	return len(list), err
}

func (s *ramStore) ByKey(_ context.Context, namespace, key string) (agentkernel.PID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.all() {
		if b.Process != nil && b.Process.Spec.IdempotencyKey == key && b.Process.Namespace == namespace {
			return b.Process.PID, nil
		}
		if b.Key != nil && *b.Key == (agentkernel.Key{Namespace: namespace, Name: key}) {
			return b.Entries[0].PID, nil
		}
	}
	return 0, agentkernel.Errorf(agentkernel.CodeNotFound, "process", "no process with that key")
}

func (s *ramStore) Entries(ctx context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	s.mu.Lock()
	first := s.onEntries
	s.mu.Unlock()
	if first != nil {
		first()
	}
	if err := ctx.Err(); err != nil { // as databases do
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []agentkernel.Entry
	for _, b := range s.all() {
		for _, e := range b.Entries {
			if e.PID == pid && e.Seq >= from && (limit == 0 || len(out) < limit) {
				out = append(out, e)
				s.readBytes += len(e.Args) + len(e.Data) + len(e.Note) + 64
			}
		}
	}
	s.mostRead, s.entriesRead = max(s.mostRead, len(out)), s.entriesRead+len(out)
	return out, nil
}

func (s *ramStore) Image(_ context.Context, pid agentkernel.PID) (agentkernel.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *agentkernel.Image
	for _, b := range s.all() {
		if b.Image != nil && b.Image.PID == pid {
			found = b.Image
		}
	}
	if found == nil || found.Bytes == nil {
		return agentkernel.Image{}, agentkernel.Errorf(agentkernel.CodeNotFound, "image", "no image")
	}
	s.readBytes += len(found.Bytes) + len(found.Kernel)
	return *found, nil
}

func (s *ramStore) State(_ context.Context, pid agentkernel.PID) (map[string]json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]json.RawMessage{}
	for _, b := range s.all() {
		for k, v := range b.State {
			if b.Entries[0].PID != pid {
				continue
			}
			if v == nil {
				delete(out, k)
				continue
			}
			out[k] = v
		}
	}
	return out, nil
}

func (s *ramStore) SmallState(ctx context.Context, pid agentkernel.PID, atMost int64) (state map[string]json.RawMessage, size int64, err error) {
	if state, err = s.State(ctx, pid); err == nil {
		state, size = agentkernel.SmallState(state, atMost)
	}
	return state, size, err
}

func (s *ramStore) Close() error { return s.Flush(context.Background(), 0) }

// pass lets synctest's clock go on.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // virtual time

// sizes are those of the program's part of the last image of a process, and of the payloads of its journal.
func (s *ramStore) sizes(pid agentkernel.PID) (image, journal int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.all() {
		if b.Image != nil && b.Image.PID == pid && b.Image.Bytes != nil {
			image = len(b.Image.Bytes)
		}
		for _, e := range b.Entries {
			if e.PID == pid {
				journal += len(e.Args) + len(e.Data) + 64
			}
		}
	}
	return image, journal
}

func (s *ramStore) SetHolds(_ context.Context, holds []agentkernel.Hold) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	happens, err := s.operate()
	if happens {
		s.holds = slices.Clone(holds)
	}
	return err
}

func (s *ramStore) Holds(context.Context) ([]agentkernel.Hold, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.holds), nil
}
