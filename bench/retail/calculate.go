package retail

import (
	"strconv"
	"strings"
)

// calculate computes an expression of numbers, + - * / and parentheses, rounded to two digits.
func calculate(g given) (any, error) {
	if strings.ContainsFunc(g.Expression, func(r rune) bool { return !strings.ContainsRune("0123456789+-*/(). ", r) }) {
		return nil, refusal("Invalid characters in expression")
	}
	s := &sum{rest: strings.ReplaceAll(g.Expression, " ", "")}
	x, err := s.terms()
	if err == nil && s.rest != "" {
		err = errSyntax
	}
	if err != nil {
		return nil, err
	}
	return cents(x).String(), nil
}

const errSyntax = refusal("invalid syntax")

// sum is an expression that is read from the left.
type sum struct{ rest string }

// takes removes one of the signs from the front; 0 if none is there.
func (s *sum) takes(signs string) byte {
	if s.rest == "" || !strings.ContainsRune(signs, rune(s.rest[0])) {
		return 0
	}
	sign := s.rest[0]
	s.rest = s.rest[1:]
	return sign
}

func (s *sum) terms() (amount, error) {
	x, err := s.factors()
	for err == nil {
		sign := s.takes("+-")
		if sign == 0 {
			break
		}
		var y amount
		if y, err = s.factors(); sign == '-' {
			y = -y
		}
		x += y
	}
	return x, err
}

func (s *sum) factors() (amount, error) {
	x, err := s.factor()
	for err == nil {
		sign := s.takes("*/")
		if sign == 0 {
			break
		}
		var y amount
		y, err = s.factor()
		switch {
		case err != nil:
		case sign == '*':
			x = amount(float64(x) * float64(y))
		case y == 0:
			err = refusal("division by zero")
		default:
			x /= y
		}
	}
	return x, err
}

func (s *sum) factor() (amount, error) {
	switch s.takes("+-(") {
	case '+':
		return s.factor()
	case '-':
		x, err := s.factor()
		return -x, err
	case '(':
		x, err := s.terms()
		if err == nil && s.takes(")") == 0 {
			err = errSyntax
		}
		return x, err
	}
	digits := len(s.rest) - len(strings.TrimLeft(s.rest, "0123456789."))
	x, err := strconv.ParseFloat(s.rest[:digits], 64)
	if err != nil {
		return 0, errSyntax
	}
	s.rest = s.rest[digits:]
	return amount(x), nil
}
