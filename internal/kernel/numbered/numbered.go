// Package numbered is a list of things with numbers, such as the calls of a process that have no result yet. Most lists have one
// thing at most, so that a map would be most of what they cost.
package numbered

import (
	"cmp"
	"slices"
)

// Item is something with a number that stays the same.
type Item interface{ Number() int64 }

// List has items by rising number, one of each.
type List[T Item] []T

func (l List[T]) search(n int64) (int, bool) {
	return slices.BinarySearchFunc(l, n, func(it T, n int64) int { return cmp.Compare(it.Number(), n) })
}

// Find gives the item with a number, or the zero value.
func (l List[T]) Find(n int64) (found T) {
	if i, ok := l.search(n); ok {
		return l[i]
	}
	return found
}

// Has says whether there is an item with a number.
func (l List[T]) Has(n int64) bool {
	_, ok := l.search(n)
	return ok
}

// Add puts an item in its place; one with its number that is there already is replaced.
func (l *List[T]) Add(it T) {
	i, ok := l.search(it.Number())
	if ok {
		(*l)[i] = it
		return
	}
	*l = slices.Insert(*l, i, it)
}

// Remove takes the item with a number out, if there is one.
func (l *List[T]) Remove(n int64) {
	if i, ok := l.search(n); ok {
		*l = slices.Delete(*l, i, i+1)
	}
}
