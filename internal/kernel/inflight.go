package kernel

import (
	"cmp"
	"slices"
)

// calls are the calls of a process that have no result yet, by rising number. Few processes have more than
// one, so that a map would be most of what a waiting process costs.
type calls []*inflight

func (c calls) search(id int64) (int, bool) {
	return slices.BinarySearchFunc(c, id, func(f *inflight, id int64) int { return cmp.Compare(f.id, id) })
}

// find gives the call with this number, or nil.
func (c calls) find(id int64) *inflight {
	if i, ok := c.search(id); ok {
		return c[i]
	}
	return nil
}

// add puts a call in its place; one with its number that is there already is replaced.
func (c *calls) add(f *inflight) {
	i, ok := c.search(f.id)
	if ok {
		(*c)[i] = f
		return
	}
	*c = slices.Insert(*c, i, f)
}

// remove takes a call out if it is there.
func (c *calls) remove(f *inflight) {
	if i, ok := c.search(f.id); ok {
		*c = slices.Delete(*c, i, i+1)
	}
}

// opening is how many of them open a stream.
func (c calls) opening() (n int) {
	for _, f := range c {
		if f.handler != nil && f.handler.Opens {
			n++
		}
	}
	return n
}
