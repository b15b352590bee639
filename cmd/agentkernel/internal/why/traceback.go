package why

import (
	"path"
	"strconv"
	"strings"
)

// Line is a line of the user's own code.
type Line struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
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

// frame reads `  File "f.py", line 3, in work`.
func frame(text string) *Line {
	rest, ok := strings.CutPrefix(text, `  File "`)
	if !ok {
		return nil
	}
	i := strings.LastIndex(rest, `", line `)
	if i < 0 {
		return nil
	}
	number, function, _ := strings.Cut(rest[i+len(`", line `):], ", in ")
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil {
		return nil
	}
	if function == "<module>" {
		function = ""
	}
	return &Line{File: rest[:i], Line: n, Function: function}
}
