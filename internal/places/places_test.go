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
			return p.Turn(limit, func(ctx context.Context) error { return ctx.Err() })
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
			return p.Turn(time.Minute, func(ctx context.Context) error {
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
		if third.Drop(); p.free != 0 || p.waiting.Len() != 0 { // it has none
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
		if second.Drop(); p.free != 1 || p.waiting.Len() != 0 {
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
			turn := p.Turn(0, func(ctx context.Context) error { return ctx.Err() })
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
	if p.free != 3 || p.waiting.Len() != 0 {
		t.Errorf("%d places are free, and %d wait", p.free, p.waiting.Len())
	}
}
