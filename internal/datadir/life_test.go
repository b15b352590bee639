package datadir

import (
	"os"
	"testing"
	"time"

	"agentkernel"
)

// Whoever has the directory next knows when the kernel before it began, and its last beat, also if it was killed.
func TestTheLifeOfTheKernelBefore(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	lock := func(mode string, started time.Time) *Lock {
		t.Helper()
		l, err := d.Lock(Holder{OSPID: os.Getpid(), Mode: mode, Started: started})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	first := lock("serve", began)
	if first.Before() != (agentkernel.KernelLife{}) {
		t.Errorf("before the first there was %+v", first.Before())
	}
	died := began.Add(time.Hour)
	first.touch(died)
	_ = first.file.Close() // as the system does when it is killed
	want := agentkernel.KernelLife{Began: began, Seen: died}
	if got := d.LastLife(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	backup := lock("backup", began.Add(2*time.Hour))
	if err := backup.Unlock(); err != nil {
		t.Fatal(err)
	}
	if got := d.LastLife(); got != want {
		t.Errorf("after a backup, which is no kernel: %+v, want %+v", got, want)
	}
	second := lock("serve", began.Add(3*time.Hour))
	if second.Before() != want {
		t.Errorf("the second says %+v, want %+v", second.Before(), want)
	}
	second.touch(died)
	second.Beat()
	for deadline := time.After(time.Minute); d.LastLife().Seen.Equal(died); {
		select {
		case <-deadline:
			t.Fatal("no beat is seen")
		case <-time.After(20 * time.Millisecond):
		}
	}
	now := time.Now()
	if err := second.Unlock(); err != nil {
		t.Fatal(err)
	}
	if got := d.LastLife(); !got.Began.Equal(began.Add(3*time.Hour)) || got.Seen.Before(now.Add(-time.Second)) {
		t.Errorf("after an orderly end: %+v", got)
	}
	if h, ok := d.Holder(); ok {
		t.Errorf("it is held by %+v", h)
	}
}
