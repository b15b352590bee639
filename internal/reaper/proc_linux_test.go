package reaper

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	rest := "0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 0 0"
	for _, tc := range []struct {
		name, stat string
		want       proc
		ok         bool
	}{
		{"plain", "42 (sh) S 1 42 7 " + rest, proc{pid: 42, parent: 1, group: 42, session: 7, start: 987654}, true},
		{"brackets and spaces", "42 (a) S 9 (b) R 1 42 7 " + rest, proc{pid: 42, parent: 1, group: 42, session: 7, start: 987654}, true},
		{"zombie", "42 (sh) Z 1 42 7 " + rest, proc{pid: 42, parent: 1, group: 42, session: 7, start: 987654, dead: true}, true},
		{"short", "42 (sh) S 1 42", proc{}, false},
		{"empty", "", proc{}, false},
		{"no numbers", "42 (sh) S a b c " + rest, proc{}, false},
	} {
		got, ok := parseStat(42, []byte(tc.stat))
		if ok != tc.ok || (ok && got != tc.want) {
			t.Errorf("%s: %+v, %v", tc.name, got, ok)
		}
	}
}

func TestLookAtOneself(t *testing.T) {
	p, ok := look(os.Getpid())
	if !ok || p.parent != os.Getppid() || p.start <= 0 || p.dead {
		t.Errorf("%+v, %v", p, ok)
	}
	if _, ok := look(1 << 30); ok {
		t.Error("a process that cannot be")
	}
	all, err := list(0)
	if err != nil || len(all) < 2 {
		t.Errorf("list: %d, %v", len(all), err)
	}
}

func TestFloor(t *testing.T) {
	now, ok := forks()
	if !ok || now <= 0 {
		t.Fatalf("forks = %d, %v", now, ok)
	}
	for _, tc := range []struct {
		name   string
		pid    int
		before int64
		want   int
	}{
		{"nothing happened since", 500, now, 500},
		{"unknown", 500, 0, 0},
		{"PIDs may have wrapped around", 1 << 30, now, 0},
		{"more forks than PIDs", 500, now - 1<<40, 0},
	} {
		if got := floor(tc.pid, tc.before); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
	high, err := list(os.Getpid())
	if err != nil || len(high) == 0 {
		t.Fatal(high, err)
	}
	for _, p := range high {
		if p.pid < os.Getpid() {
			t.Errorf("pid %d is below the floor", p.pid)
		}
	}
}

func BenchmarkFindAbove(b *testing.B) {
	q := prey{owns: ownedBy("nobody"), floor: os.Getpid()}
	for b.Loop() {
		if _, err := q.find(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	q := prey{owns: ownedBy("nobody")}
	for b.Loop() {
		if _, err := q.find(); err != nil {
			b.Fatal(err)
		}
	}
}
