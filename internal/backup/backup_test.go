package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"agentkernel"
)

// content is a source from memory.
func content(files map[string]string, order []string, blobs ...string) Source {
	s := Source{Manifest: Manifest{Version: "1.0", Store: "u", Schema: 1, Processes: 3, Unfinished: 1, Created: time.Unix(1_790_000_000, 0).UTC()}}
	for _, name := range order {
		sum := sha256.Sum256([]byte(files[name]))
		s.Manifest.Files = append(s.Manifest.Files, File{Name: name, Size: int64(len(files[name])), SHA256: hex.EncodeToString(sum[:])})
	}
	s.Open = func(i int) (io.Reader, error) { return strings.NewReader(files[order[i]]), nil }
	kept := map[Sum]string{}
	for _, text := range blobs {
		sum := sha256.Sum256([]byte(text))
		kept[sum] = text
		s.Blobs = append(s.Blobs, Blob{sum, int64(len(text))})
	}
	s.Blob = func(_ context.Context, sum Sum) ([]byte, error) { return []byte(kept[sum]), nil }
	return s
}

func small() Source {
	return content(map[string]string{DatabaseName: strings.Repeat("page ", 200), "key": "0123", "skills/default/x/v1.py": "def f(): pass"},
		[]string{DatabaseName, "key", "skills/default/x/v1.py"}, strings.Repeat("a", 100), "b")
}

func written(t testing.TB, s Source) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(context.Background(), &b, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// shelf keeps members in memory.
type shelf struct {
	begun   *Manifest
	members map[string]*bytes.Buffer
	most    int64 // bytes taken
	refuse  error
}

func (s *shelf) Begin(m *Manifest) error { s.begun = m; return s.refuse }

func (s *shelf) Member(name string, _ int64) (io.WriteCloser, error) {
	if s.members == nil {
		s.members = map[string]*bytes.Buffer{}
	}
	s.members[name] = &bytes.Buffer{}
	return &member{s, s.members[name]}, nil
}

type member struct {
	s *shelf
	*bytes.Buffer
}

func (m *member) Write(p []byte) (int, error) { m.s.most += int64(len(p)); return m.Buffer.Write(p) }
func (m *member) Close() error                { return nil }

func readBack(file []byte) (*shelf, *Manifest, error) {
	s := &shelf{}
	m, err := Read(context.Background(), bytes.NewReader(file), s)
	return s, m, err
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	s, m, err := readBack(written(t, small()))
	if err != nil {
		t.Fatal(err)
	}
	if m.Store != "u" || m.Processes != 3 || m.Blobs.Count != 2 || m.Blobs.Bytes != 101 || m.Size() != 1000+4+13+101 {
		t.Errorf("manifest %+v", m)
	}
	blob := sha256.Sum256([]byte("b"))
	for name, want := range map[string]string{DatabaseName: strings.Repeat("page ", 200), "key": "0123", "skills/default/x/v1.py": "def f(): pass",
		BlobPrefix + hex.EncodeToString(blob[:]): "b"} {
		if got := s.members[name]; got == nil || got.String() != want {
			t.Errorf("%s is %v", name, got)
		}
	}
	if len(s.members) != 5 {
		t.Errorf("%d members", len(s.members))
	}
}

// TestEveryByteCounts changes each byte of a backup, cuts it at each place and adds to it: never accepted.
func TestEveryByteCounts(t *testing.T) {
	file := written(t, small())
	for i := range file {
		for _, bit := range []byte{1 << (i % 8)} {
			changed := bytes.Clone(file)
			changed[i] ^= bit
			if _, _, err := readBack(changed); err == nil {
				t.Fatalf("byte %d of %d changed by %#x, and it was accepted", i, len(file), bit)
			} else if c := agentkernel.CodeOf(err); c != agentkernel.CodeCorrupt && c != agentkernel.CodeVersion && c != agentkernel.CodeLimit {
				t.Fatalf("byte %d changed: %v", i, err)
			}
		}
		if _, _, err := readBack(file[:i]); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
			t.Fatalf("cut at byte %d of %d: %v", i, len(file), err)
		}
	}
	for _, more := range []string{"\x00", "more", string(file)} {
		if _, _, err := readBack([]byte(string(file) + more)); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
			t.Errorf("with %d bytes behind it: %v", len(more), err)
		}
	}
}

func TestOtherVersionsAndOtherFiles(t *testing.T) {
	newer := append(skippableFrame(title+"2\n"), "whatever"...)
	_, _, err := readBack(append(newer, make([]byte, 200)...))
	e := agentkernel.AsError(err, "", "")
	if e == nil || e.Code != agentkernel.CodeVersion || !strings.Contains(e.Error(), "format 2") || !strings.Contains(e.Hint, "newer") {
		t.Errorf("a newer format: %v", err)
	}
	for name, file := range map[string][]byte{"empty": nil, "text": bytes.Repeat([]byte("hello "), 100), "recording": []byte("agentkernel recording 1\nabc"),
		"other frame": append(skippableFrame("something else 1\n"), make([]byte, 200)...)} {
		if _, _, err := readBack(file); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt || !strings.Contains(err.Error(), "no backup") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// forge packs a tar as a backup would be packed, checksum and all.
func forge(t testing.TB, fill func(w *tar.Writer)) []byte {
	t.Helper()
	var b bytes.Buffer
	h := sha256.New()
	out := io.MultiWriter(&b, h)
	_, _ = out.Write(titleFrame()) // into memory
	z, err := zstd.NewWriter(out, zstd.WithWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	fill(w)
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	b.Write(sumFrame(h))
	return b.Bytes()
}

func put(t testing.TB, w *tar.Writer, h tar.Header, data string) {
	t.Helper()
	if h.Typeflag == 0 {
		h.Typeflag = tar.TypeReg
	}
	if h.Typeflag == tar.TypeReg && h.Size == 0 {
		h.Size = int64(len(data))
	}
	if err := w.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(data)); err != nil {
		t.Fatal(err)
	}
}

func manifestOf(m Manifest) string {
	m.Format = Format
	if m.Blobs.SHA256 == "" {
		m.Blobs = sumUp(nil)
	}
	text, _ := json.Marshal(m) // a plain struct always encodes
	return string(text)
}

// TestHostileBackups are well packed and checksummed, and lie.
func TestHostileBackups(t *testing.T) {
	empty := hex.EncodeToString(sha256.New().Sum(nil))
	db := File{DatabaseName, 0, empty}
	files := func(list ...File) Manifest { return Manifest{Files: append([]File{db}, list...)} }
	says := map[string]string{"symlink": `"kernel.db" in the backup is no regular file`, "hard link": "is no regular file", "directory": "is no regular file",
		"no manifest": `where "manifest.json" belongs`}
	for name, fill := range map[string]func(w *tar.Writer){
		"nothing":     func(*tar.Writer) {},
		"no manifest": func(w *tar.Writer) { put(t, w, tar.Header{Name: DatabaseName}, "") },
		"no database": func(w *tar.Writer) { put(t, w, tar.Header{Name: manifestName}, manifestOf(Manifest{})) },
		"unknown field": func(w *tar.Writer) {
			put(t, w, tar.Header{Name: manifestName}, `{"format":1,"files":[],"evil":1}`)
		},
		"field twice": func(w *tar.Writer) {
			put(t, w, tar.Header{Name: manifestName}, strings.Replace(manifestOf(files()), "{", `{"store":"x",`, 1))
			put(t, w, tar.Header{Name: DatabaseName}, "")
		},
		"field in another case": func(w *tar.Writer) {
			put(t, w, tar.Header{Name: manifestName}, strings.Replace(manifestOf(files()), `"store"`, `"Store"`, 1))
			put(t, w, tar.Header{Name: DatabaseName}, "")
		},
		"second value": func(w *tar.Writer) {
			put(t, w, tar.Header{Name: manifestName}, manifestOf(files())+"{}")
			put(t, w, tar.Header{Name: DatabaseName}, "")
		},
		"symlink": func(w *tar.Writer) {
			put(t, w, tar.Header{Name: manifestName}, manifestOf(files()))
			put(t, w, tar.Header{Name: DatabaseName, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, "")
		},
		"hard link": func(w *tar.Writer) {
			put(t, w, tar.Header{Name: manifestName}, manifestOf(files()))
			put(t, w, tar.Header{Name: DatabaseName, Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}, "")
		},
		"directory": func(w *tar.Writer) {
			put(t, w, tar.Header{Name: manifestName}, manifestOf(files()))
			put(t, w, tar.Header{Name: DatabaseName, Typeflag: tar.TypeDir}, "")
		},
		"more than announced": func(w *tar.Writer) {
			put(t, w, tar.Header{Name: manifestName}, manifestOf(files()))
			put(t, w, tar.Header{Name: DatabaseName}, "")
			put(t, w, tar.Header{Name: "key"}, "x")
		},
		"larger than announced": func(w *tar.Writer) {
			put(t, w, tar.Header{Name: manifestName}, manifestOf(files()))
			put(t, w, tar.Header{Name: DatabaseName}, "x")
		},
		"another blob": func(w *tar.Writer) {
			m := files()
			m.Blobs = sumUp([]Blob{{sha256.Sum256([]byte("x")), 1}})
			put(t, w, tar.Header{Name: manifestName}, manifestOf(m))
			put(t, w, tar.Header{Name: DatabaseName}, "")
			sum := sha256.Sum256([]byte("x"))
			put(t, w, tar.Header{Name: BlobPrefix + hex.EncodeToString(sum[:])}, "y")
		},
		"a blob upwards": func(w *tar.Writer) {
			m := files()
			m.Blobs = Blobs{1, 1, strings.Repeat("0", 64)}
			put(t, w, tar.Header{Name: manifestName}, manifestOf(m))
			put(t, w, tar.Header{Name: DatabaseName}, "")
			put(t, w, tar.Header{Name: BlobPrefix + "../../x"}, "y")
		},
		"negative sizes": func(w *tar.Writer) {
			put(t, w, tar.Header{Name: manifestName}, manifestOf(files(File{"key", -1, empty})))
		},
		"sizes that overflow": func(w *tar.Writer) {
			put(t, w, tar.Header{Name: manifestName}, manifestOf(files(File{"key", 1 << 59, empty}, File{"a", 1 << 59, empty}, File{"b", 1 << 59, empty})))
		},
		"negative blobs": func(w *tar.Writer) {
			m := files()
			m.Blobs = Blobs{-1, -1, empty}
			put(t, w, tar.Header{Name: manifestName}, manifestOf(m))
		},
		"twice": func(w *tar.Writer) {
			put(t, w, tar.Header{Name: manifestName}, manifestOf(files(File{"key", 0, empty}, File{"key", 0, empty})))
		},
	} {
		s, _, err := readBack(forge(t, fill))
		if c := agentkernel.CodeOf(err); c != agentkernel.CodeCorrupt && c != agentkernel.CodeLimit {
			t.Errorf("%s: %v", name, err)
		} else if !strings.Contains(err.Error(), says[name]) {
			t.Errorf("%s: %v, want %s", name, err, says[name])
		}
		for member := range s.members {
			if !plausible(member) {
				t.Errorf("%s: the sink was handed %q", name, member)
			}
		}
	}
}

func TestNamesThatNoDataDirectoryHas(t *testing.T) {
	for _, name := range []string{"", "/etc/passwd", "../x", "skills/../../x", "skills//x", "skills/./x", ".hidden", "skills/.new-1", `a\b`, "c:x", "a b", "a\x00b",
		"a\nb", "ä", "blobs/x", strings.Repeat("a", 256), strings.Repeat("a/", 600) + "a", "x/"} {
		m := Manifest{Format: Format, Files: []File{{Name: DatabaseName}, {Name: name}}}
		if err := m.check(); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"key", "trust.json", "prices/current.json", "skills/=0af3/x/skill.json", "states/default/=all/state-1.json", "tools/v1.json"} {
		m := Manifest{Format: Format, Files: []File{{Name: DatabaseName}, {Name: name}}}
		if err := m.check(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestBombsAreBounded: a file that unpacks to far more than it says hands over no more than its manifest has said.
func TestBombsAreBounded(t *testing.T) {
	zeros := func(w *tar.Writer, name string, n int64) {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: n}); err != nil {
			t.Fatal(err)
		}
		block := make([]byte, 1<<20)
		for ; n > 0; n -= int64(len(block)) {
			if _, err := w.Write(block); err != nil {
				t.Fatal(err)
			}
		}
	}
	big := int64(128 << 20)
	manifest := func(w *tar.Writer, size int64) {
		put(t, w, tar.Header{Name: manifestName}, manifestOf(Manifest{Files: []File{{DatabaseName, size, strings.Repeat("0", 64)}}}))
	}
	liar := forge(t, func(w *tar.Writer) { manifest(w, 10); zeros(w, DatabaseName, big) })
	s, _, err := readBack(liar)
	if agentkernel.CodeOf(err) != agentkernel.CodeCorrupt || s.most > 10 {
		t.Errorf("a liar: %d bytes handed over, %v", s.most, err)
	}
	honest := forge(t, func(w *tar.Writer) { manifest(w, big); zeros(w, DatabaseName, big) })
	full := errors.New("no room")
	s = &shelf{refuse: full}
	if _, err := Read(context.Background(), bytes.NewReader(honest), s); !errors.Is(err, full) || s.most != 0 || s.begun.Size() != big {
		t.Errorf("an honest one: %d bytes handed over, %v", s.most, err)
	}
	huge := forge(t, func(w *tar.Writer) { zeros(w, manifestName, big) })
	if s, _, err := readBack(huge); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt || s.begun != nil {
		t.Errorf("a huge manifest: %v", err)
	}
}

func TestBlobsThatAreNotWhatTheDatabaseSays(t *testing.T) {
	s := small()
	s.Blobs[0].Size++
	if err := Write(context.Background(), io.Discard, s); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
		t.Errorf("another size: %v", err)
	}
	s = small()
	gone := agentkernel.Errorf(agentkernel.CodeNotFound, "blob", "gone")
	s.Blob = func(context.Context, Sum) ([]byte, error) { return nil, gone }
	if err := Write(context.Background(), io.Discard, s); !errors.Is(err, gone) {
		t.Errorf("a missing one: %v", err)
	}
}

// failingWriter fails after n bytes.
type failingWriter struct{ n int }

func (f *failingWriter) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestWritersAndReadersThatFail(t *testing.T) {
	file := written(t, small())
	for n := range len(file) {
		if err := Write(context.Background(), &failingWriter{n}, small()); agentkernel.CodeOf(err) != agentkernel.CodeStorage {
			t.Fatalf("after %d bytes: %v", n, err)
		}
		broken := io.MultiReader(bytes.NewReader(file[:n]), failingReader{})
		if _, err := Read(context.Background(), broken, &shelf{}); agentkernel.CodeOf(err) != agentkernel.CodeStorage {
			t.Fatalf("reading fails after %d bytes: %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Write(ctx, io.Discard, small()); agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
		t.Errorf("canceled while writing: %v", err)
	}
	if _, err := Read(ctx, bytes.NewReader(file), &shelf{}); agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
		t.Errorf("canceled while reading: %v", err)
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("the disk is broken") }

// TestCommonToolsReadIt: a backup must outlive this program.
func TestCommonToolsReadIt(t *testing.T) {
	zstdPath, err := exec.LookPath("zstd")
	if err != nil {
		t.Skip("zstd is not installed")
	}
	path := filepath.Join(t.TempDir(), "x.akb")
	if err := os.WriteFile(path, written(t, small()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", strconv.Quote(zstdPath)+" -dc "+strconv.Quote(path)+" | tar -t").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "manifest.json\nkernel.db\nkey\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

func FuzzRead(f *testing.F) {
	file := written(f, small())
	f.Add(file, uint16(0), byte(0))
	f.Add(file, uint16(40), byte(1))
	f.Add(forge(f, func(*tar.Writer) {}), uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at uint16, flip byte) {
		changed := bytes.Clone(data)
		if len(changed) > 0 {
			changed[int(at)%len(changed)] ^= flip
		}
		s, m, err := readBack(changed)
		if s.begun != nil && s.most > s.begun.Size() {
			t.Fatalf("%d bytes handed over; %d were announced", s.most, s.begun.Size())
		}
		if err == nil && (m == nil || bytes.Equal(data, file) && !bytes.Equal(changed, file)) {
			t.Fatal("a changed backup was accepted")
		}
		for name := range s.members {
			if !plausible(name) {
				t.Fatalf("the sink was handed %q", name)
			}
		}
	})
}
