package process

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDrainTakesWhatLiesThere: the guest goes on when it sees the pipes empty. What a child writes from then on may come after the
// guest's next frame, and is not taken before it, be it that one pipe was read and the other was not yet.
func TestDrainTakesWhatLiesThere(t *testing.T) {
	l, far, err := newLine(1 << 10)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	defer far.close()
	got := ""
	l.foreign = func(stream int, data []byte) error {
		got += string(data)
		for _, fd := range []int{far.out, far.err} {
			if _, err := unix.Write(fd, []byte("late ")); err != nil {
				t.Error(os.NewSyscallError("write", err))
			}
		}
		return nil
	}
	if _, err := unix.Write(far.out, []byte("early ")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"early ", "early late late "} {
		if err := l.drain(); err != nil || got != want {
			t.Errorf("%v %q, want %q", err, got, want)
		}
	}
}
