package tool

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// What docs/tools.md says of a server whose entry says nothing.
func TestDefaultsAreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{}.withDefaults()
	for name, want := range map[string]string{"timeout": fmt.Sprintf("%.0f s", c.CallTimeout.Seconds()), "startTimeout": fmt.Sprintf("%.0f s", c.StartTimeout.Seconds()),
		"concurrency": fmt.Sprint(c.Concurrency)} {
		_, row, _ := strings.Cut(string(page), "\n| `"+name+"` |")
		row, _, _ = strings.Cut(row, "\n")
		if !strings.HasSuffix(row, "| "+want+" |") {
			t.Errorf("%s is %s by default; docs/tools.md says%s", name, want, row)
		}
	}
	for _, say := range []string{fmt.Sprintf("waits %.0f s. One that answers", c.PingTimeout.Seconds()), fmt.Sprintf("answers with more than %d MiB", c.MaxMessage>>20),
		fmt.Sprintf("passed over, up to %d MiB between two messages", mostIdle>>20),
		fmt.Sprintf("with %d answers owed it is not read for up to %.0f s", maxOwed, answerPatience.Seconds()),
		fmt.Sprintf("after %s in a row", map[int]string{5: "five"}[maxFailures]), fmt.Sprintf("calls fail at once for %.0f s", coolDown.Seconds()),
		fmt.Sprintf("enumerations of more than %d values", maxLiterals),
		fmt.Sprintf("more than %d MiB or %d,%03d parts", maxCheckBytes>>20, maxCheckParts/1000, maxCheckParts%1000)} {
		if !strings.Contains(string(page), say) {
			t.Errorf("docs/tools.md does not say %q", say)
		}
	}
}

func TestBreaker(t *testing.T) {
	var b breaker
	now := time.Unix(0, 0)
	for i, want := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond} {
		b.fail(now, errors.New("x"))
		if pause, open := b.wait(now); pause != want || open {
			t.Errorf("after %d failures: %v %v", i+1, pause, open)
		}
		if pause, open := b.wait(now.Add(time.Second)); pause != 0 || open {
			t.Errorf("a second later: %v %v", pause, open)
		}
	}
	b.fail(now, errors.New("x"))
	if pause, open := b.wait(now.Add(time.Second)); pause != 29*time.Second || !open {
		t.Errorf("fifth failure: %v %v", pause, open)
	}
	now = now.Add(coolDown)
	if _, open := b.wait(now); open {
		t.Error("still open after the cool-down")
	}
	b.fail(now, errors.New("x"))
	if _, open := b.wait(now); !open {
		t.Error("not open after the trial failed")
	}
	b.ok()
	if pause, open := b.wait(now); pause != 0 || open {
		t.Error("not closed after an answer")
	}
}

func TestHeadAndTail(t *testing.T) {
	var buf []byte
	whole := strings.Repeat("h", 600) + strings.Repeat("m", 9000) + `,"id":17}` + "\n"
	for i := 0; i < len(whole); i += 700 {
		buf = headAndTail(buf, []byte(whole[i:min(i+700, len(whole))]))
	}
	if len(buf) > 2*edge || !strings.HasPrefix(string(buf), "hhh") || idAtEnd().FindSubmatch(buf) == nil {
		t.Errorf("%d bytes: %q", len(buf), buf[len(buf)-20:])
	}
}
