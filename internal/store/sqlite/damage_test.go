package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/store/sqlite/wal"
)

// picture is what a kernel that is killed leaves: the files of a database that is open.
type picture map[string][]byte

var pictured = []string{"", "-wal", "-shm", "-mark"}

func takePicture(t testing.TB, path string) picture {
	t.Helper()
	p := picture{}
	for _, suffix := range pictured {
		b, err := os.ReadFile(path + suffix)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err == nil {
			p[suffix] = b
		}
	}
	return p
}

// put writes a picture into an empty directory and returns the configuration for it. change, if not nil, replaces files; nil
// content: the file is not there.
func (p picture) put(t testing.TB, change picture) Config {
	t.Helper()
	cfg := testConfig(t.TempDir())
	for _, suffix := range pictured {
		b, there := change[suffix]
		if !there {
			b = p[suffix]
		}
		if b == nil {
			continue
		}
		if err := os.WriteFile(cfg.Path+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cfg
}

// written makes a database with so many commits, and returns pictures of it before the last one and after it.
func written(t testing.TB, commits int) (before, after picture) {
	t.Helper()
	cfg := testConfig(t.TempDir())
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range commits {
		if i == commits-1 {
			before = takePicture(t, cfg.Path)
		}
		b := note(1, int64(i+1), 10+i%3*5000)
		if err := appendFlush(s, b); err != nil {
			t.Fatal(err)
		}
	}
	return before, takePicture(t, cfg.Path)
}

// smallLog makes pictures of a log with small pages before and after its last commit, so that each byte of it can be changed. There
// is no mark.
func smallLog(t testing.TB) (before, after picture) {
	t.Helper()
	path := testConfig(t.TempDir()).Path
	c, err := dial(path, map[string][]string{}, "page_size = 512", "journal_mode = WAL", "synchronous = FULL")
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.script("CREATE TABLE x (y)"); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{10, 1500, 10, 900} { // one frame, several, one, several
		before = takePicture(t, path)
		if err := c.exec("INSERT INTO x VALUES (zeroblob(?))", int64(n)); err != nil {
			t.Fatal(err)
		}
	}
	return before, takePicture(t, path)
}

// frame is the size of a frame in bytes.
func (p picture) frame() int { return 24 + int(binary.BigEndian.Uint32(p["-wal"][8:])) }

// transactions gives the frames that end a transaction, from 1.
func (p picture) transactions() (ends []int) {
	for n := 1; 32+n*p.frame() <= len(p["-wal"]); n++ {
		h := p["-wal"][32+(n-1)*p.frame():]
		if bytes.Equal(h[8:16], p["-wal"][16:24]) && binary.BigEndian.Uint32(h[4:]) != 0 {
			ends = append(ends, n)
		}
	}
	return ends
}

// patched is a log that is changed in place and checked again and again.
type patched struct {
	t   *testing.T
	cfg Config
	f   *os.File
	log []byte
}

func patch(t *testing.T, p, change picture) *patched {
	t.Helper()
	cfg := p.put(t, change)
	f, err := os.OpenFile(cfg.Path+"-wal", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &patched{t, cfg, f, p["-wal"]}
}

func (p *patched) check() *wal.Damage {
	p.t.Helper()
	d, err := wal.Check(p.cfg.Path)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

// changed checks the log with one byte changed.
func (p *patched) changed(at int, to byte) *wal.Damage {
	p.t.Helper()
	write := func(b byte) {
		if _, err := p.f.WriteAt([]byte{b}, int64(at)); err != nil {
			p.t.Fatal(err)
		}
	}
	write(to)
	defer write(p.log[at])
	return p.check()
}

// What a kernel leaves that dies in the middle of its last commit is no damage, wherever that was cut.
func TestATornTailIsAccepted(t *testing.T) {
	before, after := smallLog(t)
	ends := after.transactions()
	from := 32 + ends[len(ends)-2]*after.frame()
	for _, known := range []struct {
		name  string
		index []byte
	}{{"with what the index says", before["-shm"]}, {"with the log alone", nil}} {
		t.Run(known.name, func(t *testing.T) {
			p := patch(t, after, picture{"-shm": known.index})
			for n := len(after["-wal"]); n >= from; n-- {
				if err := p.f.Truncate(int64(n)); err != nil {
					t.Fatal(err)
				}
				if d := p.check(); d != nil {
					t.Fatalf("cut to %d of %d bytes: %+v", n, len(after["-wal"]), d)
				}
			}
		})
	}
}

// What is in front of the last transaction was durable before that began; and all of it is, where the index says so.
func TestADamagedLogIsRefused(t *testing.T) {
	_, after := smallLog(t)
	ends := after.transactions()
	last := 32 + ends[len(ends)-2]*after.frame()
	for _, c := range []struct {
		name  string
		index []byte
		to    int
		masks []byte
	}{
		{"with the log alone", nil, last, []byte{0xff, 0x80}},
		{"with what the index says", after["-shm"], len(after["-wal"]), []byte{0xff, 0x01, 0x04}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := patch(t, after, picture{"-shm": c.index})
			if d := p.check(); d != nil {
				t.Fatalf("sound: %+v", d)
			}
			for at := range c.to {
				for _, mask := range c.masks {
					if p.changed(at, after["-wal"][at]^mask) == nil {
						t.Errorf("byte %d of frame %d was changed, and nothing said", (at-32)%after.frame(), 1+(at-32)/after.frame())
					}
				}
			}
		})
	}
	t.Run("cut", func(t *testing.T) {
		p := patch(t, after, nil)
		for n := len(after["-wal"]) - 1; n >= 0; n-- {
			if err := p.f.Truncate(int64(n)); err != nil {
				t.Fatal(err)
			}
			if p.check() == nil {
				t.Fatalf("cut to %d bytes, and nothing said", n)
			}
		}
	})
}

// torn is a log of whose last commit each sector reached the disk or did not.
func torn(r *rand.Rand, before, after []byte) []byte {
	log := append([]byte(nil), after...)
	for at := 0; at < len(log); at += 512 {
		if r.IntN(2) == 0 {
			continue
		}
		sector := log[at:min(at+512, len(log))]
		clear(sector)
		if at < len(before) {
			copy(sector, before[at:])
		}
	}
	return log
}

// The header of frame 42 lies in two sectors, if pages have 512 bytes: whether a transaction ends with it in the first, the rest in
// the second. Of a commit that was cut off, the first may be that of an older log.
func TestAHeaderInTwoSectors(t *testing.T) {
	path := testConfig(t.TempDir()).Path
	c, err := dial(path, map[string][]string{}, "page_size = 512", "journal_mode = WAL")
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.script("CREATE TABLE x (y); INSERT INTO x VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	commits := func(n int) {
		t.Helper()
		for range n {
			if err := c.script("UPDATE x SET y = y + 1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	commits(60)
	if err := c.script("PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
		t.Fatal(err)
	}
	commits(40)
	before := takePicture(t, path)
	if ends := before.transactions(); len(ends) != 40 {
		t.Fatalf("%d transactions of one frame", len(ends))
	}
	if err := c.script("INSERT INTO x VALUES (zeroblob(3000))"); err != nil {
		t.Fatal(err)
	}
	after := takePicture(t, path)
	split := 32 + 41*before.frame() + 8
	if split%512 != 0 || !bytes.Equal(after["-wal"][16:24], before["-wal"][16:24]) || bytes.Equal(after["-wal"][split-512:split], before["-wal"][split-512:split]) {
		t.Fatalf("byte %d is not what it should be", split)
	}
	copy(after["-wal"][split-512:split], before["-wal"][split-512:])
	cfg := before.put(t, picture{"-wal": after["-wal"]})
	if d, err := wal.Check(cfg.Path); d != nil || err != nil {
		t.Errorf("%+v, %v", d, err)
	}
}

// A log is begun anew in the same file once all of it is in the database, so older frames lie behind, and below, those of the
// last commit; and after a crash frames of the same log do, that were never committed. None of that is damage.
func TestTornSectorsAreAccepted(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	r := rand.New(rand.NewPCG(3, 4))
	for _, page := range []int{512, 1024, 4096} {
		t.Run(fmt.Sprint(page), func(t *testing.T) {
			cfg := testConfig(t.TempDir())
			rawSQL(t, cfg.Path, fmt.Sprintf("PRAGMA page_size = %d; PRAGMA journal_mode = WAL; CREATE TABLE x (y)", page))
			for round := range rounds {
				c, err := dial(cfg.Path, map[string][]string{}, "synchronous = FULL")
				if err != nil {
					t.Fatal(err)
				}
				insert := func() {
					if err := c.exec("INSERT INTO x VALUES (randomblob(?))", int64(r.IntN(page*6))); err != nil {
						t.Fatal(err)
					}
				}
				for range r.IntN(4) {
					insert()
				}
				if r.IntN(2) == 0 {
					if err := c.script("PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
						t.Fatal(err)
					}
				}
				insert()
				before := takePicture(t, cfg.Path)
				insert()
				after := takePicture(t, cfg.Path)
				if err := c.close(); err != nil {
					t.Fatal(err)
				}
				cfg = before.put(t, picture{"-wal": torn(r, before["-wal"], after["-wal"])})
				alone := before.put(t, picture{"-wal": torn(r, before["-wal"], after["-wal"]), "-shm": nil})
				for _, cfg := range []Config{cfg, alone} {
					if d, err := wal.Check(cfg.Path); d != nil || err != nil {
						t.Fatalf("round %d: %+v, %v", round, d, err)
					}
				}
			}
		})
	}
}

// Whatever sectors of the last commit reach the disk when the power goes, and however often: each time the log is accepted,
// and everything that was acknowledged is there.
func TestPowerLossIsNoDamage(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 10
	}
	r := rand.New(rand.NewPCG(1, 2))
	cfg := testConfig(t.TempDir())
	acknowledged, next := int64(0), int64(1)
	for round := range rounds {
		s, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		entries, err := s.Entries(t.Context(), 1, 1, 0)
		if err != nil || int64(len(entries)) < acknowledged {
			t.Fatalf("round %d: %d entries, %d were acknowledged (%v)", round, len(entries), acknowledged, err)
		}
		next = int64(len(entries)) + 1
		commit := func() {
			b := note(1, next, r.IntN(30_000))
			if err := appendFlush(s, b); err != nil {
				t.Fatal(err)
			}
			next++
		}
		for range r.IntN(3) {
			commit()
		}
		acknowledged = next - 1
		before := takePicture(t, cfg.Path)
		commit()
		after := takePicture(t, cfg.Path)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		change := picture{"-wal": torn(r, before["-wal"], after["-wal"])}
		switch r.IntN(3) { // neither index nor mark is synced
		case 0:
			change["-shm"], change["-mark"] = nil, nil
		case 1:
			change["-shm"] = nil
		}
		cfg = before.put(t, change)
	}
}

// CheckLog notices what is gone although the log by itself is sound, or is not there.
func TestWhatIsGoneIsNoticed(t *testing.T) {
	before, after := written(t, 6)
	ends := after.transactions()
	shorter := after["-wal"][:32+ends[3]*after.frame()]
	for _, c := range []struct {
		name   string
		change picture
		words  string
	}{
		{"as it was left", nil, ""},
		{"the index is gone", picture{"-shm": nil}, ""},
		{"killed before anybody heard of the last commit", picture{"-shm": before["-shm"], "-mark": before["-mark"]}, ""},
		{"the log was removed", picture{"-wal": nil}, "missing"},
		{"log and index were removed", picture{"-wal": nil, "-shm": nil}, "entry 6 of process 1 was durable"},
		{"all were removed but an older mark", picture{"-wal": nil, "-shm": nil, "-mark": before["-mark"]}, "entry 5 of process 1 was durable"},
		{"the log was emptied", picture{"-wal": {}}, "emptied"},
		{"log and index were emptied", picture{"-wal": {}, "-shm": {}}, "entry 6 of process 1"},
		{"cut at a transaction's end", picture{"-wal": shorter}, "was cut off after frame"},
		{"cut at a transaction's end, without the index", picture{"-wal": shorter, "-shm": nil}, "entry 6 of process 1"},
		{"cut by one transaction, without index and mark", picture{"-wal": shorter, "-shm": nil, "-mark": nil}, ""}, // cannot be told
		{"a log of long ago", picture{"-wal": nil, "-mark": nil}, "missing"},
		{"a mark that was not written yet", picture{"-mark": {}}, ""},
		{"a mark that is broken", picture{"-mark": []byte("agentkernel mark 1: 9 9 00000000\n")}, ""},
		{"the database was emptied", picture{"": {}}, "was emptied: it has no bytes, its log"},
		{"the database was emptied, and the log removed", picture{"": {}, "-wal": nil}, "was emptied: it has no bytes, and entry 6 of process 1 was durable"},
		{"the database was removed", picture{"": nil}, "was removed: it is not there, its log"},
		{"database and log were removed", picture{"": nil, "-wal": nil}, "was removed: it is not there, and entry 6 of process 1 was durable"},
		{"all were removed but the index", picture{"": nil, "-wal": nil, "-mark": nil}, "was removed: it is not there, and the log is missing"},
		{"all were removed", picture{"": nil, "-wal": nil, "-shm": nil, "-mark": nil}, ""},
		{"nothing was ever written", picture{"": nil, "-wal": nil, "-shm": nil, "-mark": place{}.encode(nil)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := after.put(t, c.change)
			err := CheckLog(t.Context(), cfg)
			if c.words == "" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			checkError(t, err, agentkernel.CodeCorrupt, c.words, "recover --accept-loss")
			if !IsDamaged(err) {
				t.Error("it is not known as damage")
			}
			if _, err := Open(t.Context(), cfg); !IsDamaged(err) {
				t.Errorf("opened: %v", err)
			}
		})
	}
}

// Closing takes the mark away, and not before everything is in the database.
func TestTheMarkOfAnOrderlyEnd(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	if err := appendFlush(s, note(1, 1, 10)); err != nil {
		t.Fatal(err)
	}
	if p, there, err := readMark(cfg.Path); err != nil || !there || p != (place{1, 1}) {
		t.Errorf("mark %v, %v, %v", p, there, err)
	}
	held, err := dial(cfg.Path, map[string][]string{"mode": {"ro"}}, "busy_timeout = 100")
	if err != nil {
		t.Fatal(err)
	}
	if err := held.script("BEGIN; SELECT count(*) FROM entries"); err != nil {
		t.Fatal(err)
	}
	if err := appendFlush(s, note(1, 2, 10)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, there, _ := readMark(cfg.Path); !there {
		t.Error("somebody reads, so the log is needed; the mark is gone")
	}
	if err := held.close(); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, cfg)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if _, there, _ := readMark(cfg.Path); there {
		t.Error("a mark is left after an orderly end")
	}
	if err := os.Remove(cfg.Path + "-wal"); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	mustOpen(t, cfg)
}

// Another program that closes the database last moves the log into it: nothing is lost, and nothing is said.
func TestAnotherProgramMovesTheLog(t *testing.T) {
	_, after := written(t, 6)
	cfg := after.put(t, nil)
	rawSQL(t, cfg.Path, "SELECT count(*) FROM entries")
	if _, err := os.Stat(cfg.Path + "-wal"); !os.IsNotExist(err) {
		t.Fatalf("the log is there: %v", err)
	}
	s := mustOpen(t, cfg)
	if list, err := s.Entries(t.Context(), 1, 1, 0); err != nil || len(list) != 6 {
		t.Errorf("%d entries, %v", len(list), err)
	}
}

// Accepting a loss keeps what was there, leaves what is whole, and counts only when the store that deals with it is closed.
func TestAcceptLoss(t *testing.T) {
	_, after := written(t, 6)
	ends := after.transactions()
	broken := append([]byte(nil), after["-wal"]...)
	broken[32+ends[len(ends)-3]*after.frame()+1000] ^= 1
	for _, c := range []struct {
		name   string
		change picture
		left   int
		copies int
	}{
		{"a broken frame", picture{"-wal": broken}, 4, 2},
		{"the log was removed", picture{"-wal": nil}, 0, 1},
		{"log and index were removed", picture{"-wal": nil, "-shm": nil}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := after.put(t, c.change)
			loss, err := AcceptLoss(t.Context(), cfg, ".damaged-1")
			if err != nil && c.left > 0 {
				t.Fatal(err)
			}
			if c.left == 0 { // the schema itself was in the log
				return
			}
			if len(loss.Copies) != c.copies {
				t.Errorf("copies %v", loss.Copies)
			}
			if got, err := os.ReadFile(cfg.Path + "-wal.damaged-1"); err != nil || !bytes.Equal(got, broken) {
				t.Errorf("the copy of the log has %d bytes, %v", len(got), err)
			}
			if _, err := Open(t.Context(), cfg); !IsDamaged(err) {
				t.Errorf("nobody dealt with the loss, and it opens: %v", err)
			}
			again, err := AcceptLoss(t.Context(), cfg, ".damaged-2")
			if err != nil || again == nil || len(again.Copies) != 0 {
				t.Errorf("again: %+v, %v", again, err)
			}
			lossy := cfg
			lossy.Lossy = true
			s := mustOpen(t, lossy)
			if err := appendFlush(s, note(1, int64(c.left+1), 10)); err != nil {
				t.Fatal(err)
			}
			if p, _, _ := readMark(cfg.Path); p != unsettled {
				t.Errorf("the mark says %v before the loss was dealt with", p)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = mustOpen(t, cfg)
			if list, err := s.Entries(t.Context(), 1, 1, 0); err != nil || len(list) != c.left+1 {
				t.Errorf("%d entries, %v", len(list), err)
			}
			if none, err := AcceptLoss(t.Context(), testConfig(filepath.Dir(cfg.Path)), ".damaged-3"); none != nil && err == nil {
				t.Errorf("a sound database lost %+v", none)
			}
		})
	}
}

// A new database begins where one was removed or emptied only when the loss is accepted; what was beside it is kept.
func TestTheLossOfADatabaseIsAccepted(t *testing.T) {
	_, after := written(t, 6)
	for name, change := range map[string]picture{
		"removed": {"": nil}, "emptied": {"": {}}, "removed with its log": {"": nil, "-wal": nil}, "with its log and index": {"": nil, "-wal": nil, "-shm": nil},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := after.put(t, change)
			if _, err := Open(t.Context(), cfg); !IsDamaged(err) {
				t.Fatalf("opened: %v", err)
			}
			for _, suffix := range pictured[1:] {
				want, changed := change[suffix]
				if !changed {
					want = after[suffix]
				}
				if got, _ := os.ReadFile(cfg.Path + suffix); !bytes.Equal(got, want) {
					t.Errorf("the refusal has changed the file %s", suffix)
				}
			}
			loss, err := AcceptLoss(t.Context(), cfg, ".damaged-1")
			if err != nil || loss.PID != 1 {
				t.Fatalf("%+v, %v", loss, err)
			}
			for _, path := range loss.Copies {
				suffix := strings.TrimSuffix(strings.TrimPrefix(path, cfg.Path), ".damaged-1")
				if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, after[suffix]) {
					t.Errorf("the copy %s has %d bytes, %v", path, len(got), err)
				}
			}
			if _, removed := change["-wal"]; !removed && len(loss.Copies) != 2 {
				t.Errorf("copies %v", loss.Copies)
			}
			if _, err := Open(t.Context(), cfg); !IsDamaged(err) {
				t.Errorf("nobody dealt with the loss, and it opens: %v", err)
			}
			lossy := cfg
			lossy.Lossy = true
			if err := mustOpen(t, lossy).Close(); err != nil {
				t.Fatal(err)
			}
			s := mustOpen(t, cfg)
			if list, err := s.Entries(t.Context(), 1, 1, 0); err != nil || len(list) != 0 {
				t.Errorf("%d entries, %v", len(list), err)
			}
		})
	}
}

// A log that was moved to the database further than its whole frames go is dropped: its pages are older.
func TestALogBehindTheDatabaseIsDropped(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		if err := appendFlush(s, note(1, int64(i+1), 10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.work(func(w *writer) error { return w.checkpoint() }); err != nil {
		t.Fatal(err)
	}
	p := takePicture(t, cfg.Path)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	p["-wal"][32+5*p.frame()+100] ^= 1
	cfg = p.put(t, nil)
	if loss, err := AcceptLoss(t.Context(), cfg, ".damaged"); err != nil || loss == nil {
		t.Fatalf("%+v, %v", loss, err)
	}
	cfg.Lossy = true
	s = mustOpen(t, cfg)
	if list, err := s.Entries(context.Background(), 1, 1, 0); err != nil || len(list) != 6 {
		t.Errorf("%d entries, %v", len(list), err)
	}
}

// Whatever a log and an index hold, looking at them ends, and changes nothing.
func FuzzCheckLog(f *testing.F) {
	_, after := written(f, 3)
	f.Add(after["-wal"][:32+3*after.frame()], after["-shm"][:256])
	f.Add(after["-wal"][:100], []byte{})
	f.Add([]byte{}, after["-shm"][:136])
	f.Fuzz(func(t *testing.T, log, index []byte) {
		path := filepath.Join(t.TempDir(), "k.db")
		for suffix, b := range map[string][]byte{"-wal": log, "-shm": index} {
			if err := os.WriteFile(path+suffix, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := wal.Check(path); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path + "-wal"); err != nil || !bytes.Equal(got, log) {
			t.Fatal("the log was changed")
		}
	})
}

func BenchmarkCheckLog(b *testing.B) {
	for _, commits := range []int{10, 1200} {
		_, after := written(b, commits)
		cfg := after.put(b, nil)
		b.Run(fmt.Sprintf("%dkB", len(after["-wal"])>>10), func(b *testing.B) {
			b.SetBytes(int64(len(after["-wal"])))
			for b.Loop() {
				if d, err := wal.Check(cfg.Path); d != nil || err != nil {
					b.Fatal(d, err)
				}
			}
		})
	}
}
