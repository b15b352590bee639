package template

import (
	"encoding/json"
	"strings"

	"agentkernel"
)

type regex = *pattern

// The words for what is made of several numbers, and the name of each in programs.
var reductions = map[string]string{
	"sum": "sum", "total": "sum", "add up": "sum", "add": "sum",
	"average": "mean", "mean": "mean", "avg": "mean", "median": "median",
	"minimum": "min", "min": "min", "smallest": "min", "lowest": "min", "least": "min",
	"maximum": "max", "max": "max", "largest": "max", "highest": "max", "biggest": "max", "greatest": "max",
	"product": "product", "multiply": "product",
	"standard deviation": "stdev", "stdev": "stdev",
	"count": "count", "number": "count",
	"greatest common divisor": "gcd", "gcd": "gcd", "least common multiple": "lcm", "lcm": "lcm",
}

// reductionWords is the alternation of the words that stand before "of" and a list of numbers.
const reductionWords = `sum|total|average|mean|avg|median|minimum|min|smallest|lowest|maximum|max|largest|highest|biggest|product|` +
	`standard deviation|stdev|greatest common divisor|gcd|least common multiple|lcm`

const numberList = `((?:-?\d[\d.,]*)(?:(?: ?,? and | ?, ?| )-?\d[\d.,]*)+)`

var (
	aggregateOf = whole(ask + `(?:the )?(` + reductionWords + `)(?: of)?(?: the)?(?: numbers)?(?: of)?:? ?[\[(]?` + numberList + `[\])]?`)
	addUp       = whole(`(add up|add|multiply)(?: the)?(?: numbers)?:? ?[\[(]?` + numberList + `[\])]?`)
	sumOfRange  = whole(ask + `(?:add up |add |sum up |the |sum )?(?:sum )?(?:of )?(?:all )?(?:the )?(?:integers |numbers |whole numbers )?(?:from |between )?` + whl + ` (?:to|and|through) ` + whl)
	saysSum     = compile(`(?i)\b(?:sum|add)\b`)
	saysRange   = compile(`(?i)\b(?:from|between|to|through)\b`)
	oneNumber   = compile(`-?\d[\d.,]*`)
)

// aggregate makes one number of several: "average of 3, 5 and 9", "sum of the numbers from 1 to 100".
func aggregate(t task, _ []agentkernel.Tool) (*Plan, error) {
	if m := t.match(sumOfRange); m != nil && saysSum.MatchString(t.text) && saysRange.MatchString(t.text) {
		low, err1 := atMost(m[1], maxRange)
		high, err2 := atMost(m[2], maxRange)
		if err1 != nil {
			return nil, err1
		}
		if err2 != nil {
			return nil, err2
		}
		if low > high {
			low, high = high, low
		}
		return program("arithmetic", "range.py", "The sum of the whole numbers from "+m[1]+" to "+m[2], map[string]any{"Low": low, "High": high})
	}
	m := t.match(aggregateOf)
	if m == nil {
		m = t.match(addUp)
	}
	if m == nil {
		return nil, nil
	}
	word := strings.ToLower(m[1])
	if _, ok := functions[word]; ok && strings.Contains(strings.ToLower(t.text), word+"(") {
		return nil, nil // a function of an expression, in which a comma only separates
	}
	kind := reductions[word]
	var numbers []json.Number
	for _, text := range oneNumber.FindAllString(m[2], -1) {
		n, ok := number(strings.TrimRight(text, ".,"))
		if !ok {
			return nil, refuse("%q is not a number", note(text))
		}
		numbers = append(numbers, n)
	}
	if kind == "gcd" || kind == "lcm" {
		for _, n := range numbers {
			if strings.ContainsAny(n.String(), ".eE") {
				return nil, refuse("the %s is of whole numbers", word)
			}
		}
	}
	return program("arithmetic", "aggregate.py", "The "+kindTitle(kind)+" of "+m[2], map[string]any{"Numbers": numbers, "Kind": kind})
}

func kindTitle(kind string) string {
	switch kind {
	case "min":
		return "smallest"
	case "max":
		return "largest"
	case "stdev":
		return "standard deviation"
	case "gcd":
		return "greatest common divisor"
	case "lcm":
		return "least common multiple"
	}
	return kind
}

var (
	numberText = compile(`^-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?$`)
	asked      = compile(`(?i)^` + ask + `(?:the )?`)
)

// number reads a number as people write it; leading zeros, which Python refuses, are taken off.
func number(text string) (json.Number, bool) {
	if !numberText.MatchString(text) {
		return "", false
	}
	text = plainNumber(text)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	text = strings.TrimLeft(text, "0")
	if text == "" || text[0] == '.' {
		text = "0" + text
	}
	return json.Number(sign + text), true
}

// arithmetic evaluates an expression: "what is 15% of 240", "sqrt(2) * 3", "7 times 6".
func arithmetic(t task, _ []agentkernel.Tool) (*Plan, error) {
	text := asked.ReplaceAllString(t.text, "")
	text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "="))
	e, ok := parseExpression(text)
	if !ok || !e.calculates {
		return nil, nil
	}
	return program("arithmetic", "arithmetic.py", text, map[string]any{"Expression": e.source, "Math": e.imports()})
}
