package sqlite

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"agentkernel"
)

// talk is a conversation as a program hands it to llm.complete.
type talk struct {
	before   string   // what comes before the messages, if anything does
	messages []string // objects
	after    string   // what comes behind them
}

func (k *talk) args() json.RawMessage {
	return json.RawMessage("{" + k.before + `"messages":[` + strings.Join(k.messages, ",") + "]" + k.after + "}")
}

func message(role, text string) string {
	content, _ := json.Marshal(text)
	return fmt.Sprintf(`{"content":%s,"role":%q}`, content, role)
}

// words is text of about n bytes that is like no other.
func words(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%x ", r.Uint32())
	}
	return b.String()[:n]
}

func paid(pid agentkernel.PID, seq int64, args json.RawMessage) agentkernel.Entry {
	return agentkernel.Entry{PID: pid, Seq: seq, Kind: agentkernel.EntryCall, Call: seq, Op: "llm.complete", Effect: agentkernel.EffectPaid, Args: args, At: microTime(1e15 + seq)}
}

// conversation drives a store with what programs do to conversations.
type conversation struct {
	*rapid.T
	cfg  Config
	s    *Store
	r    *rand.Rand
	rows map[agentkernel.PID]*agentkernel.ProcessRecord
	want map[agentkernel.PID][]string
	pids []agentkernel.PID
	all  []*talk // of any process: they begin alike
}

func (c *conversation) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%v", err)
	}
}

func (c *conversation) begin(*rapid.T) {
	pid := newPID(c.s)
	row := exampleRow(pid)
	_, err := c.s.Append(agentkernel.Batch{Process: row, Entries: []agentkernel.Entry{{PID: pid, Seq: 1, Kind: agentkernel.EntryCreated}}})
	c.must(err)
	c.pids, c.rows[pid], c.want[pid] = append(c.pids, pid), row, []string{""}
}

func (c *conversation) text(label string) string {
	n := rapid.SampledFrom([]int{0, 3, 70, 1000, 5000, BlobThreshold, 3 * BlobThreshold}).Draw(c.T, label)
	text := words(c.r, n)
	return rapid.SampledFrom([]string{"", "ü€😀", `{"a":[{"b":1},{"c":2}]}`, "\x00\\\"\n"}).Draw(c.T, "odd") + text
}

// change draws what has become of a conversation since the last time.
func (c *conversation) change(k *talk) {
	n := len(k.messages)
	at := 0
	if n > 0 {
		at = rapid.IntRange(0, n-1).Draw(c.T, "at")
	}
	switch what := rapid.IntRange(0, 9).Draw(c.T, "what"); {
	case n == 0 || what <= 3:
		for range rapid.IntRange(1, 3).Draw(c.T, "grows") {
			k.messages = append(k.messages, message("user", c.text("said")))
		}
	case what == 4: // back to an earlier turn, and on from there
		k.messages = append(k.messages[:at:at], message("user", c.text("instead")))
	case what == 5:
		k.messages = slices.Clone(k.messages)
		k.messages[at] = message("tool", c.text("other"))
	case what == 6: // the oldest are forgotten
		k.messages = k.messages[at:]
	case what == 7:
		k.messages = slices.Insert(slices.Clone(k.messages), at, message("system", c.text("inserted")))
	case what == 8:
		k.before = fmt.Sprintf(`"a":%q,`, c.text("before"))
	default:
		k.after = fmt.Sprintf(`,"model":%q,"tools":[{"name":"f"},{"name":%q}]`, c.text("model"), c.text("tool"))
	}
}

func (c *conversation) say(*rapid.T) {
	if len(c.pids) == 0 {
		return
	}
	pid := rapid.SampledFrom(c.pids).Draw(c.T, "pid")
	k := &talk{after: `,"model":"m"`}
	if len(c.all) > 0 && rapid.IntRange(0, 9).Draw(c.T, "new") > 0 {
		k = c.all[rapid.IntRange(0, len(c.all)-1).Draw(c.T, "talk")]
	}
	next := *k
	c.change(&next)
	c.all = append(c.all, &next)
	args := next.args()
	e := paid(pid, int64(len(c.want[pid])+1), args)
	if rapid.IntRange(0, 4).Draw(c.T, "free") == 0 {
		e.Effect = agentkernel.EffectWrite
	}
	_, err := c.s.Append(agentkernel.Batch{Entries: []agentkernel.Entry{e}})
	c.must(err)
	c.want[pid] = append(c.want[pid], string(args))
}

func (c *conversation) flush(*rapid.T) { c.must(c.s.flushAll(c.Context())) }

// forgetful is a writer that has to read again what it has written.
func (c *conversation) forgetful(*rapid.T) {
	c.must(c.s.work(func(w *writer) error {
		w.texts = newTexts()
		return nil
	}))
}

func (c *conversation) reopen(*rapid.T) {
	c.must(c.s.Close())
	var err error
	c.s, err = Open(c.Context(), c.cfg)
	c.must(err)
}

// prune takes a process away with all that only it has.
func (c *conversation) prune(*rapid.T) {
	if len(c.pids) < 2 {
		return
	}
	at := rapid.IntRange(0, len(c.pids)-1).Draw(c.T, "pruned")
	pid := c.pids[at]
	c.must(appendFlush(c.s, endedBatch(*c.rows[pid], int64(len(c.want[pid])+1))))
	_, err := c.s.Forget(c.Context(), []agentkernel.PID{pid}, prunedAt)
	c.must(err)
	for more := true; more; {
		_, more, err = c.s.Sweep(c.Context())
		c.must(err)
	}
	c.pids = slices.Delete(c.pids, at, at+1)
	delete(c.want, pid)
}

func (c *conversation) check(*rapid.T) {
	for _, pid := range c.pids {
		want := c.want[pid]
		from := rapid.IntRange(1, len(want)+1).Draw(c.T, "from")
		limit := rapid.IntRange(0, len(want)).Draw(c.T, "limit")
		list, err := c.s.Entries(c.Context(), pid, int64(from), limit)
		c.must(err)
		want = want[from-1:]
		if limit > 0 {
			want = want[:min(limit, len(want))]
		}
		if len(list) != len(want) {
			c.Fatalf("process %d has %d entries from %d on, %d at most; want %d", pid, len(list), from, limit, len(want))
		}
		for i, e := range list {
			if string(e.Args) != want[i] {
				c.Fatalf("process %d, entry %d: %d bytes are not the %d that were written", pid, e.Seq, len(e.Args), len(want[i]))
			}
		}
	}
}

// TestConversationsAreReadAsTheyWereWritten: whatever becomes of conversations, of however many processes, and whatever the writer
// remembers.
func TestConversationsAreReadAsTheyWereWritten(t *testing.T) {
	root, run := fastDir(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		c := &conversation{T: rt, cfg: testConfig(fmt.Sprintf("%s/%d", root, run)), r: rand.New(rand.NewPCG(1, 2)),
			rows: map[agentkernel.PID]*agentkernel.ProcessRecord{}, want: map[agentkernel.PID][]string{}}
		makeDir(t, root, run)
		var err error
		c.s, err = Open(t.Context(), c.cfg)
		c.must(err)
		rt.Repeat(map[string]func(*rapid.T){"begin": c.begin, "say": c.say, "say more": c.say, "flush": c.flush, "forgetful": c.forgetful,
			"reopen": c.reopen, "prune": c.prune, "": c.check})
		c.flush(rt)
		c.check(rt)
		c.sql()
		checkHouse(rt, c.s)
		c.must(c.s.Close())
	})
}

// sql looks whether people see in the view what was written, where nothing of it is a file.
func (c *conversation) sql() {
	c.must(c.s.reads.do(c.Context(), func(conn *conn) error {
		return conn.query(func(r row) error {
			want, got := c.want[agentkernel.PID(r.int(0))][r.int(1)-1], r.text(2)
			if !strings.Contains(got, "blob:") && got != want {
				c.Errorf("process %d, entry %d: the view has %d bytes, %d were written", r.int(0), r.int(1), len(got), len(want))
			}
			return nil
		}, "SELECT pid, seq, args FROM journal WHERE kind = 'call'")
	}))
}

// FuzzSpans reads columns that nobody wrote, and finds every argument where place says that it stands.
func FuzzSpans(f *testing.F) {
	f.Add([]byte(`[1,[0,5]]`), []byte(`{"messages":[{"a":1},{"b":2}],"m":1}`), []byte(`{"messages":[{"a":1},{"c":2}],"m":1}`))
	f.Add([]byte(`[4294967295,[0,4194304],[9223372036854775807,1]]`), []byte("}]}]"), []byte(strings.Repeat("},{\"ü", 2000)))
	f.Fuzz(func(t *testing.T, column, first, second []byte) {
		if _, list, size, err := parseSpans(column); err == nil {
			sum := int64(0)
			for _, s := range list {
				sum += s.size
			}
			if sum != size || size > maxShared || len(list) > maxSpans {
				t.Errorf("%q gives %v, %d bytes", column, list, size)
			}
		}
		text, rows := newText(0), []byte(nil)
		for _, args := range [][]byte{first, second, first, slices.Concat(first, second)} {
			from := text.end()
			list := text.place(args)
			for _, p := range text.parts(from) {
				rows = append(rows[:p.start], p.text...) // a part that has grown has what it had
			}
			got := []byte(nil)
			for _, s := range list {
				got = append(got, rows[s.start:s.end()]...)
			}
			if string(got) != string(args) {
				t.Fatalf("%q is read as %q", args, got)
			}
			if len(args) > 0 {
				if _, again, _, err := parseSpans(spansColumn(args, list)); err != nil || !slices.Equal(again, list) {
					t.Fatalf("%v is read as %v: %v", list, again, err)
				}
			}
		}
	})
}

func makeDir(t *testing.T, root string, run int) {
	t.Helper()
	if err := os.MkdirAll(fmt.Sprintf("%s/%d", root, run), 0o700); err != nil {
		t.Fatal(err)
	}
}

// grow makes a conversation over a base with turns of a question and an answer, and stores each turn as the kernel does: a call,
// and its result. It gives how many bytes are new: those of the conversation at its end, and those of the results.
func grow(t *testing.T, s *Store, pid agentkernel.PID, base, turns, turn int) (unique int64, last json.RawMessage) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 7))
	k := &talk{before: `"max_tokens":500,`, after: `,"model":"fast","tools":[{"name":"search","schema":{"type":"object"}}]`}
	for size := 0; size < base; size += 2000 {
		k.messages = append(k.messages, message("user", words(r, 2000)))
	}
	unique = int64(len(k.args()))
	seq := int64(1)
	for range turns {
		question, answer := message("user", words(r, turn*3/4)), message("assistant", words(r, turn/4))
		k.messages = append(k.messages, question)
		last = k.args()
		data := fmt.Appendf(nil, `{"message":%s,"model":"m-2026-01-01","stop":"end","tool_calls":[],"usage":{"input":%d,"output":100}}`, answer, len(last))
		result := agentkernel.Entry{PID: pid, Seq: seq + 1, Kind: agentkernel.EntryResult, Call: seq, Data: data, At: microTime(1e15)}
		if err := appendFlush(s, agentkernel.Batch{Entries: []agentkernel.Entry{paid(pid, seq, last), result}}); err != nil {
			t.Fatal(err)
		}
		k.messages = append(k.messages, answer)
		unique += int64(len(question) + len(answer) + len(",,") + len(data))
		seq += 2
	}
	return unique, last
}

// TestLongConversation: 200 turns of 1 kB over a base of 200 kB take at most 1.2 times what is new in them, counted in pages of the
// database and files; an entry costs a few lookups to read, however many turns it has.
func TestLongConversation(t *testing.T) {
	const turns = 200
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pid := newPID(s)
	before := pagesOf(t, s)
	unique, last := grow(t, s, pid, 200_000, turns, 1000)
	took := pagesOf(t, s) - before
	t.Logf("%d bytes are new, %d in the database: %.3f", unique, took, float64(took)/float64(unique))
	if float64(took) > 1.2*float64(unique) {
		t.Errorf("%d bytes in the database and its files, for %d that are new", took, unique)
	}
	err := s.reads.do(t.Context(), func(c *conn) error {
		return c.query(func(r row) error {
			_, list, _, err := parseSpans(r.blob(0))
			if len(list) > 3 {
				t.Errorf("an entry is put together from %d spans", len(list))
			}
			return err
		}, "SELECT args FROM entries WHERE kind = 'call'")
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.Entries(t.Context(), pid, 2*turns-1, 1)
	if err != nil || len(list) != 1 || string(list[0].Args) != string(last) {
		t.Fatalf("the last turn: %v", err)
	}
}

// pagesOf is what the tables of journals take of the database and in files.
func pagesOf(t *testing.T, s *Store) (size int64) {
	t.Helper()
	err := s.reads.do(t.Context(), func(c *conn) (err error) {
		size, err = c.int("SELECT (SELECT sum(pgsize) FROM dbstat WHERE name IN ('entries', 'parts', 'parts_by_pid')) + (SELECT bytes FROM totals)")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// A program that has several conversations at once, turn by turn, cuts its text to pieces: no entry needs more than maxSpans of them, and
// all together stay far below what they would take whole.
func TestManyConversationsOfAProcess(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	pid := newPID(s)
	r := rand.New(rand.NewPCG(3, 3))
	talks := make([]*talk, 3)
	for i := range talks {
		talks[i] = &talk{after: `,"model":"m"`, messages: []string{message("system", words(r, 20_000))}}
	}
	whole, seq := int64(0), int64(0)
	for range 2 * maxSpans {
		for _, k := range talks {
			seq++
			k.messages = append(k.messages, message("user", words(r, 500)))
			whole += int64(len(k.args()))
			if _, err := s.Append(agentkernel.Batch{Entries: []agentkernel.Entry{paid(pid, seq, k.args())}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.flushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := s.Entries(t.Context(), pid, seq, 1)
	if err != nil || string(list[0].Args) != string(talks[2].args()) {
		t.Fatalf("the last turn: %v", err)
	}
	if took := pagesOf(t, s); took > whole/20 {
		t.Errorf("%d bytes for conversations that would be %d whole", took, whole)
	} else {
		t.Logf("%d bytes for conversations that would be %d whole", took, whole)
	}
}

// What says where arguments stand may be damaged, or what stands there. Then reading is an error that names the entry, and never another
// conversation; the others are read as before, and new ones are written.
func TestDamagedConversations(t *testing.T) {
	for name, damage := range map[string]string{
		"a byte is another":      "UPDATE parts SET text = replace(text, 'abcdef', 'abcxef') WHERE typeof(text) = 'text'",
		"a part is missing":      "DELETE FROM parts WHERE start = 4000",
		"a part is short":        "UPDATE parts SET text = substr(text, 2) WHERE start = 4000",
		"a part is elsewhere":    "UPDATE parts SET start = start + 1 WHERE start = 4000",
		"all parts are missing":  "DELETE FROM parts",
		"a part is a number":     "UPDATE parts SET text = 7 WHERE start = 4000",
		"a part names no blob":   "UPDATE parts SET text = x'00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff' WHERE start = 4000",
		"a span is elsewhere":    "UPDATE entries SET args = CAST(replace(CAST(args AS TEXT), ',[0,', ',[1,') AS BLOB) WHERE seq = 2",
		"a span is too long":     "UPDATE entries SET args = CAST(replace(CAST(args AS TEXT), ',[0,', ',[0,9') AS BLOB) WHERE seq = 2",
		"the spans are no spans": "UPDATE entries SET args = CAST('[1,2,3]' AS BLOB) WHERE seq = 2",
		"the spans are empty":    "UPDATE entries SET args = CAST('' AS BLOB) WHERE seq = 2",
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t.TempDir())
			s := mustOpen(t, cfg)
			pid, other := newPID(s), newPID(s)
			k := &talk{messages: []string{message("user", words(rand.New(rand.NewPCG(1, 1)), 6000)+"abcdef")}}
			first := k.args()
			if err := appendFlush(s, agentkernel.Batch{Entries: []agentkernel.Entry{{PID: other, Seq: 1, Kind: agentkernel.EntryCreated}, paid(other, 2, json.RawMessage(`"`+strings.Repeat("o", 40_000)+`"`))}}); err != nil {
				t.Fatal(err)
			}
			row := exampleRow(pid)
			if err := appendFlush(s, agentkernel.Batch{Process: row, Entries: []agentkernel.Entry{{PID: pid, Seq: 1, Kind: agentkernel.EntryCreated}, paid(pid, 2, first)}}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(damage, "UPDATE entries") {
				damage += fmt.Sprintf(" AND pid = %d", pid)
			}
			rawSQL(t, cfg.Path, damage)
			s = mustOpen(t, cfg)
			_, err := s.Entries(t.Context(), pid, 1, 0)
			checkError(t, err, agentkernel.CodeCorrupt, fmt.Sprintf("entry 2 of process %d", pid))
			if e := agentkernel.AsError(err, "", ""); e.PID != pid {
				t.Errorf("the error is of process %d", e.PID)
			}
			list, lost, err := s.EntriesLeft(t.Context(), pid, 1, 0)
			if err != nil || lost == nil || len(list) != 2 || list[1].Missing == nil || list[1].Args != nil {
				t.Errorf("what is left: %+v, %v, %v", list, lost, err)
			}
			if damage != "DELETE FROM parts" {
				if list, err := s.Entries(t.Context(), other, 2, 1); err != nil || len(list[0].Args) != 40_002 {
					t.Errorf("the other process: %v", err)
				}
			}
			k.messages = append(k.messages, message("user", "more"))
			if err := appendFlush(s, agentkernel.Batch{Entries: []agentkernel.Entry{paid(pid, 3, k.args())}}); err != nil {
				t.Fatal(err)
			}
			if list, err := s.Entries(t.Context(), pid, 3, 1); err != nil || string(list[0].Args) != string(k.args()) {
				t.Errorf("a call after the damage: %v", err)
			}
		})
	}
}
