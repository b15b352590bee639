package template

import (
	"encoding/json"
	"strconv"
	"strings"

	"agentkernel"
)

// maxFibonacci is the largest number of which an answer can still be read.
const maxFibonacci = 20_000

var (
	fibonacciOf  = whole(ask + `(?:the )?fib(?:onacci)?(?: number)?(?: of)? ?\(? ?` + whl + ` ?\)?`)
	fibonacciNth = whole(ask + `(?:the )?` + whl + `(?:st|nd|rd|th) fibonacci(?: number)?`)
)

func fibonacci(t task, _ []agentkernel.Tool) (*Plan, error) {
	m := t.match(fibonacciOf)
	if m == nil {
		m = t.match(fibonacciNth)
	}
	if m == nil {
		return nil, nil
	}
	n, err := strconv.Atoi(plainNumber(m[1]))
	if err != nil || n > maxFibonacci {
		return nil, refuse("%s is too large a number for it; the limit is %d", note(m[1]), maxFibonacci)
	}
	return program("fibonacci", "fibonacci.py", "Fibonacci number "+strconv.Itoa(n)+", where fibonacci(0) = 0 and fibonacci(1) = 1", map[string]any{"N": n})
}

// The words for what is made of several numbers, and the name of each in programs.
var reductions = map[string]string{
	"sum": "sum", "total": "sum", "add up": "sum", "add": "sum",
	"average": "mean", "mean": "mean", "median": "median",
	"minimum": "min", "min": "min", "smallest": "min", "lowest": "min",
	"maximum": "max", "max": "max", "largest": "max", "highest": "max",
}

// measure is the alternation of the words for what is made of several numbers.
const measure = `(sum|total|average|mean|median|minimum|min|smallest|lowest|maximum|max|largest|highest)`

const numberList = `(-?\d[\d.,]*(?:(?:,? and |, ?| )-?\d[\d.,]*)+)`

var (
	aggregateOf = whole(ask + `(?:the )?` + measure + ` of(?: the)?(?: numbers)?:? ` + numberList)
	addUp       = whole(`(add up|add)(?: the)?(?: numbers)?:? ` + numberList)
	sumOfRange  = whole(ask + `(?:the )?sum of(?: all)?(?: the)? (?:integers|numbers|whole numbers) from ` + whl + ` to ` + whl)
	oneNumber   = compile(`-?\d[\d.,]*`)
)

// aggregate makes one number of several: "average of 3, 5 and 9". In such a list a comma between digits may be of a number or between two.
func aggregate(t task, _ []agentkernel.Tool) (*Plan, error) {
	if m := t.match(sumOfRange); m != nil {
		first, last, err := ends(m[1], m[2])
		if err != nil {
			return nil, err
		}
		return program("arithmetic", "range.py", "The sum of the whole numbers from "+m[1]+" to "+m[2], map[string]any{"First": first, "Last": last})
	}
	m := t.match(aggregateOf)
	if m == nil {
		m = t.match(addUp)
	}
	if m == nil {
		return nil, nil
	}
	var numbers []json.Number
	for _, text := range oneNumber.FindAllString(m[2], -1) {
		text = strings.TrimRight(text, ".,")
		n, ok := number(text)
		if !ok || strings.Contains(text, ",") {
			return nil, refuse("is %q one number or several? Write a space behind each comma between two, and none within one", note(text))
		}
		numbers = append(numbers, n)
	}
	kind := reductions[strings.ToLower(m[1])]
	return program("arithmetic", "aggregate.py", "The "+kindTitle(kind)+" of "+m[2], map[string]any{"Numbers": numbers, "Kind": kind})
}

// maxRange is how far a program counts within its time.
const maxRange = 10_000_000

// ends reads the ends of a range of whole numbers.
func ends(from, to string) (first, last int, err error) {
	first, err1 := strconv.Atoi(plainNumber(from))
	last, err2 := strconv.Atoi(plainNumber(to))
	if err1 != nil || err2 != nil || first > last || last > maxRange {
		return 0, 0, refuse("%s to %s is no range up to %d", note(from), note(to), maxRange)
	}
	return first, last, nil
}

func kindTitle(kind string) string {
	switch kind {
	case "min":
		return "smallest"
	case "max":
		return "largest"
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
