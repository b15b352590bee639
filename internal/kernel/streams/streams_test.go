package streams_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/streams"
	"agentkernel/internal/sys"
)

// counting is a stream of numbers up to last; then it fails with err, or ends.
type counting struct {
	n, last int
	err     error
	delay   time.Duration
	closed  int
}

func (c *counting) Next(ctx context.Context) (sys.Items, error) {
	select {
	case <-time.After(c.delay):
	case <-ctx.Done():
		return sys.Items{}, ctx.Err()
	}
	if c.n == c.last {
		return sys.Items{}, c.err
	}
	c.n++
	return sys.Items{List: []json.RawMessage{json.RawMessage(fmt.Sprint(c.n)), json.RawMessage(`"x"`)}, Settle: agentkernel.Amounts{"coins": 1}}, nil
}

func (c *counting) Close() { c.closed++ }

func open(r *streams.Registry, pid agentkernel.PID, call int64, s sys.Stream, committed bool) string {
	out := sys.Outcome{Stream: s}
	r.Open(pid, call, &out)
	out.Done(committed)
	var handle string
	_ = json.Unmarshal(out.Result, &handle)
	return handle
}

func at(f func()) bool { f(); return true }

// TestWhatNoJournalHasIsGivenAgain: an answer that nobody waited for is not lost, and is paid once.
func TestWhatNoJournalHasIsGivenAgain(t *testing.T) {
	r, s := streams.New(at, nil), &counting{last: 2}
	of := streams.Of{Registry: r, PID: 7}
	h := open(r, 7, 3, s, true)
	if h != "7.3" {
		t.Errorf("the handle is %q", h)
	}
	for _, c := range []struct {
		committed bool
		want      string
	}{{true, `[1,"x"] 1 coins`}, {false, `[2,"x"] 1 coins`}, {false, `[2,"x"] nothing`}, {true, `[2,"x"] nothing`}, {false, `[] nothing`}, {true, `[] nothing`}} {
		out, isOpen, err := of.Next(t.Context(), h)
		if got := fmt.Sprintf("%s %s", out.Result, out.Settle); got != c.want || !isOpen || err != nil {
			t.Errorf("%s %v %v, want %s", got, isOpen, err, c.want)
		}
		out.Done(c.committed)
	}
	if _, isOpen, _ := of.Next(t.Context(), h); isOpen || s.closed != 1 || r.Count(7, nil) != 0 {
		t.Errorf("after its end it is open: %v, was closed %d times, counts %d", isOpen, s.closed, r.Count(7, nil))
	}
}

// TestOneAtATime: two calls on a stream get its items one after the other, and one that may wait no longer takes nothing.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := streams.New(at, nil)
		of := streams.Of{Registry: r, PID: 7}
		h := open(r, 7, 3, &counting{last: 9, delay: time.Second}, true)
		got := make(chan string, 3)
		next := func(patience time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			out, isOpen, err := of.Next(ctx, h)
			if err == nil {
				out.Done(true)
			}
			got <- fmt.Sprintf("%s %v %v", out.Result, isOpen, err)
		}
		go next(time.Millisecond)
		synctest.Wait()
		go next(time.Minute)
		synctest.Wait()
		go next(time.Minute)
		synctest.Wait()
		for _, want := range []string{" true context deadline exceeded", `[1,"x"] true <nil>`, `[2,"x"] true <nil>`} {
			if g := <-got; g != want {
				t.Errorf("%s, want %s", g, want)
			}
		}
	})
}

// TestNothingComesOfAnEndingProcess: neither of a call that waits while its streams are closed, nor of one that comes then.
func TestNothingComesOfAnEndingProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := streams.New(at, nil), &counting{delay: time.Second, err: errors.New("it was closed")}
		of := streams.Of{Registry: r, PID: 7}
		h := open(r, 7, 3, s, true)
		ctx, drop := context.WithCancel(t.Context())
		got := make(chan error)
		next := func() { _, _, err := of.Next(ctx, h); got <- err }
		go next()
		synctest.Wait()
		r.Finish(7)
		go next()
		time.Sleep(time.Minute)
		select {
		case err := <-got:
			t.Errorf("a call was told %v", err)
		default:
		}
		drop()
		for range 2 {
			if err := <-got; !errors.Is(err, context.Canceled) {
				t.Errorf("a call that was dropped: %v", err)
			}
		}
		if _, closes := of.Close(h); closes {
			t.Error("it was closed twice")
		}
		r.End(7, 0)
		if _, isOpen, _ := of.Next(t.Context(), h); isOpen || s.closed != 1 || r.Count(7, nil) != 0 {
			t.Errorf("after the end it is open: %v, was closed %d times, counts %d", isOpen, s.closed, r.Count(7, nil))
		}
	})
}

// TestFailures: a stream that fails says so once, with an error that is not about the call, and is closed.
func TestFailures(t *testing.T) {
	for err, want := range map[error]agentkernel.Code{
		errors.New("dead"): agentkernel.CodeUnavailable,
		agentkernel.Errorf(agentkernel.CodeTool, "x", "dead"):        agentkernel.CodeTool,
		agentkernel.Errorf(agentkernel.CodeInterrupted, "x", "dead"): agentkernel.CodeUnavailable,
		context.DeadlineExceeded:                                     agentkernel.CodeUnavailable,
	} {
		r, s := streams.New(at, nil), &counting{err: err}
		of := streams.Of{Registry: r, PID: 7}
		h := open(r, 7, 3, s, true)
		for range 2 { // the first answer is lost
			out, isOpen, got := of.Next(t.Context(), h)
			if agentkernel.CodeOf(got) != want || !isOpen || !out.Settled || errors.Is(got, context.DeadlineExceeded) {
				t.Errorf("%v: %v %v", err, got, isOpen)
			}
			out.Done(s.closed == 0 && r.Count(7, nil) == 1 && got == nil)
		}
		out, _, _ := of.Next(t.Context(), h)
		out.Done(true)
		if s.closed != 1 || r.Count(7, nil) != 0 {
			t.Errorf("%v: closed %d times", err, s.closed)
		}
	}
}

// TestEnd: what goes with an aborted cell, with a process, and with an opening that nobody waited for.
func TestEnd(t *testing.T) {
	r := streams.New(func(func()) bool { return false }, nil)
	all := []*counting{{}, {}, {}, {}}
	open(r, 7, 3, all[0], true)
	open(r, 7, 5, all[1], true)
	open(r, 8, 9, all[2], true)
	open(r, 8, 10, all[3], false)
	says := func(what, want string) {
		t.Helper()
		if got := fmt.Sprint(all[0].closed, all[1].closed, all[2].closed, all[3].closed, r.Count(7, nil), r.Count(8, nil)); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	says("an opening that nobody waited for", "0 0 0 1 2 1")
	r.End(7, 3)
	says("an abort", "0 1 0 1 1 1")
	r.End(7, 0)
	says("an end", "1 1 0 1 0 1")
	of := streams.Of{Registry: r, PID: 7}
	if _, open := of.Close("8.9"); open || of.Reserve("8.9") != nil || of.Waiting("8.9") != "" {
		t.Error("the stream of another process is open")
	}
	of.PID = 8
	ends, first := of.Close("8.9")
	if _, again := of.Close("8.9"); !first || again || ends.Call != 9 || ends.Used != nil {
		t.Errorf("a stream is closed twice, or not at all: %v", ends)
	}
	says("a close", "1 1 1 1 0 0")
}

// costing is a stream that says what it has used up: as much as it has given.
type costing struct{ counting }

func (c *costing) Next(ctx context.Context) (sys.Items, error) {
	items, err := c.counting.Next(ctx)
	if items.Ended = ctx.Err() == nil && len(items.List) == 0; items.Ended {
		items.Total = agentkernel.Amounts{"coins": int64(c.n)}
	}
	return items, err
}

func (c *costing) Settle() agentkernel.Amounts {
	c.Close()
	return agentkernel.Amounts{"coins": int64(c.n)}
}

func (c *costing) Waiting() string { return fmt.Sprintf("%d so far", c.n) }

// TestSettle: what a call has kept is settled with the answer that says that its stream has ended, as often as that is given, or
// when the stream is closed.
func TestSettle(t *testing.T) {
	for _, err := range []error{nil, errors.New("dead")} {
		r, s := streams.New(at, nil), &costing{counting{last: 1, err: err}}
		of := streams.Of{Registry: r, PID: 7}
		h := open(r, 7, 3, s, true)
		for i, want := range []string{"nothing", "3: 1 coins", "3: 1 coins"} {
			if i > 0 && of.Waiting(h) != "1 so far" {
				t.Errorf("it waits for %q", of.Waiting(h))
			}
			out, _, got := of.Next(t.Context(), h)
			says := "nothing"
			if out.Ends != nil {
				says = fmt.Sprintf("%d: %s", out.Ends.Call, out.Ends.Used)
			}
			if says != want || (got != nil) != (err != nil && i > 0) {
				t.Errorf("%v, answer %d: settles %s, want %s: %v", err, i, says, want, got)
			}
			out.Done(i != 1)
		}
		if s.closed != 1 {
			t.Errorf("%v: closed %d times", err, s.closed)
		}
	}
	r := streams.New(at, nil)
	all := []*costing{{counting{last: 9}}, {counting{last: 9}}, {counting{last: 9}}}
	for i, call := range []int64{11, 9, 3} { // by their texts 7.11 is before 7.9
		open(r, 7, call, all[i], true)
	}
	if out, _, err := (streams.Of{Registry: r, PID: 7}).Next(t.Context(), "7.9"); err != nil {
		t.Fatal(err)
	} else {
		out.Done(true)
	}
	if got := fmt.Sprint(r.End(7, 3)); got != "[{9 1 coins} {11 0 coins}]" || r.Count(7, nil) != 1 {
		t.Errorf("%s, %d are open", got, r.Count(7, nil))
	}
	if ends, open := (streams.Of{Registry: r, PID: 7}).Close("7.3"); !open || ends.Call != 3 || ends.Used.String() != "0 coins" || all[2].closed != 1 {
		t.Errorf("%v %v", ends, open)
	}
}
