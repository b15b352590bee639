package why

import (
	"encoding/json"
	"fmt"
	"strings"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// culprit is the call whose error ended the program. passed says that the exception is the call's own; otherwise
// the program made another one of it.
func (c *inquiry) culprit(message string) (failed *history.Call, passed bool) {
	for i := range c.calls {
		call := &c.calls[i]
		if call.Err == nil || failed != nil && call.ResultSeq < failed.ResultSeq {
			continue
		}
		text := string(call.Err.Code) + ": " + call.Err.Message()
		if before, hint, found := strings.Cut(message, text); found { // an older version may have said the hint in other words
			hinted := call.Err.Hint != "" && (strings.HasPrefix(hint, " (") || strings.HasPrefix(hint, "\n(")) && strings.HasSuffix(hint, ")")
			failed, passed = call, strings.Index(message, ": ")+2 == len(before) && (hint == "" || hinted)
		} else if m := call.Err.Message(); len(m) > 3 && strings.Contains(message, m) {
			failed, passed = call, false
		}
	}
	return failed, passed
}

// before mentions a call that failed just before the end, where the exception does not.
func (c *inquiry) before() string {
	var last *history.Call
	for i := range c.calls {
		if call := &c.calls[i]; !call.Open() && (last == nil || call.ResultSeq > last.ResultSeq) {
			last = call
		}
	}
	if last == nil || last.Err == nil {
		return ""
	}
	c.cause.Call = ref(last)
	first, _ := cutWords(last.Err.Message())
	return fmt.Sprintf("; just before, %s (call %d) had failed: %s", last.Name(), last.Number, first)
}

// where says where the program stood: " (f.py line 3, in work: return fail())".
func (c *inquiry) where() string {
	if at := strings.TrimPrefix(c.at(), "; "); at != "" {
		return " (" + at + ")"
	}
	return ""
}

func (c *inquiry) at() string {
	l := c.cause.Line
	if l == nil {
		return ""
	}
	text := "; " + l.place()
	if l.Function != "" {
		text += ", in " + l.Function
	}
	if l.Source != "" {
		text += ": " + cut(l.Source, 80)
	}
	return text
}

// number is "call 9 of 14".
func (c *inquiry) number(call *history.Call) string {
	return fmt.Sprintf("call %d of %d", call.Number, c.cause.Calls)
}

// lastStderr is the last line on standard error.
func (c *inquiry) lastStderr() string { return LastWords(c.in.Entries) }

// LastWords is the last line that a journal has of what a program wrote to standard error.
func LastWords(entries []agentkernel.Entry) string {
	for i := len(entries) - 1; i >= 0; i-- {
		e := &entries[i]
		var text string
		if e.Kind != agentkernel.EntryOutput || e.Stream != "stderr" || json.Unmarshal(e.Data, &text) != nil {
			continue
		}
		text = strings.TrimSpace(text)
		return cut(text[strings.LastIndexByte(text, '\n')+1:], 200)
	}
	return ""
}
