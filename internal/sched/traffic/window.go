package traffic

import "time"

// Guard is by how much a request may reach a server later than another that was sent at the same moment. Whatever is planned
// leaves so much room in time.
const Guard = 50 * time.Millisecond

// parts is how finely a window is kept; slots has room for Guard and for the two parts at the ends as well.
const (
	parts = 100
	slots = 128
)

// window is what was charged in the last span: in any interval of that length, wherever a server lets its windows begin.
// It is exact to a hundredth of the span, and errs on the side of more.
type window struct {
	span, width int64 // nanoseconds
	first, last int64 // the oldest and the newest slot that count; slot i is the time from i*width on
	sum         float64
	slots       [slots]float64
}

func newWindow(span time.Duration, now int64) *window {
	w := &window{span: int64(span), width: int64(span) / parts}
	w.last = now / w.width
	w.first = w.last
	return w
}

// advance forgets what lies further back than the span and Guard.
func (w *window) advance(now int64) {
	first := (now - w.span - int64(Guard)) / w.width
	if first > w.last { // all of it
		if w.sum != 0 {
			w.slots, w.sum = [slots]float64{}, 0
		}
		w.first = first
	}
	for w.first < first {
		slot := &w.slots[w.first%slots]
		w.sum -= *slot
		*slot = 0
		w.first++
	}
	if w.last = max(w.last, now/w.width); w.first == w.last {
		w.sum = w.slots[w.first%slots] // no rounding error lives longer than the span
	}
}

// add charges an amount that was sent at a time; one that is too long ago counts no more.
func (w *window) add(at int64, amount float64) {
	if slot := at / w.width; slot >= w.first && slot <= w.last {
		w.slots[slot%slots] += amount
		w.sum += amount
	}
}

// room is when no more than `most` will be left in the window.
func (w *window) room(most float64) int64 {
	sum := w.sum
	for slot := w.first; slot <= w.last; slot++ {
		if sum <= most+tiny {
			return slot*w.width + w.span + int64(Guard)
		}
		sum -= w.slots[slot%slots]
	}
	return (w.last+1)*w.width + w.span + int64(Guard)
}
