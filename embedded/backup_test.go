package embedded_test

import (
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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/backup"
	"agentkernel/internal/datadir"
	"agentkernel/internal/store/sqlite"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func storeOf(t *testing.T, home string) *sqlite.Store {
	t.Helper()
	dir, err := datadir.Open(home)
	must(t, err)
	key, err := dir.Key()
	must(t, err)
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: dir.Database(), Blobs: dir.Blobs(), Key: key})
	must(t, err)
	return s
}

// usedHome is a data directory with an unfinished process, a large payload and a skill.
func usedHome(t *testing.T) string {
	t.Helper()
	home := filepath.Join(t.TempDir(), "h")
	s := storeOf(t, home)
	pid, err := s.NewPID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pos, err := s.Append(agentkernel.Batch{
		Process: &agentkernel.ProcessRecord{Process: agentkernel.Process{PID: pid, Namespace: "default", Name: "a", Priority: 10,
			State: agentkernel.StateUnfinished, Created: time.Unix(1_790_000_000, 0)}, Spec: agentkernel.Spec{Program: agentkernel.Program{Name: "a", Source: "print(1)"}}},
		Entries: []agentkernel.Entry{{PID: pid, Seq: 1, Kind: agentkernel.EntryOutput, Stream: "stdout", Data: json.RawMessage(`"` + strings.Repeat("x", 50_000) + `"`)}},
	})
	must(t, err)
	must(t, s.Flush(t.Context(), pos))
	must(t, s.Close())
	skill := filepath.Join(home, "skills", "default", "f", "v1.py")
	must(t, os.MkdirAll(filepath.Dir(skill), 0o700))
	must(t, os.WriteFile(skill, []byte("def f(): pass\n"), 0o600))
	return home
}

func backupOf(t *testing.T, home string) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, embedded.Backup(t.Context(), home, "1.0", &b))
	return b.Bytes()
}

// tree lists the files below a directory, but for the lock's, which is nobody's.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if name, _ := filepath.Rel(dir, path); err == nil && !d.IsDir() && name != "kernel.lock" {
			names = append(names, name)
		}
		return err
	}))
	return names
}

func restore(t *testing.T, file []byte, home string, force bool) (embedded.Restored, error) {
	t.Helper()
	return embedded.Restore(t.Context(), bytes.NewReader(file), embedded.RestoreOptions{Home: home, Version: "1.0", Force: force})
}

func wantCode(t *testing.T, what string, err error, codes ...agentkernel.Code) {
	t.Helper()
	if !slices.Contains(codes, agentkernel.CodeOf(err)) {
		t.Errorf("%s: %v (%s), want one of %v", what, err, agentkernel.CodeOf(err), codes)
	}
}

// What belongs to a running kernel, waits to be applied, or can be had again is left out of a backup.
func TestWhatABackupLeavesOut(t *testing.T) {
	from, to := usedHome(t), filepath.Join(t.TempDir(), "new")
	before := tree(t, from)
	for _, name := range []string{"workspaces/1/upper.0/f", "workspaces/1/stdin", "environments/e/lib/m.py", "engines/monty", "run/r.json", "kernel.log", "kernel.log.1",
		"restoring/kernel.db", "replaced-1/kernel.db", ".stdin-1", "skills/default/f/.half"} {
		path := filepath.Join(from, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte("x"), 0o600))
	}
	_, err := restore(t, backupOf(t, from), to, false)
	must(t, err)
	if got := tree(t, to); !slices.Equal(got, before) {
		t.Errorf("restored %q, want %q", got, before)
	}
}

func TestWhatIsRestoredIsWhatWas(t *testing.T) {
	from, to := usedHome(t), filepath.Join(t.TempDir(), "new")
	before := tree(t, from)
	file := backupOf(t, from)
	if after := tree(t, from); !slices.Equal(before, after) {
		t.Errorf("a backup changed the directory: %q, was %q", after, before)
	}
	done, err := restore(t, file, to, false)
	must(t, err)
	if got := tree(t, to); !slices.Equal(got, before) || done.Paused != 1 || done.Processes != 1 || done.Blobs != 1 {
		t.Errorf("restored %q, was %q; %+v", got, before, done)
	}
	s := storeOf(t, to)
	defer func() { _ = s.Close() }() // it is only read from
	entries, err := s.Entries(t.Context(), 1, 1, 0)
	if err != nil || len(entries) != 2 || len(entries[0].Data) != 50_002 || entries[1].Kind != agentkernel.EntryPaused {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	for _, name := range before {
		if info, err := os.Stat(filepath.Join(to, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
		}
	}
}

func TestADirectoryInUseIsNotRestoredInto(t *testing.T) {
	file, home := backupOf(t, usedHome(t)), usedHome(t)
	before := tree(t, home)
	_, err := restore(t, file, home, false)
	wantCode(t, "a used directory", err, agentkernel.CodeConflict)
	dir, err := datadir.Open(home)
	must(t, err)
	lock, err := dir.Lock(datadir.Holder{OSPID: os.Getpid(), Mode: "serve", Started: time.Now()})
	must(t, err)
	_, err = restore(t, file, home, true)
	wantCode(t, "a kernel runs", err, agentkernel.CodeConflict)
	wantCode(t, "a backup beside the kernel", embedded.Backup(t.Context(), home, "1.0", io.Discard), agentkernel.CodeConflict)
	must(t, lock.Unlock())
	if after := tree(t, home); !slices.Equal(after, before) {
		t.Errorf("changed all the same: %q, was %q", after, before)
	}
	done, err := restore(t, file, home, true)
	must(t, err)
	if got := tree(t, done.Replaced); !slices.Equal(got, before) {
		t.Errorf("moved aside: %q, was %q", got, before)
	}
	wantCode(t, "nothing ever ran", embedded.Backup(t.Context(), t.TempDir(), "1.0", io.Discard), agentkernel.CodeNotFound)
}

// TestAChangedByteChangesNothing restores backups that were changed or cut: nothing is ever in its place.
func TestAChangedByteChangesNothing(t *testing.T) {
	file := backupOf(t, usedHome(t))
	home := filepath.Join(t.TempDir(), "h")
	step := max(1, len(file)/150)
	for at := 0; at < len(file); at += step {
		changed := bytes.Clone(file)
		changed[at] ^= 0x10
		for name, bad := range map[string][]byte{"changed": changed, "cut": file[:at]} {
			_, err := restore(t, bad, home, false)
			wantCode(t, name+" at byte "+strconv.Itoa(at), err, agentkernel.CodeCorrupt, agentkernel.CodeVersion)
			if left := tree(t, home); len(left) != 0 {
				t.Fatalf("%s at byte %d left %q", name, at, left)
			}
		}
	}
	_, err := restore(t, file, home, false)
	must(t, err)
}

// forged packs a backup as Write does, of what a stranger wants.
func forged(t *testing.T, database []byte, change func(s *backup.Source)) []byte {
	t.Helper()
	add := func(s *backup.Source, name string, data []byte) {
		sum := sha256.Sum256(data)
		s.Manifest.Files = append(s.Manifest.Files, backup.File{Name: name, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])})
	}
	var s backup.Source
	found, err := sqlite.CheckDatabase(bytes.NewReader(database), int64(len(database)))
	must(t, err)
	s.Manifest = backup.Manifest{Store: found.Store, Schema: found.Schema, Processes: found.Processes, Unfinished: found.Unfinished}
	add(&s, backup.DatabaseName, database)
	s.Open = func(i int) (io.Reader, error) {
		if i == 0 {
			return bytes.NewReader(database), nil
		}
		return strings.NewReader("evil"), nil
	}
	evil := sha256.Sum256([]byte("evil"))
	s.Blob = func(context.Context, backup.Sum) ([]byte, error) { return []byte("evil"), nil }
	if change != nil {
		change(&s)
	}
	for i := range s.Manifest.Files[1:] {
		s.Manifest.Files[i+1].Size, s.Manifest.Files[i+1].SHA256 = 4, hex.EncodeToString(evil[:])
	}
	var b bytes.Buffer
	must(t, backup.Write(t.Context(), &b, s))
	return b.Bytes()
}

func emptyDatabase(t *testing.T) []byte {
	t.Helper()
	home := filepath.Join(t.TempDir(), "h")
	must(t, storeOf(t, home).Close())
	data, err := os.ReadFile(filepath.Join(home, "kernel.db"))
	must(t, err)
	return data
}

func TestStrangersBackups(t *testing.T) {
	empty := emptyDatabase(t)
	used, err := os.ReadFile(filepath.Join(usedHome(t), "kernel.db"))
	must(t, err)
	home := filepath.Join(t.TempDir(), "h")
	if _, err := restore(t, forged(t, empty, nil), home, false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"engines/monty/monty", "kernel.lock", "kernel.sock", "engine.json", "python.json", "kernel.db-wal", "run/x.json", "host/1/tools.json", "restoring/x", "replaced-1/x", "other"} {
		home := filepath.Join(t.TempDir(), "h")
		_, err := restore(t, forged(t, empty, func(s *backup.Source) {
			s.Manifest.Files = append(s.Manifest.Files, backup.File{Name: name})
		}), home, false)
		wantCode(t, name, err, agentkernel.CodeCorrupt)
		if left := tree(t, home); len(left) != 0 {
			t.Errorf("%s left %q", name, left)
		}
	}
	for what, file := range map[string][]byte{
		"a blob is missing":   forged(t, used, nil),
		"a blob too many":     forged(t, empty, func(s *backup.Source) { s.Blobs = []backup.Blob{{Sum: sha256.Sum256([]byte("evil")), Size: 4}} }),
		"another store":       forged(t, empty, func(s *backup.Source) { s.Manifest.Store = "x" }),
		"another count":       forged(t, empty, func(s *backup.Source) { s.Manifest.Unfinished = 7 }),
		"a key of four bytes": forged(t, empty, func(s *backup.Source) { s.Manifest.Files = append(s.Manifest.Files, backup.File{Name: "key"}) }),
		"a file and directory": forged(t, empty, func(s *backup.Source) {
			s.Manifest.Files = append(s.Manifest.Files, backup.File{Name: "skills"}, backup.File{Name: "skills/x"})
		}),
	} {
		home := filepath.Join(t.TempDir(), "h")
		_, err := restore(t, file, home, false)
		wantCode(t, what, err, agentkernel.CodeCorrupt, agentkernel.CodeStorage)
		if left := tree(t, home); len(left) != 0 {
			t.Errorf("%s left %q", what, left)
		}
	}
}

// dying kills this process once so many bytes have gone through it.
type dying struct {
	r    io.Reader
	w    io.Writer
	left int
}

func (d *dying) pass(n int) {
	if d.left -= n; d.left < 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // it does not return
	}
}

func (d *dying) Write(p []byte) (int, error) { d.pass(len(p)); return d.w.Write(p) }

func (d *dying) Read(p []byte) (int, error) {
	n, err := d.r.Read(p[:min(len(p), 512)])
	d.pass(n)
	return n, err
}

// TestKilledInTheMiddle kills processes that back up and restore, at many places: the directory that is backed up has
// no trace of it, what was written is no backup, and a restore that died is no data directory but can be repeated.
func TestKilledInTheMiddle(t *testing.T) {
	if what := os.Getenv("DIE_DURING"); what != "" {
		dieDuring(t, what)
		return
	}
	home := usedHome(t)
	before := tree(t, home)
	file := backupOf(t, home)
	good := filepath.Join(t.TempDir(), "good.akb")
	must(t, os.WriteFile(good, file, 0o600))
	for _, at := range []int{0, 40, len(file) / 2, len(file) - 100, len(file) - 10} {
		half := filepath.Join(t.TempDir(), "half.akb")
		die(t, "backup", home, half, at)
		if after := tree(t, home); !slices.Equal(after, before) {
			t.Errorf("killed at byte %d: the directory has %q, had %q", at, after, before)
		}
		data, err := os.ReadFile(half)
		must(t, err)
		_, err = embedded.CheckBackup(t.Context(), bytes.NewReader(data), t.TempDir())
		wantCode(t, "what a killed backup has written", err, agentkernel.CodeCorrupt)

		to := filepath.Join(t.TempDir(), "h")
		die(t, "restore", to, good, at)
		if _, err := os.Stat(filepath.Join(to, "kernel.db")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("killed at byte %d: the database is in its place: %v", at, err)
		}
		if _, err := restore(t, file, to, false); err != nil {
			t.Errorf("again after being killed at byte %d: %v", at, err)
		}
		if got := tree(t, to); !slices.Equal(got, before) {
			t.Errorf("again after being killed at byte %d: %q, want %q", at, got, before)
		}
	}
}

func die(t *testing.T, what, home, file string, at int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledInTheMiddle$")
	cmd.Env = append(os.Environ(), "DIE_DURING="+what, "DIE_HOME="+home, "DIE_FILE="+file, "DIE_AT="+strconv.Itoa(at))
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%s was not killed at byte %d: %v\n%s", what, at, err, out)
	}
}

func dieDuring(t *testing.T, what string) {
	at, err := strconv.Atoi(os.Getenv("DIE_AT"))
	must(t, err)
	f, err := os.OpenFile(os.Getenv("DIE_FILE"), os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	if what == "backup" {
		must(t, embedded.Backup(t.Context(), os.Getenv("DIE_HOME"), "1.0", &dying{w: f, left: at}))
		return
	}
	_, err = embedded.Restore(t.Context(), &dying{r: f, left: at}, embedded.RestoreOptions{Home: os.Getenv("DIE_HOME")})
	must(t, err)
}

// TestARestoreBrokenOffBetweenFiles: no kernel takes half a data directory for a whole one, and nothing is lost.
func TestARestoreBrokenOffBetweenFiles(t *testing.T) {
	home := usedHome(t)
	file := backupOf(t, home)
	must(t, os.Mkdir(filepath.Join(home, "restoring"), 0o700)) // everything was moved out but the database
	must(t, os.Rename(filepath.Join(home, "kernel.db"), filepath.Join(home, "restoring", "kernel.db")))
	dir, err := datadir.Open(home)
	must(t, err)
	_, err = dir.Lock(datadir.Holder{OSPID: os.Getpid(), Mode: "serve", Started: time.Now()})
	wantCode(t, "a kernel on half a directory", err, agentkernel.CodeCorrupt)
	if !strings.Contains(agentkernel.AsError(err, "", "").Hint, "agentkernel restore") {
		t.Errorf("the hint is %q", agentkernel.AsError(err, "", "").Hint)
	}
	done, err := restore(t, file, home, true)
	must(t, err)
	if got := tree(t, done.Replaced); len(got) == 0 {
		t.Error("what had been in place was deleted")
	}
	must(t, storeOf(t, home).Close())
}
