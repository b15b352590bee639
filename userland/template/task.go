package template

import (
	"strings"
)

// task is the text of a task, trimmed of what carries no meaning.
type task struct {
	text string // one line, without courtesies and final punctuation
	// folder says that its program works in a folder: what files it names are there, and need no tool.
	folder bool
}

var (
	courtesy = compile(`(?i)^(?:please|kindly|can you|could you|would you|i want you to|i want to|i'd like to|i would like to|i need to|let's|help me)[ ,]+`)
	thanks   = compile(`(?i)[ ,]+(?:please|for me|thanks|thank you)$`)
	// remark is how large a file is said to be: "sales.csv (10M rows)".
	remark = compile(`(?i) \(\d[\d.,]* ?[km]? (?:rows|lines|records)\)`)
)

func newTask(text string) task {
	text = strings.Join(strings.Fields(text), " ")
	for {
		short := strings.TrimRight(text, " .!?;")
		short = courtesy.ReplaceAllString(short, "")
		short = thanks.ReplaceAllString(short, "")
		if short == text {
			return task{text: text}
		}
		text = short
	}
}

// match is a case-insensitive match of the whole task; nil if there is none. The first element is the task.
func (t task) match(re *pattern) []string { return re.FindStringSubmatch(t.text) }

// whole compiles a pattern that must match all of a task, whatever its case.
func whole(pattern string) *pattern { return compile(`(?i)^(?:` + pattern + `)$`) }

// Parts of patterns that many recipes share.
const (
	// ask is what stands before the thing that is asked for.
	ask = `(?:(?:calculate|compute|evaluate|work out|determine|find|get|give me|show me|show|print|tell me|what is|what are|what's|how much is|solve)(?: the value of| the result of)? )?`
	num = `(-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)`
	whl = `(\d{1,3}(?:,\d{3})+|\d+)`
)

// plainNumber takes the thousands' commas off.
func plainNumber(s string) string { return strings.ReplaceAll(s, ",", "") }
