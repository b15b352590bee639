package monty

import (
	"encoding/json"
	"strings"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/clip"
	"agentkernel/internal/sandbox/monty/montypb"
)

// param is one parameter of a host function, and the argument that was given for it.
type param struct {
	name     string // as the callee knows it
	python   string // as a keyword
	required bool

	given bool
	value json.RawMessage
}

// bindSyscall makes the argument object of a syscall.
func bindSyscall(call agentkernel.Syscall, c *montypb.FunctionCall) (json.RawMessage, error) {
	params := make([]param, len(call.Args))
	for i, a := range call.Args {
		params[i] = param{name: a.Name, python: a.Name, required: !a.Optional}
	}
	if err := bind(params, c, call.Name, call.Signature()); err != nil {
		return nil, err
	}
	return appendArguments(nil, params)
}

// bindTool makes the arguments of tool.call for a call of a tool's Python function.
func bindTool(t *agentkernel.Tool, c *montypb.FunctionCall) (json.RawMessage, error) {
	params := make([]param, len(t.Params))
	for i, p := range t.Params {
		params[i] = param{name: p.Name, python: p.Python, required: p.Required}
	}
	signature := t.Signature
	if signature == "" {
		signature = t.PythonName + "(...)"
	}
	if err := bind(params, c, "tools."+t.PythonServer+"."+t.PythonName, signature); err != nil {
		return nil, err
	}
	out := append([]byte(nil), `{"server":`...)
	out, err := appendStringJSON(out, []byte(t.Server))
	if err != nil {
		return nil, err
	}
	out = append(out, `,"tool":`...)
	if out, err = appendStringJSON(out, []byte(t.Name)); err != nil {
		return nil, err
	}
	out = append(out, `,"arguments":`...)
	if out, err = appendArguments(out, params); err != nil {
		return nil, err
	}
	return append(out, '}'), nil
}

// bind assigns arguments to parameters as Python does. Errors are CodeInvalid, TypeError to the program,
// and say the signature.
func bind(params []param, c *montypb.FunctionCall, op, signature string) error {
	fail := func(format string, args ...any) error {
		return agentkernel.Errorf(agentkernel.CodeInvalid, op, format, args...).WithHint("the signature is: %s", signature)
	}
	if n := passed(c); n > maxPassedBytes {
		return agentkernel.Errorf(agentkernel.CodeLimit, op, "the arguments are %s long; the limit is %s", bytesize.InMiB(int64(n)), bytesize.InMiB(maxPassedBytes))
	}
	name := op[strings.LastIndexByte(op, '.')+1:]
	if n := len(c.GetArgs()); n > len(params) {
		return fail("%s() takes %d positional arguments but %d were given", name, len(params), n)
	}
	var err error
	for i, raw := range c.GetArgs() {
		params[i].given = true
		if params[i].value, err = appendJSON(nil, raw); err != nil {
			return err
		}
	}
	for _, kw := range c.GetKwargs() {
		key, ok := strValue(kw.GetKey())
		if !ok {
			return errMalformed
		}
		p := find(params, string(key))
		switch {
		case p == nil:
			return fail("%s() got an unexpected keyword argument '%s'", name, clip.At(string(key), 100))
		case p.given:
			return fail("%s() got multiple values for argument '%s'", name, key)
		}
		p.given = true
		if p.value, err = appendJSON(nil, kw.GetValue()); err != nil {
			return err
		}
	}
	var missing []string
	for i := range params {
		if p := &params[i]; p.required && !p.given {
			missing = append(missing, "'"+p.python+"'")
		}
	}
	if len(missing) > 0 {
		plural := ""
		if len(missing) > 1 {
			plural = "s"
		}
		return fail("%s() missing %d required argument%s: %s", name, len(missing), plural, strings.Join(missing, ", "))
	}
	return nil
}

func find(params []param, python string) *param {
	for i := range params {
		if params[i].python == python {
			return &params[i]
		}
	}
	return nil
}

// appendArguments writes the given arguments as an object, in the order of the parameters. A None that was given is there: the
// kernel knows the tool's schema, and whether it takes a null.
func appendArguments(dst []byte, params []param) ([]byte, error) {
	open, between, shut, end := "", ":", "", "}"
	for i := range params {
		if strings.HasPrefix(params[i].name, "$") && params[i].given { // docs/values.md: such keys need $dict
			open, between, shut, end = "[", ",", "]", "]}"
		}
	}
	if open == "" {
		dst = append(dst, '{')
	} else {
		dst = append(dst, `{"$dict":[`...)
	}
	first := true
	for i := range params {
		p := &params[i]
		if !p.given {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, open...)
		var err error
		if dst, err = appendStringJSON(dst, []byte(p.name)); err != nil {
			return nil, err
		}
		dst = append(dst, between...)
		dst = append(dst, p.value...)
		dst = append(dst, shut...)
	}
	return append(dst, end...), nil
}
