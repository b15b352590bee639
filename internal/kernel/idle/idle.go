// Package idle lists what may be put away, in the order in which it became idle. It knows nothing of what is listed, and never puts
// anything away.
package idle

import (
	"container/list"

	"agentkernel"
)

// List is a list of processes of some type, each at most once. It is not safe for use by several goroutines. The zero value is empty.
type List[P any] struct {
	order  list.List
	places map[agentkernel.PID]*list.Element
}

type item[P any] struct {
	pid agentkernel.PID
	p   P
}

// Put makes a process the last of the list.
func (l *List[P]) Put(pid agentkernel.PID, p P) {
	if place := l.places[pid]; place != nil {
		l.order.MoveToBack(place)
		return
	}
	if l.places == nil {
		l.places = map[agentkernel.PID]*list.Element{}
	}
	l.places[pid] = l.order.PushBack(item[P]{pid, p})
}

// Drop takes a process off the list, if it is there.
func (l *List[P]) Drop(pid agentkernel.PID) {
	if place := l.places[pid]; place != nil {
		l.order.Remove(place)
		delete(l.places, pid)
	}
}

// Take takes the first of the list off it, if there are more than so many.
func (l *List[P]) Take(beyond int) (pid agentkernel.PID, p P, ok bool) {
	if l.order.Len() <= beyond {
		return 0, p, false
	}
	first := l.order.Front().Value.(item[P])
	l.Drop(first.pid)
	return first.pid, first.p, true
}
