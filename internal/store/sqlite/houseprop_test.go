package sqlite

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"agentkernel"
	"agentkernel/internal/store/blob"
)

// crashing counts what happens to files of blobs, and takes a picture of the whole data directory at one of these
// moments, before or after: what a kill -9 would leave.
type crashing struct {
	blob.Store
	mu      sync.Mutex
	at      int // counts down; 0: no more pictures
	after   bool
	picture func(putting bool)
}

func (c *crashing) around(putting bool, do func() error) error {
	c.mu.Lock()
	now := c.at == 1
	if c.at > 0 {
		c.at--
	}
	after := c.after
	c.mu.Unlock()
	if now && !after {
		c.picture(putting)
	}
	err := do()
	if now && after {
		c.picture(putting)
	}
	return err
}

func (c *crashing) Put(ctx context.Context, data []byte) (sum blob.Sum, err error) {
	err = c.around(true, func() error { sum, err = c.Store.Put(ctx, data); return err })
	return sum, err
}

func (c *crashing) Delete(ctx context.Context, sum blob.Sum) error {
	return c.around(false, func() error { return c.Store.Delete(ctx, sum) })
}

func (c *crashing) Discard(ctx context.Context, i blob.Item) error {
	return c.around(false, func() error { return c.Store.Discard(ctx, i) })
}

// known is what a process must have, whatever else happens.
type known struct {
	row     agentkernel.ProcessRecord
	entries []string
	args    map[int]string // by place, of entries in which they are not the same
	image   []byte
	ended   bool
}

// house drives a store through rapid's choices.
type house struct {
	*rapid.T
	root    string // of all data directories of one run
	dirs    int
	cfg     Config
	s       *Store
	blobs   *crashing
	crashed string // directory with the picture; "": none was taken
	before  bool   // it is of the moment before the batch that was being stored
	alive   map[agentkernel.PID]*known
	gone    map[agentkernel.PID]bool
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatalf("%v", err)
	}
}

func (h *house) open() {
	s, err := Open(context.Background(), h.cfg)
	h.must(err)
	h.s = s
	h.blobs = &crashing{Store: s.writer.blobs, picture: h.takePicture}
	h.quiet()
	s.writer.blobs = h.blobs
}

// quiet returns when the store has done all that it does by itself: sweep after commits that may leave blobs unnamed.
func (h *house) quiet() { h.must(h.s.work(func(*writer) error { return nil })) }

func (h *house) nextDir() string {
	h.dirs++
	return filepath.Join(h.root, fmt.Sprint(h.dirs))
}

func (h *house) takePicture(putting bool) {
	dir := h.nextDir()
	h.must(os.CopyFS(dir, os.DirFS(filepath.Dir(h.cfg.Path))))
	h.crashed, h.before = dir, putting
}

// contents are few, so that processes share blobs.
func (h *house) content(label string) string {
	size := rapid.SampledFrom([]int{10, BlobThreshold, BlobThreshold + 7, BlobThreshold + 8}).Draw(h.T, label)
	return strings.Repeat("x", size)
}

// pick draws one of the processes that live, or that have ended; nil: there is none.
func (h *house) pick(ended bool) *known {
	var of []agentkernel.PID
	for pid, k := range h.alive {
		if k.ended == ended {
			of = append(of, pid)
		}
	}
	if len(of) == 0 {
		return nil
	}
	slices.Sort(of)
	return h.alive[rapid.SampledFrom(of).Draw(h.T, "pid")]
}

// put stores a batch durably. Its blobs are written before its commit, and others deleted after it.
func (h *house) put(b agentkernel.Batch, then func()) {
	pos, err := h.s.Append(b)
	h.must(err)
	if rapid.Bool().Draw(h.T, "stage") {
		h.s.Stage()
	}
	if rapid.Bool().Draw(h.T, "other work") {
		h.quiet()
	}
	h.must(h.s.Flush(context.Background(), pos))
	h.quiet()
	if h.crashed == "" || !h.before {
		then()
	}
}

func (h *house) create(*rapid.T) {
	pid := newPID(h.s)
	k := &known{row: *exampleRow(pid)}
	k.row.Spec.Program.Source = h.content("source")
	first := agentkernel.Entry{PID: pid, Seq: 1, Kind: agentkernel.EntryCreated}
	h.put(agentkernel.Batch{Process: &k.row, Entries: []agentkernel.Entry{first}}, func() {
		k.entries = []string{""}
		h.alive[pid] = k
	})
}

// live is a process that begins and ends in one commit.
func (h *house) live(*rapid.T) {
	pid := newPID(h.s)
	k := &known{row: *exampleRow(pid), ended: true, entries: []string{"", ""}}
	k.row.Spec.Program.Source = h.content("source")
	k.row.Result, _ = json.Marshal(h.content("result"))
	b := endedBatch(k.row, 2)
	b.Entries = append([]agentkernel.Entry{{PID: pid, Seq: 1, Kind: agentkernel.EntryCreated}}, b.Entries...)
	h.put(b, func() {
		k.row = *b.Process
		h.alive[pid] = k
	})
}

// write appends to a process, which may have ended.
func (h *house) write(*rapid.T) {
	k := h.pick(rapid.Bool().Draw(h.T, "ended"))
	if k == nil {
		return
	}
	text, _ := json.Marshal(h.content("entry"))
	pid, args := k.row.PID, text
	b := agentkernel.Batch{Entries: []agentkernel.Entry{{PID: pid, Seq: int64(len(k.entries) + 1), Kind: agentkernel.EntryOutput, Args: text, Data: text}}}
	if rapid.Bool().Draw(h.T, "paid") { // its conversation is all that was said before, and this
		args = fmt.Appendf(nil, `{"messages":[{"content":%q}`, strings.Repeat("y", minShared))
		for i := range k.entries {
			args = fmt.Appendf(args, `,{"content":%q}`, fmt.Sprint(i))
		}
		args = fmt.Appendf(args, `,{"content":%s}]}`, text)
		b.Entries[0].Args, b.Entries[0].Effect = args, agentkernel.EffectPaid
	}
	if !k.ended && rapid.Bool().Draw(h.T, "image") {
		random := make([]byte, 3*BlobThreshold) // it cannot be compressed below the threshold
		src := rand.New(rand.NewPCG(uint64(pid), uint64(len(k.entries))))
		for i := range random {
			random[i] = byte(src.Uint32())
		}
		b.Image = &agentkernel.Image{PID: pid, Seq: b.Entries[0].Seq, Fingerprint: "f", Bytes: random}
	}
	h.put(b, func() {
		if k.args == nil {
			k.args = map[int]string{}
		}
		k.args[len(k.entries)] = string(args)
		k.entries = append(k.entries, string(text))
		if b.Image != nil {
			k.image = b.Image.Bytes
		}
	})
}

func (h *house) end(*rapid.T) {
	k := h.pick(false)
	if k == nil {
		return
	}
	row := k.row
	text, _ := json.Marshal(h.content("result"))
	row.Result = text
	b := endedBatch(row, int64(len(k.entries)+1))
	b.Image = &agentkernel.Image{PID: row.PID}
	h.put(b, func() {
		k.row, k.ended, k.image = *b.Process, true, nil
		k.entries = append(k.entries, "")
	})
}

// forget names whom it likes: those that live and those that never were, too.
func (h *house) forget(*rapid.T) {
	var pids []agentkernel.PID
	for pid := range h.s.lastPID.Load() + 2 {
		if rapid.IntRange(0, 2).Draw(h.T, "forget") == 0 {
			pids = append(pids, agentkernel.PID(pid))
		}
	}
	r, err := h.s.Forget(context.Background(), pids, prunedAt)
	h.must(err)
	n := int64(0)
	for _, pid := range pids {
		if k := h.alive[pid]; k != nil && k.ended {
			delete(h.alive, pid)
			h.gone[pid] = true
			n++
		}
	}
	if r.Processes != n {
		h.Fatalf("%d processes were forgotten, %d had ended", r.Processes, n)
	}
}

func (h *house) sweep(*rapid.T) {
	_, _, err := h.s.Sweep(context.Background())
	h.must(err)
}

func (h *house) programs(*rapid.T) {
	_, err := h.s.SweepPrograms(context.Background())
	h.must(err)
}

func (h *house) strays(*rapid.T) {
	if rapid.Bool().Draw(h.T, "plant") {
		dir := filepath.Join(h.cfg.Blobs, "ab", "cd")
		h.must(os.MkdirAll(dir, 0o700))
		h.must(os.WriteFile(filepath.Join(dir, "abcd"+strings.Repeat("0", 60)), []byte("stray"), 0o600))
		h.must(os.WriteFile(filepath.Join(dir, "tmp-1"), []byte("stray"), 0o600))
	}
	_, err := h.s.SweepStrays(context.Background())
	h.must(err)
}

func (h *house) shrink(*rapid.T) {
	_, err := h.s.Shrink(context.Background())
	h.must(err)
}

// arm lets the next actions crash at one of the next things that happen to a file.
func (h *house) arm(*rapid.T) {
	h.blobs.mu.Lock()
	defer h.blobs.mu.Unlock()
	h.blobs.at = rapid.IntRange(1, 4).Draw(h.T, "at")
	h.blobs.after = rapid.Bool().Draw(h.T, "after")
}

func (h *house) crashNow(*rapid.T) { h.takePicture(false) }

// recoverCrash goes on from the picture, as the next kernel would. Nothing is checked at that moment: what was
// left half done must do no harm to anything that comes later.
func (h *house) recoverCrash() {
	if h.crashed == "" {
		return
	}
	h.must(h.s.Close())
	h.cfg, h.crashed = testConfig(h.crashed), ""
	h.open()
}

func (h *house) check(*rapid.T) {
	h.recoverCrash()
	ctx := context.Background()
	for pid, k := range h.alive {
		p, err := h.s.Process(ctx, pid)
		h.must(err)
		if p.Spec.Program.Source != k.row.Spec.Program.Source || string(p.Result) != string(k.row.Result) || p.State != k.row.State {
			h.Fatalf("process %d is not as it was stored", pid)
		}
		list, err := h.s.Entries(ctx, pid, 1, 0)
		h.must(err)
		if len(list) != len(k.entries) {
			h.Fatalf("process %d has %d entries, %d were stored", pid, len(list), len(k.entries))
		}
		for i, e := range list {
			if string(e.Data) != k.entries[i] || string(e.Args) != k.args[i] {
				h.Fatalf("process %d: entry %d is not as it was stored", pid, i+1)
			}
		}
		im, err := h.s.Image(ctx, pid)
		if k.image == nil && agentkernel.CodeOf(err) == agentkernel.CodeNotFound {
			continue
		}
		h.must(err)
		if string(im.Bytes) != string(k.image) {
			h.Fatalf("process %d: the image is not as it was stored", pid)
		}
	}
	for pid := range h.gone {
		if _, err := h.s.Process(ctx, pid); agentkernel.AsError(err, "", "").Op != agentkernel.OpPruned {
			h.Fatalf("process %d was pruned, but: %v", pid, err)
		}
	}
}

// settle sweeps until nothing is left to sweep and looks at everything.
func (h *house) settle() {
	h.check(h.T)
	h.blobs.mu.Lock()
	h.blobs.at = 0
	h.blobs.mu.Unlock()
	for more := true; more; {
		var err error
		_, more, err = h.s.Sweep(context.Background())
		h.must(err)
	}
	_, err := h.s.SweepPrograms(context.Background())
	h.must(err)
	_, err = h.s.SweepStrays(context.Background())
	h.must(err)
	h.check(h.T)
	checkHouse(h.T, h.s)
	h.must(h.s.Close())
}

// TestHousekeepingTakesNothingFromTheLiving: whatever is forgotten and swept, in whatever order, with crashes at any
// moment at which a file of a blob is written or deleted, every process that was not forgotten is whole;
// and after a last sweep nothing is left that nobody names.
func TestHousekeepingTakesNothingFromTheLiving(t *testing.T) {
	root := fastDir(t)
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue { // each opens some databases
		if err := f.Value.Set("30"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
	}
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		h := &house{T: rt, root: filepath.Join(root, fmt.Sprint(run)), alive: map[agentkernel.PID]*known{}, gone: map[agentkernel.PID]bool{}}
		dir := h.nextDir()
		h.must(os.MkdirAll(dir, 0o700))
		h.cfg = testConfig(dir)
		h.open()
		rt.Repeat(map[string]func(*rapid.T){"create": h.create, "live": h.live, "write": h.write, "end": h.end, "forget": h.forget, "sweep": h.sweep,
			"programs": h.programs, "strays": h.strays, "shrink": h.shrink, "arm": h.arm, "crash": h.crashNow, "": h.check})
		h.settle()
		h.must(os.RemoveAll(h.root))
	})
}

// fastDir is a directory in memory if there is one: a copy of a directory is no power cut, so waiting for a disk proves
// nothing.
func fastDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "agentkernel-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Under load: processes write and end, one after the other, while everything that has ended is forgotten and swept.
func TestPruningUnderLoad(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	const writers, lives, entries = 4, 12, 8
	ended := make(chan agentkernel.PID, writers*lives)
	var group sync.WaitGroup
	survivors := make([]agentkernel.PID, writers)
	for w := range writers {
		group.Go(func() {
			for life := range lives {
				pid := newPID(s)
				row := exampleRow(pid)
				row.Spec.Program.Source = strings.Repeat("p", BlobThreshold+life%3)
				if err := appendFlush(s, agentkernel.Batch{Process: row}); err != nil {
					t.Error(err)
					return
				}
				for seq := range int64(entries) {
					if err := appendFlush(s, note(pid, seq+1, 10+BlobThreshold*int(seq%2))); err != nil {
						t.Error(err)
						return
					}
				}
				if life == lives-1 {
					survivors[w] = pid
					return
				}
				if err := appendFlush(s, endedBatch(*row, entries+1)); err != nil {
					t.Error(err)
					return
				}
				ended <- pid
			}
		})
	}
	go func() { group.Wait(); close(ended) }()
	pruned := map[agentkernel.PID]bool{}
	for pid := range ended {
		if _, err := s.Forget(t.Context(), []agentkernel.PID{pid}, prunedAt); err != nil {
			t.Fatal(err)
		}
		pruned[pid] = true
		if _, _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.SweepPrograms(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.SweepStrays(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sweepAll(t, s)
	if len(pruned) != writers*(lives-1) {
		t.Fatalf("%d were pruned", len(pruned))
	}
	for _, pid := range survivors {
		checkLength(t, s, pid, entries)
		if p, err := s.Process(t.Context(), pid); err != nil || len(p.Spec.Program.Source) < BlobThreshold {
			t.Errorf("process %d: %v", pid, err)
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(pruned)) {
		if _, err := s.Process(t.Context(), pid); err == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
	checkHouse(t, s)
}
