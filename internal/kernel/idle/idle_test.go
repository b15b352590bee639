package idle

import (
	"fmt"
	"testing"

	"agentkernel"
)

func TestList(t *testing.T) {
	var l List[string]
	if _, _, ok := l.Take(0); ok {
		t.Error("an empty list has a first")
	}
	for _, pid := range []agentkernel.PID{1, 2, 3, 4, 2} { // 2 became idle again
		l.Put(pid, fmt.Sprint("p", pid))
	}
	l.Drop(3)
	l.Drop(3)
	got := ""
	for {
		pid, p, ok := l.Take(1)
		if !ok {
			break
		}
		if p != fmt.Sprint("p", pid) {
			t.Errorf("%d is %s", pid, p)
		}
		got += p
	}
	if _, last, ok := l.Take(0); got != "p1p4" || !ok || last != "p2" {
		t.Errorf("took %s, and then %s %t", got, last, ok)
	}
	if len(l.places) != 0 {
		t.Errorf("%d places are left", len(l.places))
	}
}
