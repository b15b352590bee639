package recording

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentkernel"
)

// sample has one entry of every kind.
func sample() *Recording {
	at := time.Date(2026, 11, 21, 10, 0, 0, 1000, time.UTC)
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	r := &Recording{
		Manifest: Manifest{Version: "1.0", Store: "u", PID: 12, Backend: "monty", Fingerprint: "monty 1", Redacted: true},
		Spec: agentkernel.Spec{Program: agentkernel.Program{Name: "x.py", Language: agentkernel.Python, Source: "print('ü <&>')\n",
			Args: []string{"a"}, Modules: map[string]string{"tools.a": "x = 1\n"}}, Namespace: "n", Deny: []string{"state"}},
		Process: agentkernel.Process{PID: 12, Namespace: "n", Name: "x.py", State: agentkernel.StateFailed, ExitCode: 1, Created: at, Ended: at,
			Error: &agentkernel.Error{Code: agentkernel.CodeProgram, Err: errors.New("no"), Traceback: "T"}, Usage: agentkernel.Usage{Syscalls: 2}},
		State: map[string]json.RawMessage{"k": raw(`{"$tuple":[1.0]}`)},
		Entries: []agentkernel.Entry{
			{Kind: agentkernel.EntryCreated, Data: raw(`{"program":{}}`)},
			{Kind: agentkernel.EntryTools, Data: raw(`[]`)},
			{Kind: agentkernel.EntryCall, Call: 1, Op: "time.now", Effect: agentkernel.EffectPure, Args: raw(`{}`), Done: true, Data: raw(`1.0`)},
			{Kind: agentkernel.EntryCall, Call: 2, Op: "tool.call", Effect: agentkernel.EffectWrite, Async: true, Args: raw(`{"a":"<"}`), Note: "from pid 1 call 2"},
			{Kind: agentkernel.EntryOutput, Stream: "stdout", Data: raw(`"ü\n"`)},
			{Kind: agentkernel.EntryPaused, Call: 2, Err: &agentkernel.Error{Code: agentkernel.CodeOutcomeUnknown, Err: errors.New("?")}, Note: "why"},
			{Kind: agentkernel.EntryResolve, Call: 2, Note: "retry"},
			{Kind: agentkernel.EntryResumed},
			{Kind: agentkernel.EntryRetry, Call: 2},
			{Kind: agentkernel.EntryResult, Call: 2, Data: raw(`[1]`), Note: "incarnation"},
			{Kind: agentkernel.EntrySignal, Note: "interrupt"},
			{Kind: agentkernel.EntryRecover, Data: raw(`{"kernel":1}`)},
			{Kind: agentkernel.EntryPast, Call: 3, Note: "live"},
			{Kind: agentkernel.EntryMoved, Data: raw(`{"from":"a","to":"b"}`), Err: &agentkernel.Error{Code: agentkernel.CodeProgram, Err: errors.New("no")}},
			{Kind: agentkernel.EntryAborted, Call: 2, Err: &agentkernel.Error{Code: agentkernel.CodeInterrupted, Op: agentkernel.OpCell, Err: errors.New("no")}},
			{Kind: agentkernel.EntryAllowed, Note: "files.*"},
			{Kind: agentkernel.EntryBudget, Data: raw(`{"calls":3}`)},
			{Kind: agentkernel.EntrySettled, Call: 2, Note: `settled {"usd":3}`},
			{Kind: agentkernel.EntryAttached, Data: raw(`{"epoch":1}`)},
			{Kind: agentkernel.EntryPublish, Data: raw(`{"exit_code":0}`)},
			{Kind: agentkernel.EntryTerminal, Data: raw(`{"state":"failed","exit_code":1}`), Err: &agentkernel.Error{Code: agentkernel.CodeProgram, Err: errors.New("no")}},
		},
	}
	for i := range r.Entries {
		r.Entries[i].PID, r.Entries[i].Seq, r.Entries[i].At = 12, int64(i)+1, at
		r.Entries[i].ReadNote()
	}
	return r
}

func encode(t testing.TB, r *Recording) []byte {
	t.Helper()
	b, err := Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var sameErrors = cmp.Comparer(func(a, b *agentkernel.Error) bool { return fmt.Sprintf("%#v", flat(a)) == fmt.Sprintf("%#v", flat(b)) })

func flat(e *agentkernel.Error) string {
	if e == nil {
		return ""
	}
	b, _ := json.Marshal(e)
	return string(b)
}

func TestRoundTrip(t *testing.T) {
	r := sample()
	file := encode(t, r)
	got, err := Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got, sameErrors, cmpopts.IgnoreFields(Manifest{}, "Format", "Parts")); diff != "" {
		t.Error(diff)
	}
	if again := encode(t, got); !bytes.Equal(file, again) {
		t.Error("the same recording gives other bytes the second time")
	}
	for _, kind := range agentkernel.EntryKinds() {
		found := false
		for _, e := range r.Entries {
			found = found || e.Kind == kind
		}
		if !found {
			t.Errorf("the sample has no entry of the kind %s", kind)
		}
	}
}

// TestEveryByteCounts: a recording with any byte changed, cut off anywhere or with anything behind it is refused.
func TestEveryByteCounts(t *testing.T) {
	file := encode(t, sample())
	refused := func(what string, b []byte) {
		if _, err := Decode(b); err == nil {
			t.Errorf("%s: accepted", what)
		} else if e, ok := err.(*agentkernel.Error); !ok || e.Code != agentkernel.CodeCorrupt && e.Code != agentkernel.CodeVersion {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range file {
		for _, bit := range []byte{1, 0x20, 0x80} {
			b := bytes.Clone(file)
			b[i] ^= bit
			refused(fmt.Sprintf("byte %d ^ %#x", i, bit), b)
		}
		refused(fmt.Sprintf("cut off at %d", i), file[:i])
	}
	refused("a newline behind it", append(bytes.Clone(file), '\n'))
}

func TestVersions(t *testing.T) {
	file := encode(t, sample())
	future := bytes.Replace(file, []byte(magic+"1\n"), []byte(magic+"3\n"), 1)
	for name, c := range map[string]struct {
		file []byte
		code agentkernel.Code
		says string
	}{
		"a future format": {future, agentkernel.CodeVersion, "format 3; this agentkernel reads formats up to 2"},
		"format 0":        {bytes.Replace(file, []byte(magic+"1\n"), []byte(magic+"0\n"), 1), agentkernel.CodeCorrupt, "first line"},
		"format 01":       {bytes.Replace(file, []byte(magic+"1\n"), []byte(magic+"01\n"), 1), agentkernel.CodeCorrupt, "first line"},
		"another file":    {[]byte("PK\x03\x04 a zip"), agentkernel.CodeCorrupt, "no recording"},
		"an empty file":   {nil, agentkernel.CodeCorrupt, "no recording"},
		"a future field":  {forge(t, func(p map[string]string) { p[partSpec] = `{"program":{},"walls":"high"}` }), agentkernel.CodeVersion, `spec.json has the field "walls"`},
		"a future entry": {forge(t, func(p map[string]string) {
			p[partJournal] = strings.Replace(p[partJournal], `"resumed"`, `"forked"`, 1)
		}), agentkernel.CodeVersion, `kind "forked"`},
		"a future process": {forge(t, func(p map[string]string) { p[partProcess] = strings.Replace(p[partProcess], `"name"`, `"nom"`, 1) }), agentkernel.CodeVersion, `"nom"`},
	} {
		_, err := Decode(c.file)
		if agentkernel.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s that says %q", name, err, c.code, c.says)
		}
	}
}

// forge makes a recording with right checksums from parts that were changed.
func forge(t testing.TB, change func(map[string]string)) []byte {
	t.Helper()
	return forgeOf(t, sample(), change)
}

// withFiles is a sample whose process has changed files of every kind.
func withFiles() *Recording {
	r := sample()
	r.Files = []agentkernel.RecordedFile{
		{Change: agentkernel.Change{Path: "empty", Kind: agentkernel.FileAdded, Type: agentkernel.TypeFile, Mode: "644", Media: "text/plain"}, Content: []byte{}},
		{Change: agentkernel.Change{Path: "gone", Kind: agentkernel.FileDeleted, Type: agentkernel.TypeFile, Before: 7}},
		{Change: agentkernel.Change{Path: "link", Kind: agentkernel.FileAdded, Type: agentkernel.TypeSymlink, Target: "../.."}},
		{Change: agentkernel.Change{Path: "out", Kind: agentkernel.FileAdded, Type: agentkernel.TypeDir, Mode: "755"}},
		{Change: agentkernel.Change{Path: "out/ü b", Kind: agentkernel.FileChanged, Type: agentkernel.TypeFile, Size: 3, Before: 1}, Content: []byte("\x00\xffx")},
		{Change: agentkernel.Change{Path: "out/c", Kind: agentkernel.FileAdded, Type: agentkernel.TypeFile, LeftOut: "secret"}},
		{Change: agentkernel.Change{Volume: "v", Path: "out/c", Kind: agentkernel.FileAdded, Type: agentkernel.TypeFile, Size: 1}, Content: []byte("1")},
	}
	return r
}

func forgeOf(t testing.TB, r *Recording, change func(map[string]string)) []byte {
	t.Helper()
	parts, err := encodeParts(r)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, p := range parts {
		texts[p.name] = string(p.data)
	}
	change(texts)
	for i := range parts {
		parts[i].data = []byte(texts[parts[i].name])
	}
	r.Manifest.Format = r.format()
	manifest, ok := texts[partManifest]
	if !ok {
		for _, p := range parts {
			r.Manifest.Parts = append(r.Manifest.Parts, Part{p.name, int64(len(p.data)), sum(p.data)})
		}
		b, err := encodeJSON(r.Manifest)
		if err != nil {
			t.Fatal(err)
		}
		manifest = string(b)
	}
	packed, err := pack(append([]part{{partManifest, []byte(manifest)}}, parts...))
	if err != nil {
		t.Fatal(err)
	}
	return seal(r.Manifest.Format, packed)
}

// TestForgedRecordings: whoever computes the checksums himself gets no further.
func TestForgedRecordings(t *testing.T) {
	in := func(name, old, with string) func(map[string]string) {
		return func(p map[string]string) {
			if !strings.Contains(p[name], old) {
				t.Errorf("%s does not have %q", name, old)
			}
			p[name] = strings.Replace(p[name], old, with, 1)
		}
	}
	for name, change := range map[string]func(map[string]string){
		"a gap in the journal":             in(partJournal, `"seq":3`, `"seq":4`),
		"entries of another process":       in(partJournal, `"pid":12`, `"pid":13`),
		"another process":                  in(partProcess, `"pid":12`, `"pid":13`),
		"no creation":                      func(p map[string]string) { _, p[partJournal], _ = strings.Cut(p[partJournal], "\n") },
		"no journal":                       func(p map[string]string) { p[partJournal] = "" },
		"no end":                           in(partJournal, `"terminal"`, `"resumed"`),
		"an end in the middle":             in(partJournal, `"resumed"`, `"terminal"`),
		"a result of no call":              in(partJournal, `"kind":"result","at":"2026-11-21T10:00:00.000001Z","call":2`, `"kind":"result","at":"2026-11-21T10:00:00.000001Z","call":0`),
		"a second creation":                in(partJournal, `"kind":"tools"`, `"kind":"created"`),
		"a second creation elsewhere":      in(partJournal, `"kind":"attached"`, `"kind":"created","note":"imported: pid 3 of store u"`),
		"a second call of a number":        in(partJournal, `"call":1,"op":"time.now"`, `"call":2,"op":"time.now"`),
		"a second result":                  in(partJournal, `"kind":"retry"`, `"kind":"result"`),
		"a result of a call that was not":  in(partJournal, `"call":2,"data":[1]`, `"call":3,"data":[1]`),
		"a result of a call that has one":  in(partJournal, `"call":2,"data":[1]`, `"call":1,"data":[1]`),
		"less than nothing used":           in(partJournal, `settled {\"usd\":3}`, `settled {\"usd\":-3}`),
		"less than nothing used by a call": in(partJournal, `"note":"incarnation"`, `"note":"settled {\"usd\":-3} by incarnation"`),
		"less than nothing kept":           in(partJournal, `"note":"incarnation"`, `"note":"settled {} kept {\"usd\":-3}"`),
		"less than nothing reserved":       in(partJournal, `"note":"from pid 1 call 2"`, `"note":"from pid 1 call 2 reserved {\"usd\":-3}"`),
		"less than nothing reserved anew":  in(partJournal, `"kind":"retry"`, `"kind":"retry","note":"reserved {\"usd\":-3}"`),
		"a warning of less than nothing":   in(partJournal, `"kind":"signal"`, `"kind":"signal","data":{"warns":{"usd":-3}}`),
		"a negative call":                  in(partJournal, `"call":1`, `"call":-1`),
		"an unknown effect":                in(partJournal, `"effect":"pure"`, `"effect":"evil"`),
		"an unknown stream":                in(partJournal, `"stdout"`, `"tty"`),
		"another age":                      in(partJournal, `"2026-`, `"1926-`),
		"a running process":                in(partProcess, `"failed"`, `"running"`),
		"an exit code beyond all":          in(partProcess, `"exit_code":1`, `"exit_code":4096`),
		"negative usage":                   in(partProcess, `"syscalls":2`, `"syscalls":-2`),
		"a program in another tongue":      in(partSpec, `"python"`, `"cobol"`),
		"a negative limit":                 in(partSpec, `"deny"`, `"limits":{"calls":-1},"deny"`),
		"text behind the spec":             func(p map[string]string) { p[partSpec] += "{}" },
		"a line that is cut off":           func(p map[string]string) { p[partJournal] = strings.TrimSuffix(p[partJournal], "\n") },
		"no JSON":                          func(p map[string]string) { p[partState] = "k = 1" },
		"a manifest of other parts":        func(p map[string]string) { p[partManifest] = `{"format":1,"pid":12,"parts":[]}` },
		"a manifest of another format":     func(p map[string]string) { p[partManifest] = `{"format":7}` },
		"a manifest that is much too long": func(p map[string]string) { p[partManifest] = `{"version":"` + strings.Repeat("x", maxManifest) + `"}` },
	} {
		if r, err := Decode(forge(t, change)); err == nil {
			t.Errorf("%s: accepted: %+v", name, r)
		}
	}
	const most = `9223372036854775807`
	for field, change := range map[string]func(map[string]string){
		"(created)":          in(partProcess, `"created":"2026-11-21T10:00:00.000001Z"`, `"created":"9999-12-31T23:59:59Z"`),
		"(ended)":            in(partProcess, `"ended":"2026-11-21T10:00:00.000001Z"`, `"ended":"1970-01-01T00:00:00Z"`),
		"usage.syscalls":     in(partProcess, `"syscalls":2`, `"syscalls":`+most),
		"usage.tool_calls":   in(partProcess, `"tool_calls":0`, `"tool_calls":`+most),
		"usage.waits":        in(partProcess, `"waits":0`, `"waits":`+most),
		"usage.running_ns":   in(partProcess, `"running_ns":0`, `"running_ns":`+most),
		"usage.output":       in(partProcess, `"output":0`, `"output":`+most),
		"usage.bytes_in":     in(partProcess, `"bytes_in":0`, `"bytes_in":`+most),
		"recoveries":         in(partProcess, `"usage"`, `"recoveries":`+most+`,"usage"`),
		"backend":            in(partProcess, `"usage"`, `"backend":"`+strings.Repeat("x", 100_000)+`","usage"`),
		"number of the call": in(partJournal, `"call":1,"op":"time.now"`, `"call":`+most+`,"op":"time.now"`),
		"time":               in(partJournal, `"2026-`, `"9926-`),
		"deny":               in(partSpec, `"deny":["state"]`, `"deny":["`+strings.Repeat("x", 100_000)+`"]`),
		"allow":              in(partSpec, `"deny"`, `"allow":["`+strings.Repeat("x", 100_000)+`"],"deny"`),
		"allow_hosts":        in(partSpec, `"deny"`, `"allow_hosts":["`+strings.Repeat(`x","`, 100_000)+`"],"deny"`),
		"past.again":         in(partSpec, `"deny"`, `"past":{"pid":1,"again":["`+strings.Repeat("x", 100_000)+`"]},"deny"`),
	} {
		if _, err := Decode(forge(t, change)); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt || !strings.Contains(err.Error(), field) || len(err.Error()) > 1000 {
			t.Errorf("%s: %.2000v", field, err)
		}
	}
	if _, err := Decode(forge(t, func(map[string]string) {})); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}

// TestClocksThatAreSetBack: what has ended before it was created, since a clock was set back, is exported so that it can be imported.
func TestClocksThatAreSetBack(t *testing.T) {
	for _, back := range []time.Duration{time.Hour, 400 * 24 * time.Hour} {
		r := sample()
		r.Process.Ended = r.Process.Created.Add(-back)
		file, err := encodeExported(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(file); err != nil {
			t.Errorf("%s: %v", back, err)
		}
	}
}

// TestForeignArchives: only the parts that belong there are read, whatever they are called; nothing is unpacked to
// a path.
func TestForeignArchives(t *testing.T) {
	good, err := encodeParts(sample())
	if err != nil {
		t.Fatal(err)
	}
	for name, headers := range map[string][]tar.Header{
		"a path":         {{Name: "../../etc/passwd"}},
		"an absolute":    {{Name: "/manifest.json"}},
		"a link":         {{Name: partManifest, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}},
		"a device":       {{Name: partManifest, Typeflag: tar.TypeChar}},
		"nothing":        nil,
		"the wrong part": {{Name: partSpec}},
	} {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for _, h := range headers {
			if h.Typeflag == 0 {
				h.Typeflag, h.Size = tar.TypeReg, int64(len(good[0].data))
			}
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if h.Size > 0 {
				_, _ = w.Write(good[0].data)
			}
		}
		_, _ = w.Close(), z.Close()
		if _, err := Decode(seal(formatPlain, b.Bytes())); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBombs: what unpacks to very much is given up on early.
func TestBombs(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: partManifest, Typeflag: tar.TypeReg, Size: 2 << 30}); err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range 260 {
		_, _ = w.Write(zeros)
	}
	_ = z.Close()
	if _, err := Decode(seal(formatPlain, b.Bytes())); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
		t.Errorf("a part of 2 GiB: %v", err)
	}
	b.Reset()
	z.Reset(&b)
	for range 260 {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	if _, err := Decode(seal(formatPlain, b.Bytes())); err == nil {
		t.Error("260 MiB of zeros: accepted")
	}
	if _, err := Decode(make([]byte, agentkernel.MaxRecording+1)); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
		t.Errorf("a file that is too long: %v", err)
	}
	lines := strings.Repeat("{}\n", maxEntries+1)
	if _, err := Decode(forge(t, func(p map[string]string) { p[partJournal] = lines })); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
		t.Errorf("too many entries: %v", err)
	}
	names := "[" + strings.Repeat("{},", maxFiles) + "{}]"
	if _, err := Decode(forgeOf(t, withFiles(), func(p map[string]string) { p[partFiles] = names })); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
		t.Errorf("too many files: %v", err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 400<<20 {
		t.Errorf("refusing them took %d MiB", used>>20)
	}
}

// TestLargeSpecs: what no import would take is not exported.
func TestLargeSpecs(t *testing.T) {
	r := sample()
	r.Spec.Program.Modules = map[string]string{}
	for _, name := range []string{"a", "b", "c", "d"} {
		r.Spec.Program.Modules[name] = strings.Repeat("#", agentkernel.MaxSource)
	}
	if _, err := Encode(r); agentkernel.CodeOf(err) != agentkernel.CodeLimit || !strings.Contains(err.Error(), "spec.json") {
		t.Error(err)
	}
}

func TestTooLargeToExport(t *testing.T) {
	r := sample()
	big := json.RawMessage(`"` + strings.Repeat("x", 100<<20) + `"`)
	r.Entries[2].Data, r.Entries[9].Data, r.Entries[3].Args = big, big, big
	if _, err := Encode(r); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
		t.Errorf("300 MiB: %v", err)
	}
	r = sample()
	r.Entries = append(r.Entries, make([]agentkernel.Entry, maxEntries)...)
	if _, err := Encode(r); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
		t.Errorf("%d entries: %v", len(r.Entries), err)
	}
	r = withFiles()
	r.Files = append(r.Files, make([]agentkernel.RecordedFile, maxFiles)...)
	if _, err := Encode(r); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
		t.Errorf("%d files: %v", len(r.Files), err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(f, sample()))
	f.Add(encode(f, withFiles()))
	f.Add([]byte(magic + "3\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := Decode(file)
		if err == nil {
			again(t, r)
		}
	})
}

// FuzzDecodePacked lets the fuzzer past the checksum.
func FuzzDecodePacked(f *testing.F) {
	for _, r := range []*Recording{sample(), withFiles()} {
		_, packed, err := unseal(encode(f, r))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		r, err := decodePacked(packed)
		if err == nil {
			again(t, r)
		}
	})
}

// FuzzDecodeParts lets it past the packing, too.
func FuzzDecodeParts(f *testing.F) {
	parts, err := encodeParts(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(parts[0].data, parts[1].data, parts[2].data, parts[3].data)
	f.Fuzz(func(t *testing.T, spec, process, state, journal []byte) {
		r, err := Decode(forge(t, func(p map[string]string) {
			p[partSpec], p[partProcess], p[partState], p[partJournal] = string(spec), string(process), string(state), string(journal)
		}))
		if err == nil {
			again(t, r)
		}
	})
}

// TestFiles: what a process did to its files comes back to the byte, in a format that is the older one without them; and
// what makes no sense is refused.
func TestFiles(t *testing.T) {
	r := withFiles()
	file := encode(t, r)
	got, err := Decode(file)
	if err != nil || !bytes.HasPrefix(file, []byte(magic+"2\n")) || !bytes.HasPrefix(encode(t, sample()), []byte(magic+"1\n")) {
		t.Fatalf("%v, %.30q", err, file)
	}
	if d := cmp.Diff(r.Files, got.Files); d != "" {
		t.Error(d)
	}
	none := sample()
	none.Files = []agentkernel.RecordedFile{}
	if got, err := Decode(encode(t, none)); err != nil || got.Files == nil || len(got.Files) != 0 {
		t.Errorf("of a process that changed nothing: %v, %v", got.Files, err)
	}
	for name, c := range map[string]struct{ part, old, new, says string }{
		"out of the folder":      {partFiles, `"out/c"`, `"../c"`, "impossible name"},
		"an absolute path":       {partFiles, `"path":"out/c"`, `"path":"/out/c"`, "impossible name"},
		"a path with dots":       {partFiles, `"out/c"`, `"out/./c"`, "impossible name"},
		"a volume that is none":  {partFiles, `"volume":"v"`, `"volume":"../v"`, "impossible name"},
		"twice":                  {partFiles, `"link"`, `"gone"`, "impossible twin"},
		"a kind":                 {partFiles, `"added"`, `"invented"`, "impossible kind"},
		"a type":                 {partFiles, `"symlink"`, `"device"`, "impossible type"},
		"a size below nothing":   {partFiles, `"size":3`, `"size":-3`, "no -3 bytes"},
		"a size that is not had": {partFiles, `"size":3`, `"size":5`, "no 5 bytes|no 1 bytes"},
		"bytes of nobody":        {partFiles, `"size":3`, `"size":2`, "belong to no file"},
		"a mode":                 {partFiles, `"644"`, `"rwx"`, "impossible mode"},
		"a conflict":             {partFiles, `"media":"text/plain"`, `"conflict":"x"`, "impossible description"},
		"a field":                {partFiles, `"media":"text/plain"`, `"owner":"x"`, `files.json has the field "owner"`},
		"a directory with bytes": {partFiles, `"type":"dir","size":0`, `"type":"dir","size":1`, "impossible size"},
		"no list":                {partFiles, `[`, `{[`, "cannot be read"},
	} {
		_, err := Decode(forgeOf(t, withFiles(), func(p map[string]string) {
			if !strings.Contains(p[c.part], c.old) {
				t.Fatalf("%s: %q is not in %s", name, c.old, p[c.part])
			}
			p[c.part] = strings.Replace(p[c.part], c.old, c.new, 1)
		}))
		if code := agentkernel.CodeOf(err); code != agentkernel.CodeCorrupt && code != agentkernel.CodeVersion || !regexp.MustCompile(c.says).MatchString(err.Error()) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// again checks that what was accepted can be written and read again.
func again(t *testing.T, r *Recording) {
	b, err := Encode(r)
	if err != nil {
		t.Fatalf("accepted, but cannot be written: %v", err)
	}
	if _, err := Decode(b); err != nil {
		t.Fatalf("accepted, written, and refused: %v", err)
	}
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
