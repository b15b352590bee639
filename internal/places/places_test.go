package places

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPlacesAreFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1, "x")
		turn := func(limit time.Duration) *Turn {
			return p.Turn("", time.Time{}, limit, func(ctx context.Context) error { return ctx.Err() })
		}
		first := turn(0)
		for range 2 {
			if !first.Ready() {
				t.Fatal("there is no place")
			}
		}
		order := make(chan int, 10)
		var turns []*Turn
		for i := range 5 { // in the order in which they ask, whenever they come to wait
			turns = append(turns, turn(map[bool]time.Duration{true: time.Second}[i == 2]))
			if turns[i].Ready() {
				t.Fatal("there is a place too many")
			}
		}
		for i := range turns {
			turn := turns[len(turns)-1-i]
			n := len(turns) - 1 - i
			go func() {
				if err := turn.Wait(t.Context()); err != nil {
					order <- -n
					return
				}
				order <- n
				turn.Drop()
			}()
			synctest.Wait()
		}
		<-time.After(2 * time.Second)
		first.Drop()
		synctest.Wait()
		var got []int
		for range 5 {
			got = append(got, <-order)
		}
		if fmt.Sprint(got) != "[-2 0 1 3 4]" {
			t.Errorf("order %v", got)
		}
		if !turn(0).Ready() || p.free != 0 {
			t.Error("a place was lost")
		}
	})
}

// TestTurn: a call has a place once, says for what it waits, and may give it back as often as it likes.
func TestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1, `server "x"`)
		late := errors.New("late")
		turn := func() *Turn {
			return p.Turn("", time.Time{}, time.Minute, func(ctx context.Context) error {
				var up *TimeUp
				if errors.As(context.Cause(ctx), &up) && up.After == time.Minute {
					return late
				}
				return ctx.Err()
			})
		}
		first, second, third := turn(), turn(), turn()
		if !first.Ready() || second.Ready() || second.Waiting() == "" {
			t.Fatal("who may go at once")
		}
		ended := make(chan error, 2)
		go func() { ended <- second.Wait(t.Context()) }()
		synctest.Wait()
		<-time.After(2100 * time.Millisecond)
		if says := second.Waiting(); says != `queued 2.1 s: a call of server "x" under way` {
			t.Error(says)
		}
		first.Drop()
		first.Drop()
		if err := <-ended; err != nil || second.Waited() != 2100*time.Millisecond || second.Waiting() != "" || p.free != 0 {
			t.Errorf("%v after %s, %q", err, second.Waited(), second.Waiting())
		}
		if err := third.Wait(t.Context()); !errors.Is(err, late) {
			t.Error(err)
		}
		if third.Drop(); p.free != 0 || len(p.flows) != 0 { // it has none
			t.Error("there is a place that is not there")
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- third.Wait(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if fourth := turn(); fourth.Ready() { // who does not wait after all is passed over
			t.Error("there is a place too many")
		} else {
			fourth.Drop()
		}
		if second.Drop(); p.free != 1 || len(p.flows) != 0 {
			t.Error("the place is lost")
		}
	})
}

// TestNoPlaceIsLost: whatever gives up when, there are never more under way than places, and all are free at the end.
func TestNoPlaceIsLost(t *testing.T) {
	p := New(3, "x")
	var all sync.WaitGroup
	under := make(chan struct{}, 3)
	for i := range 200 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*100*time.Microsecond)
			defer cancel()
			turn := p.Turn("", time.Time{}, 0, func(ctx context.Context) error { return ctx.Err() })
			if i%3 > 0 {
				_ = turn.Ready()
			}
			if turn.Wait(ctx) != nil {
				return
			}
			defer turn.Drop()
			select {
			case under <- struct{}{}:
			default:
				t.Error("more are under way than there are places")
			}
			<-under
		})
	}
	all.Wait()
	if p.free != 3 || len(p.flows) != 0 {
		t.Errorf("%d places are free, and %d wait", p.free, len(p.flows))
	}
}

// grants lets all that waits have the one place, one after the other, and gives their names in that order.
func grants(t *testing.T, has *Turn, waiting map[string]*Turn) (order []string) {
	t.Helper()
	for has.Drop(); len(waiting) > 0; has.Drop() {
		before := len(order)
		for name, turn := range waiting {
			if turn.places.mu.Lock(); turn.has {
				order, has = append(order, name), turn
				delete(waiting, name)
			}
			turn.places.mu.Unlock()
		}
		if len(order) != before+1 {
			t.Fatalf("%d have a place after %v", len(order)-before, order)
		}
	}
	return order
}

// TestOrder: of a flow those go first whose call was made first, whenever they come; flows take turns, however many wait of each.
func TestOrder(t *testing.T) {
	p := New(1, "x")
	made := time.Now()
	waiting := map[string]*Turn{}
	add := func(flow, name string, after int) {
		waiting[name] = p.Turn(flow, made.Add(time.Duration(after)), 0, nil)
		if waiting[name].Ready() {
			t.Fatal("there is a place too many")
		}
	}
	has := p.Turn("a", made, 0, nil)
	if !has.Ready() {
		t.Fatal("there is no place")
	}
	add("a", "a3", 3)
	add("a", "a5", 5)
	add("a", "a1", 1) // it was held back
	add("a", "a5, too", 5)
	add("a", "a4", 4)
	add("b", "b9", 9)
	add("b", "b8", 8)
	add("c", "c2", 2)
	if got := fmt.Sprint(grants(t, has, waiting)); got != "[a1 b8 c2 a3 b9 a4 a5 a5, too]" {
		t.Error(got)
	}
	if p.free != 1 || len(p.flows) != 0 {
		t.Errorf("%d places are free, and %d flows wait", p.free, len(p.flows))
	}
}

// TestJoin: who has joined and is not ready keeps a free place from those of its flow that were made later, until it is ready, or gives up.
func TestJoin(t *testing.T) {
	p := New(1, "x")
	made := time.Now()
	turn := func(flow string, after int) *Turn {
		return p.Turn(flow, made.Add(time.Duration(after)), 0, func(ctx context.Context) error { return ctx.Err() })
	}
	first, second, earlier := turn("a", 1), turn("a", 2), turn("a", 0)
	if first.Join(); second.Ready() || first.Waiting() == "" {
		t.Fatal("the second goes before the first")
	}
	other := turn("b", 3)
	if !other.Ready() {
		t.Fatal("who is not ready keeps the place from others")
	}
	if other.Drop(); !earlier.Ready() {
		t.Fatal("a later one keeps the place from an earlier one")
	}
	if earlier.Drop(); !first.Ready() {
		t.Fatal("it is ready, and has no place")
	}
	first.Drop()
	second.Drop()

	first, second = turn("a", 1), turn("a", 2)
	first.Join()
	second.Ready()
	if first.Drop(); !second.Ready() {
		t.Fatal("one that has left keeps a place from others")
	}
	second.Drop()

	first, second = turn("a", 1), turn("a", 2)
	has := turn("a", 0)
	has.Ready()
	first.Ready()
	second.Ready()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if first.Wait(ctx) == nil {
		t.Error("it has a place")
	}
	if has.Drop(); !second.Ready() {
		t.Error("one that gave up keeps a place from others")
	}
	if second.Drop(); p.free != 1 || len(p.flows) != 0 {
		t.Errorf("%d places are free, and %d flows wait", p.free, len(p.flows))
	}
}
