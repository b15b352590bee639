package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/nearest"
	"agentkernel/internal/store/sqlite/binding"
)

// sqliteMessage is what SQLite says, without its word for the kind of error.
func sqliteMessage(err error) string {
	if e, ok := errors.AsType[*binding.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// pointAt makes the error for a statement that SQLite cannot compile: what is wrong, the line with a mark under the
// place, and what there is to ask.
func (c *conn) pointAt(statement, message string) error {
	text := message
	if at, length := c.place(statement, message); at >= 0 {
		text += "\n" + mark(statement, at, length)
	}
	e := agentkernel.Errorf(agentkernel.CodeInvalid, "sql", "%s", text)
	list, err := c.views()
	if err != nil {
		return err
	}
	hint := viewsText(list)
	if wrong, ok := strings.CutPrefix(message, "no such column: "); ok {
		if near := nearestColumns(lastPart(wrong), list); near != "" {
			hint = "did you mean " + near + "? " + hint
		}
	}
	return e.WithHint("%s", hint)
}

// place finds the word that a message speaks of; -1: it speaks of none.
func (c *conn) place(statement, message string) (at, length int) {
	if message == "incomplete input" {
		return len(strings.TrimRight(statement, " \t\r\n")), 1
	}
	tokens := scan(statement)
	if near, ok := strings.CutPrefix(message, `near "`); ok {
		near, _, _ = strings.Cut(near, `": `)
		for _, t := range tokens {
			// Of several such words the wrong one is that up to which the statement is wrong already.
			if statement[t.from:t.to] == near && c.fails(statement[:t.to], message) {
				return t.from, t.to - t.from
			}
		}
		return -1, 0
	}
	for _, kind := range []string{"no such column: ", "no such table: ", "no such function: ", "ambiguous column name: ", "wrong number of arguments to function "} {
		name, ok := strings.CutPrefix(message, kind)
		if !ok {
			continue
		}
		name = lastPart(strings.TrimSuffix(name, "()"))
		for _, t := range tokens {
			if !t.comment && strings.EqualFold(strings.Trim(statement[t.from:t.to], "\"`[]"), name) {
				return t.from, t.to - t.from
			}
		}
	}
	return -1, 0
}

func (c *conn) fails(statement, message string) bool {
	err := c.compile(statement)
	return err != nil && sqliteMessage(err) == message
}

func lastPart(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// mark writes the line of a statement in which at lies, and a mark under it.
func mark(statement string, at, length int) string {
	const around = 70 // of a long line only the part around the place is shown
	from := strings.LastIndexByte(statement[:at], '\n') + 1
	to := at + strings.IndexByte(statement[at:]+"\n", '\n')
	line, column := statement[from:to], at-from
	if cut := column - around; cut > 0 {
		for !utf8.RuneStart(line[cut]) {
			cut++
		}
		line, column = line[cut:], column-cut
	}
	if utf8.RuneCountInString(line) > 2*around {
		line = string([]rune(line)[:2*around])
	}
	before := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, line[:min(column, len(line))])
	under := line[min(column, len(line)):min(column+length, len(line))]
	return fmt.Sprintf("  %s\n  %s%s", line, before, strings.Repeat("^", max(utf8.RuneCountInString(under), 1)))
}

// nearestColumns are those that a misspelt column may mean.
func nearestColumns(wrong string, list []View) string {
	var names []string
	for _, v := range list {
		names = append(names, v.Columns...)
	}
	slices.Sort(names)
	return strings.Join(nearest.Names(strings.ToLower(wrong), slices.Compact(names)), ", ")
}
