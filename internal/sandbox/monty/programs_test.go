package monty

import "testing"

// What is kept of programs is bounded in number and in bytes, and what is large is not kept at all.
func TestKeptPrograms(t *testing.T) {
	l := newLRU[int, int](4, func(bytes int) int { return bytes })
	for key, bytes := range []int{1, 2, 3, 4, 5} {
		l.put(key, bytes)
	}
	if _, ok := l.get(0); ok || l.order.Len() != 4 || l.bytes != 14 {
		t.Errorf("%d values of %d bytes are kept", l.order.Len(), l.bytes)
	}
	l = newLRU[int, int](1000, func(bytes int) int { return bytes })
	for key := range 100 {
		l.put(key, keptText/8)
	}
	if l.order.Len() != 8 || l.bytes != keptText {
		t.Errorf("%d values of %d bytes are kept", l.order.Len(), l.bytes)
	}
	l.put(99, keptText/8+1) // what it was before is not kept for it
	if _, ok := l.get(99); ok || l.bytes != keptText-keptText/8 {
		t.Errorf("%d bytes are kept", l.bytes)
	}
}
