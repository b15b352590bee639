package template

import (
	"maps"
	"slices"
	"strings"
)

// expression is arithmetic as Python source. Only what parseExpression knows gets into it.
type expression struct {
	source     string
	math       map[string]bool // names of the module math
	calculates bool            // an operator or a function: a number alone is no task
}

func (e *expression) imports() []string { return slices.Sorted(maps.Keys(e.math)) }

// spoken are operators in words, as what they mean. What may reach further than one number ("square root of 16 + 9") counts only alone.
var spoken = []struct {
	re   *pattern
	with string
}{
	{whole(num + ` ?(?:%|percent) of ` + num), "$1 / 100 * $2"},
	{whole(`(?:the )?square root of ` + num), "sqrt($1)"},
	{compile(`(?i) (?:multiplied by|times) `), " * "},
	{compile(`(?i) divided by `), " / "},
	{compile(`(?i) plus `), " + "},
	{compile(`(?i) minus `), " - "},
	{compile(`(\d) ?[x×] ?(\d)`), "$1 * $2"},
	{compile(`÷`), "/"},
	{compile(`−`), "-"},
	{compile(`\^`), "**"},
}

// functions that an expression may use, and whether Python has them in module math. No log, which has two bases, no sin, which has
// degrees and radians, and no round, of which Python has another idea than schools.
var functions = map[string]bool{"sqrt": true, "log10": true, "log2": true, "floor": true, "ceil": true, "abs": false, "min": false, "max": false}

var lexeme = compile(`^(?:((?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)|([A-Za-z][A-Za-z0-9]*)|(\*\*|//|[-+*/%(),]))`)

// parseExpression reads arithmetic in Python's notation, the words of spoken included. The grammar is
// checked by alternation: a value, an operator, a value ...; brackets must close.
func parseExpression(text string) (*expression, bool) {
	for _, s := range spoken {
		text = s.re.ReplaceAllString(text, s.with)
	}
	p := &parser{rest: text, e: &expression{math: map[string]bool{}}}
	for p.skip(); p.rest != ""; p.skip() {
		if !p.step() {
			return nil, false
		}
	}
	if len(p.open) > 0 || p.wantValue {
		return nil, false
	}
	p.e.source = strings.TrimSpace(p.out.String())
	return p.e, p.e.source != ""
}

type parser struct {
	rest      string
	out       strings.Builder
	e         *expression
	open      []string // brackets: "" or the name of a function
	wantValue bool     // an operator stood last
	hasValue  bool     // a value stood last
}

func (p *parser) skip() { p.rest = strings.TrimLeft(p.rest, " ") }

func (p *parser) step() bool {
	m := lexeme.FindStringSubmatch(p.rest)
	if m == nil {
		return false
	}
	p.rest = p.rest[len(m[0]):]
	switch {
	case m[1] != "":
		return p.number(m[1])
	case m[2] != "":
		return p.name(strings.ToLower(m[2]))
	}
	return p.operator(m[3])
}

func (p *parser) value(source string) bool {
	if p.hasValue {
		return false
	}
	p.hasValue, p.wantValue = true, false
	p.out.WriteString(source)
	return true
}

func (p *parser) number(text string) bool {
	if len(p.open) > 0 && p.open[len(p.open)-1] != "" && strings.Contains(text, ",") {
		return false // 1,234 may be one argument or two
	}
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(text), "e")
	n, ok := number(mantissa)
	if !ok {
		return false
	}
	source := n.String()
	if hasExponent {
		source += "e" + exponent
	}
	return p.value(source)
}

func (p *parser) name(word string) bool {
	inMath, ok := functions[word]
	p.skip()
	if !ok || p.hasValue || !strings.HasPrefix(p.rest, "(") {
		return false
	}
	if inMath {
		p.e.math[word] = true
	}
	p.rest = p.rest[1:]
	p.open = append(p.open, word)
	p.wantValue, p.e.calculates = true, true
	p.out.WriteString(word + "(")
	return true
}

func (p *parser) operator(sign string) bool {
	switch sign {
	case "(":
		if p.hasValue {
			return false
		}
		p.open = append(p.open, "")
		p.wantValue = true
		p.out.WriteString("(")
		return true
	case ")":
		if len(p.open) == 0 || !p.hasValue {
			return false
		}
		p.open = p.open[:len(p.open)-1]
		p.out.WriteString(")")
		return true
	case ",":
		if len(p.open) == 0 || p.open[len(p.open)-1] == "" || !p.hasValue {
			return false
		}
		p.hasValue, p.wantValue = false, true
		p.out.WriteString(", ")
		return true
	case "-", "+":
		if !p.hasValue { // a sign
			p.wantValue = true
			p.out.WriteString(sign)
			return true
		}
	}
	if !p.hasValue {
		return false
	}
	p.hasValue, p.wantValue, p.e.calculates = false, true, true
	p.out.WriteString(" " + sign + " ")
	return true
}
