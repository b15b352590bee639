package why

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Line is a line of the user's own code.
type Line struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Until    int    `json:"until,omitempty"`    // it is one of the lines from Line to this, and nobody knows which; 0: it is Line
	Function string `json:"function,omitempty"` // "" at the top of a file
	Source   string `json:"source,omitempty"`
}

// userLine finds the innermost line of a Python traceback that is the user's: of the program or of a module that
// travels with it, as against the standard library of an interpreter. nil: none.
func userLine(traceback, program string) *Line {
	var last, users *Line
	lines := strings.Split(traceback, "\n")
	for i, text := range lines {
		l := frame(text)
		if l == nil {
			continue
		}
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ") {
			l.Source = strings.TrimSpace(lines[i+1])
		}
		last = l
		if l.File == program || !path.IsAbs(l.File) && !strings.HasPrefix(l.File, "<") {
			users = l
		}
	}
	if users != nil {
		return users
	}
	return last
}

// place is "report.py line 3", or "report.py lines 3-5".
func (l *Line) place() string {
	if l.Until != 0 {
		return fmt.Sprintf("%s lines %d-%d", l.File, l.Line, l.Until)
	}
	return fmt.Sprintf("%s line %d", l.File, l.Line)
}

// frame reads `  File "f.py", line 3, in work`, or `lines 3-5` in place of the line.
func frame(text string) *Line {
	rest, ok := strings.CutPrefix(text, `  File "`)
	if !ok {
		return nil
	}
	i := strings.LastIndex(rest, `", line`)
	if i < 0 {
		return nil
	}
	where := rest[i+len(`", line`):]
	numbers, function, _ := strings.Cut(where, ", in ")
	first, last, several := strings.Cut(strings.TrimPrefix(numbers, "s"), "-")
	n, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || several != strings.HasPrefix(numbers, "s") {
		return nil
	}
	until := 0
	if several {
		if until, err = strconv.Atoi(strings.TrimSpace(last)); err != nil {
			return nil
		}
	}
	if function == "<module>" {
		function = ""
	}
	return &Line{File: rest[:i], Line: n, Until: until, Function: function}
}
