package journal

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Diff shows where two canonical values first differ, in two or three lines for humans: what the journal
// has, what the program did, and a mark under the place.
func Diff(journalled, now json.RawMessage) string {
	a, b := string(journalled), string(now)
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	for at > 0 && (at < len(a) && !utf8.RuneStart(a[at]) || at < len(b) && !utf8.RuneStart(b[at])) {
		at--
	}
	from := max(0, at-40)
	for from > 0 && !utf8.RuneStart(a[from]) {
		from--
	}
	lead := ""
	if from > 0 {
		lead = "…"
	}
	mark := strings.Repeat(" ", utf8.RuneCountInString(lead+a[from:at]))
	return fmt.Sprintf("  journal: %s%s\n  program: %s%s\n           %s^", lead, cut(a[from:]), lead, cut(b[from:]), mark)
}

// Short cuts a value for a line of text.
func Short(raw json.RawMessage, limit int) string {
	s := string(raw)
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:limit], len(s))
}

func cut(s string) string { return Short(json.RawMessage(s), 100) }
