package journal

import (
	"bytes"
	"container/list"
	"sync"
)

// LongText is the length in bytes from which it is worth remembering what was found out about a text.
const LongText = 16 << 10

// Known remembers long texts, and of each what was found out about it: the next text of its owner may begin as it did, as each turn of a
// conversation begins with all turns before it. Owners do not share it, so that nobody learns from the time that something takes what others
// have said.
type Known[T any] struct {
	most int // bytes, about

	mu    sync.Mutex
	size  int
	order list.List // of *owned[T], the one used last first
	of    map[int64]*list.Element
}

// Kept is a text that is known. Whoever has taken it may change it.
type Kept[T any] struct {
	Found T
	text  []byte // of Known's own: whoever gave it may write over his
	size  int
}

// owned are the texts of an owner.
type owned[T any] struct {
	owner int64
	size  int // guarded by that of Known

	mu    sync.Mutex
	texts []*Kept[T] // the newest first
}

// textsEach is how many texts an owner has at most: a process may have several conversations at a time.
const textsEach = 4

// NewKnown remembers about so many bytes.
func NewKnown[T any](most int) *Known[T] {
	return &Known[T]{most: most, of: map[int64]*list.Element{}}
}

// Take gives the text of an owner that begins most as this one does, and with how many bytes; a new one, if none has half of this one in
// common. It is not known any more until Put.
func (k *Known[T]) Take(owner int64, text []byte) (best *Kept[T], same int) {
	k.mu.Lock()
	e := k.of[owner]
	if e == nil {
		k.mu.Unlock()
		return &Kept[T]{}, 0
	}
	k.order.MoveToFront(e)
	o := e.Value.(*owned[T])
	k.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	at := -1
	for i, t := range o.texts {
		if n := CommonPrefix(t.text, text); n > same {
			at, same = i, n
		}
	}
	if same < len(text)/2 {
		return &Kept[T]{}, 0
	}
	best = o.texts[at]
	o.texts = append(o.texts[:at:at], o.texts[at+1:]...)
	return best, same
}

// Put makes t, which has same bytes of a text in common, that text. found is how many bytes Found takes.
func (k *Known[T]) Put(owner int64, t *Kept[T], text []byte, same, found int) {
	t.text = append(t.text[:same], text[same:]...)
	t.size = cap(t.text) + found
	k.mu.Lock()
	e := k.of[owner]
	if e == nil {
		e = k.order.PushFront(&owned[T]{owner: owner})
		k.of[owner] = e
	}
	o := e.Value.(*owned[T])
	k.mu.Unlock()
	size := o.put(t)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of[owner] == e {
		k.size += size - o.size
		o.size = size
	}
	for k.size > k.most {
		oldest := k.order.Back()
		o := k.order.Remove(oldest).(*owned[T])
		k.size -= o.size
		delete(k.of, o.owner)
	}
}

// put adds a text, and gives the size of all.
func (o *owned[T]) put(t *Kept[T]) (size int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.texts = append([]*Kept[T]{t}, o.texts[:min(len(o.texts), textsEach-1)]...)
	for _, t := range o.texts {
		size += t.size
	}
	return size
}

// compareStep is how many bytes are compared at a time.
const compareStep = 4 << 10

// CommonPrefix is how many bytes two texts begin with that are equal.
func CommonPrefix(a, b []byte) int {
	n, i := min(len(a), len(b)), 0
	for i+compareStep <= n && bytes.Equal(a[i:i+compareStep], b[i:i+compareStep]) {
		i += compareStep
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
