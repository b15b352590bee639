package embedded

import (
	"os"
	"runtime"
	"testing"
)

// TestDedicate: once, and not where the user has said how many.
func TestDedicate(t *testing.T) {
	was := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(was)
	t.Setenv("GOMAXPROCS", "7")
	if Dedicate(); runtime.GOMAXPROCS(0) != was {
		t.Errorf("%d threads for %d, and the user has said how many", runtime.GOMAXPROCS(0), was)
	}
	if err := os.Unsetenv("GOMAXPROCS"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if Dedicate(); runtime.GOMAXPROCS(0) != threads(was) {
			t.Errorf("%d threads, want %d", runtime.GOMAXPROCS(0), threads(was))
		}
	}
	for processors, want := range map[int]int{1: 2, 2: 3, 3: 4, 4: 6, 64: 96} {
		if got := threads(processors); got != want {
			t.Errorf("%d threads on %d processors, want %d", got, processors, want)
		}
	}
}
