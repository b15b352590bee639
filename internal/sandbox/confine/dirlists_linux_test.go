package confine

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A program changes what a descriptor is while it is looked at. What is there by then must not tell of what was there before.
func TestAnotherFileByNow(t *testing.T) {
	l := newDirLists(Config{})
	l.overlay = true
	var proc, was unix.Stat_t
	if err := unix.Stat("/proc/self/status", &proc); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := unix.Stat(dir, &was); err != nil {
		t.Fatal(err)
	}
	if !l.generated(dir, &proc) || !l.layered(dir, &proc) {
		t.Error("a file of /proc was taken for the directory that has its place by now")
	}
	if l.generated(dir, &was) || !l.generated("/proc/self/status", &proc) || l.layered("/proc/self/status", &proc) {
		t.Error("what was there by then is remembered of what was before")
	}
	other := t.TempDir()
	if n, _ := countNames(other, &was, 1<<20); n >= 0 {
		t.Errorf("another directory was counted in its place: %d", n)
	}
}
