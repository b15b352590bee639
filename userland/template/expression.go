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

// spoken are operators in words, and forms that read backwards, as what they mean.
var spoken = []struct {
	re   *pattern
	with string
}{
	{compile(`(?i)` + num + ` ?(?:%|percent) of `), "$1 / 100 * "},
	{compile(`(?i)\b(?:the )?square root of (\d[\d.,]*)`), "sqrt($1)"},
	{compile(`(?i)\b(?:the )?square root of \(`), "sqrt("},
	{compile(`(?i)\b(?:the )?factorial of (\d+)`), "factorial($1)"},
	{compile(`(\d+)!`), "factorial($1)"},
	{compile(`(?i) (?:raised )?to the power(?: of)? `), " ** "},
	{compile(`(?i) squared\b`), " ** 2"},
	{compile(`(?i) cubed\b`), " ** 3"},
	{compile(`(?i) (?:multiplied by|times) `), " * "},
	{compile(`(?i) (?:divided by|over) `), " / "},
	{compile(`(?i) (?:modulo|mod) `), " % "},
	{compile(`(?i) plus `), " + "},
	{compile(`(?i) minus `), " - "},
	{compile(`(\d) ?[x×] ?(\d)`), "$1 * $2"},
	{compile(`÷`), "/"},
	{compile(`−`), "-"},
	{compile(`\^`), "**"},
}

// functions that an expression may use: as they are written, as Python has them, and whether in module math.
var functions = map[string]struct {
	python string
	math   bool
}{
	"sqrt": {"sqrt", true}, "factorial": {"factorial", true}, "gcd": {"gcd", true}, "lcm": {"lcm", true},
	"sin": {"sin", true}, "cos": {"cos", true}, "tan": {"tan", true}, "exp": {"exp", true},
	"log": {"log", true}, "ln": {"log", true}, "log10": {"log10", true}, "log2": {"log2", true},
	"floor": {"floor", true}, "ceil": {"ceil", true}, "hypot": {"hypot", true},
	"abs": {"abs", false}, "round": {"round", false}, "min": {"min", false}, "max": {"max", false}, "pow": {"pow", false},
}

var constants = map[string]string{"pi": "pi", "tau": "tau", "e": "e"}

var lexeme = compile(`^(?:((?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)|([A-Za-z][A-Za-z0-9]*)|(\*\*|//|[-+*/%(),]))`)

// maxFactorial keeps an answer readable.
const maxFactorial = 1500

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
		// In the arguments of a function a comma separates them.
		first, others, _ := strings.Cut(text, ",")
		p.rest, text = ","+others+p.rest, first
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
	if c, ok := constants[word]; ok {
		p.e.math[c], p.e.calculates = true, true
		return p.value(c)
	}
	f, ok := functions[word]
	p.skip()
	if !ok || p.hasValue || !strings.HasPrefix(p.rest, "(") {
		return false
	}
	if f.python == "factorial" && !p.smallFactorial() {
		return false
	}
	if f.math {
		p.e.math[f.python] = true
	}
	p.rest = p.rest[1:]
	p.open = append(p.open, f.python)
	p.wantValue, p.e.calculates = true, true
	p.out.WriteString(f.python + "(")
	return true
}

var factorialArgument = compile(`^\( ?(\d{1,4}) ?\)`)

// smallFactorial looks ahead: the argument must be a whole number that is not too large.
func (p *parser) smallFactorial() bool {
	m := factorialArgument.FindStringSubmatch(p.rest)
	if m == nil {
		return false
	}
	n, err := atMost(m[1], maxFactorial)
	return err == nil && n >= 0
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
