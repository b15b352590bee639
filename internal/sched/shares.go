package sched

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MostDebt is how much more service than its share a flow may have had, and be made to wait for it: a flow that has used slots alone
// for an hour does not stand still for an hour when another comes.
const MostDebt = time.Second

// Shares is a Queue for each of several flows (tenants), which share what serves them by their weights. Within a flow the order is
// that of Queue. What a flow has had is told by Charge, when it is known. The zero value is empty.
//
// As long as two flows wait for service, what they get of it, divided by their weights, differs by no more than what is being served, and
// MostDebt. A flow that comes, or comes back, has no claim to the time when it did not wait.
type Shares[T any] struct {
	// Weight is the weight of a flow, 1 or more; nil: all have 1.
	Weight func(flow string) int

	flows   map[string]*flow[T]
	waiting []*flow[T] // those with items
	now     float64    // virtual time: what the flow had that was served last, by its weight
	count   int
	crowded int // so many flows are worth a look whether all have to be kept
}

type flow[T any] struct {
	Queue[T]
	name   string
	weight float64
	had    float64 // seconds of service by its weight
	guess  float64 // what an item of it takes, in seconds
}

// Push queues v for a flow; see Queue.Push.
func (s *Shares[T]) Push(v T, name string, priority int, now time.Time) {
	f := s.flow(name)
	if f.Len() == 0 {
		f.had = max(f.had, s.now)
		s.waiting = append(s.waiting, f)
	}
	f.Push(v, priority, now)
	s.count++
}

func (s *Shares[T]) flow(name string) *flow[T] {
	f := s.flows[name]
	if f != nil {
		return f
	}
	f = &flow[T]{name: name, weight: 1}
	if s.Weight != nil {
		f.weight = float64(max(1, s.Weight(name)))
	}
	if s.flows == nil {
		s.flows = map[string]*flow[T]{}
	}
	s.sweep()
	s.flows[name] = f
	return f
}

// sweep forgets the flows that neither wait nor have had more than others.
func (s *Shares[T]) sweep() {
	if len(s.flows) < s.crowded {
		return
	}
	for name, f := range s.flows {
		if f.Len() == 0 && f.had <= s.now {
			delete(s.flows, name)
		}
	}
	s.crowded = 2*len(s.flows) + 16
}

// Pop takes the most urgent item of the flow that has had least; ok is false when nothing is queued.
func (s *Shares[T]) Pop() (v T, ok bool) {
	var next *flow[T]
	for _, f := range s.waiting {
		if next == nil || cmp.Or(cmp.Compare(f.had, next.had), cmp.Compare(f.name, next.name)) < 0 {
			next = f
		}
	}
	if next == nil {
		return v, false
	}
	s.now = max(s.now, next.had)
	v, ok = next.Pop()
	s.took(next)
	return v, ok
}

// took notes that an item has left a flow, and what it will probably get.
func (s *Shares[T]) took(f *flow[T]) {
	s.count--
	f.had += f.guess / f.weight
	if f.Len() > 0 {
		return
	}
	for i, w := range s.waiting {
		if w == f {
			last := len(s.waiting) - 1
			s.waiting[i], s.waiting[last] = s.waiting[last], nil
			s.waiting = s.waiting[:last]
			return
		}
	}
}

// Charge tells for how long an item of a flow was served that Pop or PopHighest has given.
func (s *Shares[T]) Charge(name string, served time.Duration) {
	f := s.flows[name]
	if f == nil {
		return
	}
	took := served.Seconds()
	f.had = min(f.had+(took-f.guess)/f.weight, s.now+MostDebt.Seconds())
	f.guess += (took - f.guess) / 8
	if len(s.waiting) == 0 { // nobody was kept waiting by it
		s.now = max(s.now, f.had)
	}
}

// Highest is the priority of the items that are most urgent if neither waiting nor shares count; ok is false when nothing is queued.
func (s *Shares[T]) Highest() (priority int, ok bool) {
	for _, f := range s.waiting {
		if p, some := f.Highest(); some && (!ok || p < priority) {
			priority, ok = p, true
		}
	}
	return priority, ok
}

// PopHighest takes the first of the items that Highest is about, of the flow that has had least of those with such items.
func (s *Shares[T]) PopHighest() (v T, ok bool) {
	priority, ok := s.Highest()
	var next *flow[T]
	for _, f := range s.waiting {
		if p, some := f.Highest(); some && p == priority && (next == nil || cmp.Or(cmp.Compare(f.had, next.had), cmp.Compare(f.name, next.name)) < 0) {
			next = f
		}
	}
	if next == nil {
		return v, ok
	}
	v, ok = next.PopHighest()
	s.took(next)
	return v, ok
}

// Len is how many items are queued.
func (s *Shares[T]) Len() int { return s.count }

// Flows is how many flows are kept in mind.
func (s *Shares[T]) Flows() int { return len(s.flows) }

// MaxWeight bounds the weight of a flow.
const MaxWeight = 1000

// Weights reads shares, and gives the weight of each flow. Those that are not named have 1.
func Weights(shares []string) (func(flow string) int, error) {
	weights := map[string]int{}
	for _, text := range shares {
		name, weight, err := ParseShare(text)
		if err != nil {
			return nil, err
		}
		weights[name] = weight
	}
	return func(flow string) int { return cmp.Or(weights[flow], 1) }, nil
}

// Reserved reads reserved shares, and gives the part of all, from 0 to 1, that each flow has.
func Reserved(shares []string) (map[string]float64, error) {
	reserved, sum := map[string]float64{}, 0.0
	for _, text := range shares {
		name, percent, err := ParseReserved(text)
		if err != nil {
			return nil, err
		}
		if _, there := reserved[name]; there {
			return nil, fmt.Errorf("%q: a share is reserved for %s twice", text, name)
		}
		if sum += percent; sum > 100+1e-9 {
			return nil, fmt.Errorf("%q: the reserved shares are %s%% together; what they are parts of is 100%%", text, strconv.FormatFloat(sum, 'f', -1, 64))
		}
		reserved[name] = percent / 100
	}
	return reserved, nil
}

// ParseReserved reads a reserved share as people write it: "team 70%".
func ParseReserved(text string) (name string, percent float64, err error) {
	name, n, found := strings.Cut(strings.TrimSpace(text), " ")
	n, isPart := strings.CutSuffix(strings.TrimSpace(n), "%")
	percent, err = strconv.ParseFloat(n, 64)
	if !found || !isPart || err != nil || !(percent > 0 && percent <= 100) {
		return "", 0, fmt.Errorf("%.100q reserves no share: write a namespace and its part, above 0 and at most 100%%: team 70%%", text)
	}
	return name, percent, nil
}

// ParseShare reads the weight of a flow as people write it: "team 3".
func ParseShare(text string) (name string, weight int, err error) {
	name, n, found := strings.Cut(strings.TrimSpace(text), " ")
	weight, err = strconv.Atoi(strings.TrimSpace(n))
	if !found || err != nil || weight < 1 || weight > MaxWeight {
		return "", 0, fmt.Errorf("%.100q is no share: write a namespace and its weight, from 1 to %d: team 3", text, MaxWeight)
	}
	return name, weight, nil
}
