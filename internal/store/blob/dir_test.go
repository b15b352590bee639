package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"agentkernel"
	"agentkernel/internal/store/blob"
)

func TestPutThenGet(t *testing.T) {
	d := blob.NewDir(filepath.Join(t.TempDir(), "blobs"), 0)
	for _, data := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("0123456789abcdef"), 1<<16)} {
		sum, err := d.Put(context.Background(), data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Get(context.Background(), sum)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes came back as %d, error %v", len(data), len(got), err)
		}
	}
}

func TestLayoutIsTwoLevelsPrivateAndWithoutLeftovers(t *testing.T) {
	root := filepath.Join(t.TempDir(), "blobs")
	d := blob.NewDir(root, 0)
	sum, err := d.Put(context.Background(), []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	name := sum.String()
	want := filepath.Join(root, name[:2], name[2:4], name)
	if d.Path(sum) != want {
		t.Fatalf("path %s, want %s", d.Path(sum), want)
	}
	info, err := os.Stat(want)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, error %v; want 0600", info.Mode(), err)
	}
	if dir, err := os.Stat(root); err != nil || dir.Mode().Perm() != 0o700 {
		t.Fatalf("directory mode %v, error %v; want 0700", dir.Mode(), err)
	}
	files, err := os.ReadDir(filepath.Dir(want))
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files beside the blob, error %v", len(files), err)
	}
}

func TestNothingIsMadeBeforeTheFirstPut(t *testing.T) {
	root := filepath.Join(t.TempDir(), "blobs")
	d := blob.NewDir(root, 0)
	_, err := d.Get(context.Background(), blob.SumOf([]byte("absent")))
	if agentkernel.CodeOf(err) != agentkernel.CodeStorage { // the directory may come back: its disk is not mounted, say
		t.Fatalf("reading from a directory that is not there: %v", err)
	}
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Fatalf("the directory exists already: %v", err)
	}
	if _, err := d.Put(context.Background(), []byte("another")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(context.Background(), blob.SumOf([]byte("absent"))); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Fatalf("reading an absent blob: %v", err)
	}
}

func TestDamageIsFound(t *testing.T) {
	d := blob.NewDir(t.TempDir(), 0)
	sum, err := d.Put(context.Background(), []byte("the truth"))
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []string{"the trutX", "the", "", "the truth and more"} {
		if err := os.WriteFile(d.Path(sum), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Get(context.Background(), sum); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
			t.Errorf("content %q: %v, want %s", damaged, err, agentkernel.CodeCorrupt)
		}
	}
}

func TestPutRepairsATruncatedFile(t *testing.T) {
	d := blob.NewDir(t.TempDir(), 0)
	data := []byte("whole")
	sum, err := d.Put(context.Background(), data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.Path(sum), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put(context.Background(), data); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Get(context.Background(), sum); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestSizeLimit(t *testing.T) {
	root := t.TempDir()
	small, large := blob.NewDir(root, 4), blob.NewDir(root, 0)
	if _, err := small.Put(context.Background(), []byte("12345")); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
		t.Errorf("put: %v", err)
	}
	sum, err := large.Put(context.Background(), []byte("12345"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := small.Get(context.Background(), sum); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
		t.Errorf("get: %v", err)
	}
}

func TestDelete(t *testing.T) {
	d := blob.NewDir(t.TempDir(), 0)
	sum, err := d.Put(context.Background(), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to delete
		if err := d.Delete(context.Background(), sum); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Get(context.Background(), sum); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Fatal(err)
	}
}

func TestConcurrentPutsOfTheSameContent(t *testing.T) {
	d := blob.NewDir(t.TempDir(), 0)
	data := bytes.Repeat([]byte("same"), 20_000)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			if _, err := d.Put(context.Background(), data); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got, err := d.Get(context.Background(), blob.SumOf(data)); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := blob.NewDir(filepath.Join(file, "blobs"), 0).Put(context.Background(), []byte("x"))
	if agentkernel.CodeOf(err) != agentkernel.CodeStorage || !strings.Contains(err.Error(), file) {
		t.Fatalf("a file where the directory should be: %v", err)
	}
}

func TestParseSum(t *testing.T) {
	sum := blob.SumOf([]byte("x"))
	if got, err := blob.ParseSum(sum[:]); err != nil || got != sum {
		t.Fatal(got, err)
	}
	if _, err := blob.ParseSum(sum[:31]); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
		t.Fatal(err)
	}
}

// TestMoved: blobs stay with the directory in which they were, wherever somebody moves it, and nothing is made where it lay.
func TestMoved(t *testing.T) {
	home := t.TempDir()
	was, is := filepath.Join(home, "was"), filepath.Join(home, "is")
	if err := os.Mkdir(was, 0o700); err != nil {
		t.Fatal(err)
	}
	d := blob.NewDir(filepath.Join(was, "blobs"), 0)
	var sums []blob.Sum
	put := func(text string) {
		t.Helper()
		sum, err := d.Put(t.Context(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, sum)
	}
	put("before")
	if err := os.Rename(was, is); err != nil {
		t.Fatal(err)
	}
	put("after")
	for _, from := range []*blob.Dir{d, blob.NewDir(filepath.Join(is, "blobs"), 0)} {
		for _, sum := range sums {
			if _, err := from.Get(t.Context(), sum); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := blob.NewDir(filepath.Join(was, "blobs"), 0).Put(t.Context(), []byte("first")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("where none is: %v", err)
	}
	if _, err := os.Lstat(was); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the place from which it was moved: %v", err)
	}
}

// TestNoDescriptors: a blob that cannot be written since the process has no descriptor left says what to do.
func TestNoDescriptors(t *testing.T) {
	d := blob.NewDir(filepath.Join(t.TempDir(), "blobs"), 0)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := was
	none.Cur = 3
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	_, err := d.Put(context.Background(), []byte("x"))
	if failed := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); failed != nil {
		t.Fatal(failed)
	}
	if e := agentkernel.AsError(err, agentkernel.CodeInternal, ""); err == nil || e.Code != agentkernel.CodeStorage || !strings.Contains(e.Hint, "ulimit -n") {
		t.Errorf("%v, %q", err, e.Hint)
	}
}
