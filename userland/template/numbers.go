package template

import (
	"strconv"

	"agentkernel"
)

// Bounds beyond which an answer would be unreadable, or would not be ready within a program's time.
const (
	maxFibonacci = 20_000
	maxPrime     = 1_000_000
	maxRange     = 10_000_000
)

var (
	fibonacciOf    = whole(ask + `(?:the )?fib(?:onacci)?(?: number)?(?: of)? ?\(? ?` + whl + ` ?\)?`)
	fibonacciNth   = whole(ask + `(?:the )?` + whl + `(?:st|nd|rd|th) fibonacci(?: number)?`)
	fibonacciFirst = whole(ask + `(?:the )?(?:first|list(?: of)?(?: the)?(?: first)?) ` + whl + ` (?:numbers of the fibonacci (?:sequence|series)|fibonacci numbers)`)
)

func fibonacci(t task, _ []agentkernel.Tool) (*Plan, error) {
	if m := t.match(fibonacciFirst); m != nil {
		return fibonacciPlan(m[1], true)
	}
	for _, re := range []regex{fibonacciOf, fibonacciNth} {
		if m := t.match(re); m != nil {
			return fibonacciPlan(m[1], false)
		}
	}
	return nil, nil
}

func fibonacciPlan(text string, all bool) (*Plan, error) {
	n, err := atMost(text, maxFibonacci)
	if err != nil {
		return nil, err
	}
	title := "Fibonacci number " + strconv.Itoa(n) + ", where fibonacci(0) = 0 and fibonacci(1) = 1"
	if all {
		title = "The first " + strconv.Itoa(n) + " Fibonacci numbers, from 0 on"
	}
	return program("fibonacci", "fibonacci.py", title, map[string]any{"N": n, "All": all})
}

var (
	isPrime    = whole(`(?:is|check if|check whether|test if|test whether) ` + whl + `(?: is)?(?: a)? prime(?: number)?`)
	primesTo   = whole(ask + `(?:list )?(?:all )?(?:the )?primes?(?: numbers)? (up to|below|under|less than|smaller than) ` + whl)
	primesNum  = whole(ask + `(?:list )?(?:the )?first ` + whl + ` prime(?:s| numbers)`)
	countPrime = whole(`(?:how many primes?(?: numbers)? are there|count(?: all)?(?: the)? primes?(?: numbers)?) (up to|below|under|less than|smaller than) ` + whl)
)

func primes(t task, _ []agentkernel.Tool) (*Plan, error) {
	data := map[string]any{"Test": 0, "First": 0, "Below": 0, "Count": false}
	var title, key, text string
	switch {
	case t.match(isPrime) != nil:
		key, text = "Test", t.match(isPrime)[1]
		title = "Is " + text + " a prime?"
	case t.match(primesNum) != nil:
		key, text = "First", t.match(primesNum)[1]
		title = "The first " + text + " primes"
	case t.match(primesTo) != nil:
		key, text = "Below", t.match(primesTo)[2]
		title = "The primes " + t.match(primesTo)[1] + " " + text
	case t.match(countPrime) != nil:
		key, text = "Below", t.match(countPrime)[2]
		data["Count"] = true
		title = "How many primes are " + t.match(countPrime)[1] + " " + text
	default:
		return nil, nil
	}
	most := maxPrime
	switch key {
	case "Test":
		most = maxPrime * maxPrime
	case "First":
		most = maxPrime / 20
	}
	n, err := atMost(text, most)
	if err != nil {
		return nil, err
	}
	if m := append(t.match(primesTo), t.match(countPrime)...); len(m) > 0 && m[1] == "up to" {
		n++
	}
	data[key] = n
	return program("primes", "primes.py", title, data)
}

// atMost reads a whole number that a recipe can still deal with.
func atMost(text string, most int) (int, error) {
	n, err := strconv.Atoi(plainNumber(text))
	if err != nil || n > most {
		return 0, refuse("%s is too large a number for it; the limit of this recipe is %d", note(text), most)
	}
	return n, nil
}
