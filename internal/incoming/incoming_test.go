package incoming

import "testing"

func TestRoom(t *testing.T) {
	for allowed, want := range map[int64]int64{1 << 20: Copies * usual, 256 << 20: 256 << 20, 1 << 40: Copies * most} {
		if got := New(allowed).most; got != want {
			t.Errorf("of %d bytes %d may be taken, want %d", allowed, got, want)
		}
	}
	r := Exactly(100)
	a, b := r.Hold(), r.Hold()
	if !a.Set(60) || b.Set(41) || !b.Set(40) || a.Set(61) || r.Used() != 100 {
		t.Fatalf("%d bytes are taken", r.Used())
	}
	part := a.Part(50)
	a.Release()
	a.Release()
	if r.Used() != 90 || part.Part(99).n != 50 || !b.Set(10) {
		t.Errorf("%d bytes are taken", r.Used())
	}
	part.Release()
	b.Release()
	(*Hold)(nil).Release()
	if r.Used() != 50 { // of the part of the part
		t.Errorf("%d bytes are taken", r.Used())
	}
}

// Where large messages have taken all, small ones find room in the reserve, and they alone.
func TestReserve(t *testing.T) {
	r := New(1 << 30)
	large, another := r.Hold(), r.Hold()
	if !large.Set(1<<30) || another.Set(small+1) {
		t.Fatal("a large message has what is kept for small ones")
	}
	for i := range reserve / small {
		if !r.Hold().Set(small) {
			t.Fatalf("the %d. small message found no room", i+1)
		}
	}
	if r.Hold().Set(1) {
		t.Error("the reserve has no end")
	}
	large.Release()
	if !another.Set(2 * small) {
		t.Error("what was given back is not there")
	}
}
