package why

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"agentkernel"
)

// The phrases with which internal/tool hands on what a server said before it died.
var wordMarks = []string{"; its stderr ends with:\n", "; it printed to stdout:\n"}

// cutWords takes a server's last words off a message.
func cutWords(message string) (first, words string) {
	at := len(message)
	var mark string
	for _, m := range wordMarks {
		if i := strings.Index(message, m); i >= 0 && i < at {
			at, mark = i, m
		}
	}
	return oneLine(message[:at]), strings.TrimSpace(message[min(at+len(mark), len(message)):])
}

// lastWords quotes the end of them.
func lastWords(words string) string {
	if words == "" {
		return ""
	}
	lines := strings.Split(words, "\n")
	return fmt.Sprintf("; its last words: %q", cut(strings.TrimSpace(lines[len(lines)-1]), 120))
}

// afterColon is the reason in "x may or may not have happened: reason".
func afterColon(message string) string {
	if _, reason, ok := strings.Cut(message, ": "); ok {
		return reason
	}
	return message
}

func between(s, open, end string) string {
	_, s, ok := strings.Cut(s, open)
	s, _, closed := strings.Cut(s, end)
	if !ok || !closed {
		return ""
	}
	return s
}

func firstLine(s string) string { line, _, _ := strings.Cut(s, "\n"); return line }

func oneLine(s string) string { return cut(strings.Join(strings.Fields(s), " "), 300) }

// cut shortens text to limit characters, between two words where there are any.
func cut(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	s = string([]rune(s)[:limit-1])
	if i := strings.LastIndexByte(s, ' '); i > len(s)/2 {
		s = s[:i]
	}
	return s + "…"
}

func count(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// seconds is the length of a sleep.
func seconds(args json.RawMessage) (time.Duration, bool) {
	var a struct{ Seconds float64 }
	if json.Unmarshal(args, &a) != nil || a.Seconds < 0 || a.Seconds > math.MaxInt64/2/float64(time.Second) {
		return 0, false
	}
	return time.Duration(a.Seconds * float64(time.Second)), true
}

func childOf(args json.RawMessage) agentkernel.PID {
	var a struct{ PID agentkernel.PID }
	if json.Unmarshal(args, &a) != nil {
		return 0
	}
	return a.PID
}
