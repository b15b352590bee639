package main

import (
	"reflect"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"agentkernel"
	"agentkernel/internal/config"
)

// rawText is an argument that is taken byte for byte: the name of a file.
type rawText string

// Decode implements kong.MapperValue.
func (t *rawText) Decode(ctx *kong.DecodeContext) error {
	s, err := popText(ctx)
	*t = rawText(s)
	return err
}

// optionalPID is a process that may be left out. An empty argument is not left out: it is what a shell makes of a variable that is not
// set, and would mean all processes.
type optionalPID string

// Decode implements kong.MapperValue.
func (p *optionalPID) Decode(ctx *kong.DecodeContext) error {
	s, err := popText(ctx)
	if err == nil {
		_, err = agentkernel.ParsePID(s)
	}
	*p = optionalPID(s)
	return err
}

// utf8Text takes all other arguments. Those that are not UTF-8 are refused: kong and JSON replace such bytes, and what
// is meant then is something else, another folder even.
func utf8Text(ctx *kong.DecodeContext, target reflect.Value) error {
	s, err := popText(ctx)
	if err != nil {
		return err
	}
	if !utf8.ValidString(s) {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "arguments", "the argument %q is not valid UTF-8", s).
			WithHint("rename the file, or get and apply it by the name that agentkernel diff writes")
	}
	target.SetString(s)
	return nil
}

// span takes a duration, as the settings read theirs. One below zero is for wrongFlag to refuse.
func span(ctx *kong.DecodeContext, target reflect.Value) error {
	s, err := popText(ctx)
	if err != nil {
		return err
	}
	d, err := config.ParseSpan(s)
	target.SetInt(int64(d))
	return err
}

func popText(ctx *kong.DecodeContext) (text string, err error) {
	if s, ok := ctx.Scan.Peek().Value.(string); ok {
		if negative(s) { // no flag begins with a digit: what reads the value says what is wrong with it
			ctx.Scan.Pop()
			return s, nil
		}
		_, err := ctx.Scan.PopValue("string")
		return s, err
	}
	return text, ctx.Scan.PopValueInto("string", &text)
}

// negative says whether an argument is a number below zero, or begins as one.
func negative(s string) bool {
	return len(s) > 1 && s[0] == '-' && s[1] >= '0' && s[1] <= '9'
}
