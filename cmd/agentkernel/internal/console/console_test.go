package console

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func terminal(screen *strings.Builder) *Console {
	return New(Config{Out: screen, Err: screen, OutTTY: true, ErrTTY: true, Width: func() int { return 40 }})
}

func TestSpinnerAppearsAfterASecondAndIsErased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen strings.Builder
		c := terminal(&screen)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { c.Spin(ctx, func(context.Context) string { return "waiting for a.b" }); close(done) }()

		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		if got := c.snapshot(&screen); got != "" {
			t.Errorf("before a second of silence: %q", got)
		}
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		if got := c.snapshot(&screen); !strings.Contains(got, "1s · waiting for a.b") {
			t.Errorf("after a second: %q", got)
		}
		c.Out("text\n")
		if got := c.snapshot(&screen); !strings.HasSuffix(got, "\r\x1b[Ktext\n") {
			t.Errorf("the line was not erased before output: %q", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		cancel()
		<-done
		if got := c.snapshot(&screen); !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("the line stayed on the screen: %q", got)
		}
	})
}

func (c *Console) snapshot(screen *strings.Builder) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return screen.String()
}

func TestNoProgressInPipesQuestionsOrUnfinishedLines(t *testing.T) {
	var screen strings.Builder
	New(Config{Out: &screen, Err: &screen}).Progress("x")
	New(Config{Out: &screen, Err: &screen, ErrTTY: true, Quiet: true}).Progress("x")
	if screen.Len() > 0 {
		t.Errorf("a pipe or a quiet terminal got %q", screen.String())
	}
	c := terminal(&screen)
	c.Out("loading...")
	before := screen.String()
	c.Progress("x")
	if screen.String() != before {
		t.Errorf("drawn into an unfinished line: %q", screen.String())
	}
	done := c.Prompt("sure? ", nil)
	before = screen.String()
	c.Progress("x")
	if screen.String() != before {
		t.Errorf("drawn into a question: %q", screen.String())
	}
	done()
	c.Progress("x")
	if !strings.HasSuffix(screen.String(), "x") {
		t.Errorf("not drawn after the answer: %q", screen.String())
	}
}

func TestNotesStartOnTheirOwnLine(t *testing.T) {
	var screen strings.Builder
	c := terminal(&screen)
	c.Out("no line end")
	c.Note("receipt")
	c.Error("message", "do this")
	if want := "no line end\nreceipt\nerror: message\nhint: do this\n"; screen.String() != want {
		t.Errorf("%q, want %q", screen.String(), want)
	}
}

func TestNobodyElseMovesTheCursor(t *testing.T) {
	var screen strings.Builder
	c := terminal(&screen)
	c.Note("process 1 waits for %s", "a\x1b[2Jb")
	c.Error("bad\x9b31m\rname", "hint\x07")
	screen.WriteString(Table([][]string{{"NAME"}, {"two\nlines \x1b]0;title\x07"}}))
	if strings.ContainsAny(screen.String(), "\x1b\x07\r\u009b") || strings.Count(screen.String(), "\n") != 5 {
		t.Errorf("%q", screen.String())
	}
}

func TestColours(t *testing.T) {
	cases := []struct {
		cfg  Config
		want string
	}{
		{Config{ErrTTY: true, Color: true}, "\x1b[2mn\x1b[0m\n\x1b[31;1merror: \x1b[0mm\n"},
		{Config{ErrTTY: true}, "n\nerror: m\n"},
		{Config{Color: true}, "n\nerror: m\n"},
		{Config{Quiet: true}, "error: m\n"},
	}
	for _, tc := range cases {
		var b strings.Builder
		tc.cfg.Err, tc.cfg.Out = &b, &b
		c := New(tc.cfg)
		c.Note("n")
		c.Error("m", "")
		if b.String() != tc.want {
			t.Errorf("%+v: %q, want %q", tc.cfg, b.String(), tc.want)
		}
	}
}

type closedPipe struct{ writes int }

func (p *closedPipe) Write([]byte) (int, error) { p.writes++; return 0, errors.New("broken pipe") }

func TestOutputToAClosedPipeIsDropped(t *testing.T) {
	p := &closedPipe{}
	c := New(Config{Out: p, Err: p})
	c.Out("a")
	c.Out("b")
	if p.writes != 1 || c.Broken() == nil {
		t.Errorf("%d writes, error %v", p.writes, c.Broken())
	}
}

func TestTable(t *testing.T) {
	got := Table([][]string{{"PID", "NAME", "X"}, {"1", "ä", "y"}, {"1000", "long name", ""}}, 0)
	want := " PID  NAME       X\n   1  ä          y\n1000  long name\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{-1: "0s", 5 * time.Second: "5s", 90 * time.Second: "90s", 10 * time.Minute: "10m", 3 * time.Hour: "3h", 100 * time.Hour: "4d"} {
		if got := Age(d); got != want {
			t.Errorf("Age(%v) = %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{850 * time.Microsecond: "850 µs", 3200 * time.Microsecond: "3.2 ms", 14 * time.Millisecond: "14 ms", 1200 * time.Millisecond: "1.2 s", 185 * time.Second: "3m5s"} {
		if got := Span(d); got != want {
			t.Errorf("Span(%v) = %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int64]string{214: "214 B", 3400: "3.4 kB", 12_000: "12 kB", 1_500_000: "1.5 MB", 12e6: "12 MB", 3e9: "3.0 GB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %s, want %s", n, got, want)
		}
	}
}

// Nothing can be erased on a dumb terminal, so no progress is drawn there.
func TestNoProgressOnADumbTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen strings.Builder
		c := New(Config{Out: &screen, Err: &screen, OutTTY: true, ErrTTY: true, Dumb: true})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { c.Spin(ctx, func(context.Context) string { return "waiting" }); close(done) }()
		time.Sleep(3 * time.Second)
		c.Progress("building")
		cancel()
		<-done
		c.Note("done")
		if got := screen.String(); got != "done\n" {
			t.Errorf("%q", got)
		}
	})
}
