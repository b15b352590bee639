package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agentkernel/bench/retail"
)

// code is a program.
type code string

// lines are those that are not empty.
func (c code) lines() (n int) {
	for line := range strings.Lines(string(c)) {
		if strings.TrimSpace(line) != "" {
			n++
		}
	}
	return n
}

// onePrograms does all calls in one program. A call that the tool refuses ends it: what is behind that call is written again.
func onePrograms(calls []retail.Call) (programs []code) {
	for len(calls) > 0 {
		programs = append(programs, program(calls, false))
		calls = behindFailure(calls)
	}
	return programs
}

// twoPrograms looks first, and does all from the first write on in a program of its own.
func twoPrograms(calls []retail.Call) (programs []code) {
	first := firstWrite(calls)
	for _, part := range [][]retail.Call{calls[:first], calls[first:]} {
		for len(part) > 0 {
			programs = append(programs, program(part, true))
			part = behindFailure(part)
		}
	}
	return programs
}

// firstWrite is the first call that is no read; their number if there is none.
func firstWrite(calls []retail.Call) int {
	if i := slices.IndexFunc(calls, func(c retail.Call) bool { return !retail.Reads(c.Name) }); i >= 0 {
		return i
	}
	return len(calls)
}

// looks says whether there is something to look at before something is to be written.
func looks(calls []retail.Call) bool {
	first := firstWrite(calls)
	return first > 0 && first < len(calls)
}

// behindFailure are the calls behind the first that fails.
func behindFailure(calls []retail.Call) []retail.Call {
	if i := slices.IndexFunc(calls, func(c retail.Call) bool { return c.Failed }); i >= 0 {
		return calls[i+1:]
	}
	return nil
}

// program makes the calls in order. It prints what writes have done and what was computed, and what a model needs of the rest if it looks.
func program(calls []retail.Call, looks bool) code {
	var names []string
	for _, c := range calls {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "from tools.retail import %s\n\n", strings.Join(names, ", "))
	for _, c := range calls {
		call := c.Name + "(" + pythonArguments(c.Arguments) + ")"
		member, isMember := changed[c.Name]
		shown, isShown := looked[c.Name]
		switch {
		case isMember:
			b.WriteString("print(" + call + member + ")\n")
		case !looks:
			b.WriteString(call + "\n")
		case isShown:
			b.WriteString("it = " + call + "\nprint(" + shown + ")\n")
		default:
			b.WriteString("print(" + call + ")\n")
		}
	}
	return code(b.String())
}

// changed is the member of the answer that any program prints: what was changed, or computed.
var changed = map[string]string{
	"calculate": "", "transfer_to_human_agents": "",
	"cancel_pending_order":           `["status"]`,
	"exchange_delivered_order_items": `["status"]`,
	"modify_pending_order_address":   `["address"]`,
	"modify_pending_order_items":     `["status"]`,
	"modify_pending_order_payment":   `["payment_history"]`,
	"modify_user_address":            `["address"]`,
	"return_delivered_order_items":   `["status"]`,
}

// looked is what a program prints that looks: of the answer, what may decide what is to be done. Of what is not here it prints all.
var looked = map[string]string{
	"get_order_details":   `it["status"], it["items"], it["payment_history"]`,
	"get_user_details":    `it["payment_methods"], it["orders"], it["address"]`,
	"get_product_details": `[v for v in it["variants"].values() if v["available"]]`,
}

// pythonArguments writes an object of JSON as arguments of Python.
func pythonArguments(raw json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if _, err := d.Token(); err != nil {
		return ""
	}
	var parts []string
	for d.More() {
		var value any
		key, err := d.Token()
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil { // the call is made without it, and fails
			break
		}
		parts = append(parts, fmt.Sprintf("%s=%s", key, literal(value)))
	}
	return strings.Join(parts, ", ")
}

// literal writes a value of JSON as Python does; texts have the same literals in both.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return strings.ToUpper(fmt.Sprint(v)[:1]) + fmt.Sprint(v)[1:]
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = literal(x)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // what was decoded can be encoded
	return strings.TrimSpace(b.String())
}

var imported = regexp.MustCompile(`(?m)^from tools\.retail import (.+)$`)

// withSignatures puts a program in front that asks for what the request does not say: no tool is used whose signature was not shown.
func withSignatures(programs []code, request string) []code {
	var unknown []string
	for _, p := range programs {
		for _, m := range imported.FindAllStringSubmatch(string(p), -1) {
			for name := range strings.SplitSeq(m[1], ", ") {
				if !strings.Contains(request, " "+name+"(") && !slices.Contains(unknown, name) {
					unknown = append(unknown, name)
				}
			}
		}
	}
	if len(unknown) == 0 {
		return programs
	}
	ask := "from kernel import tool\n\n"
	for _, name := range unknown {
		ask += fmt.Sprintf("t = tool.describe(\"retail\", %q)\nprint(t[\"signature\"], t[\"doc\"])\n", name)
	}
	return append([]code{code(ask)}, programs...)
}

// allDone is what the model says when it has done all.
const allDone = "All is done."

// programScript is a model that writes the programs one after the other, and reads all pages of what they print.
func programScript(programs []code) string {
	rules := []any{map[string]any{"name": "page", "when": map[string]any{"tool_result": `/The next page: read_output\(run=(\d+), start=(\d+)\)/`},
		"answer": map[string]any{"calls": []any{map[string]any{"name": "read_output", "arguments": map[string]any{"run": "{{1}}", "start": "{{2}}"}}}}}}
	for _, p := range programs {
		rules = append(rules, map[string]any{"times": 1, "answer": map[string]any{"calls": []any{map[string]any{"name": "run_python", "arguments": map[string]any{"code": p}}}}})
	}
	rules = append(rules, map[string]any{"answer": map[string]any{"calls": []any{map[string]any{"name": "finish", "arguments": map[string]any{"result": allDone}}}}})
	return script(rules)
}

// callScript is a model that makes the calls one by one, and then says that it has.
func callScript(calls []retail.Call) string {
	var rules []any
	for i, c := range calls {
		rules = append(rules, map[string]any{"when": map[string]any{"turn": i + 1}, "answer": map[string]any{"calls": []any{map[string]any{"name": c.Name, "raw": compactJSON(c.Arguments)}}}})
	}
	rules = append(rules, map[string]any{"when": map[string]any{"turn": len(calls) + 1}, "answer": map[string]any{"text": allDone}})
	return script(rules)
}

// compactJSON is JSON as models write it.
func compactJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

// script is a script of devllm; JSON is YAML.
func script(rules []any) string {
	raw, err := json.Marshal(map[string]any{"rules": rules, "default": map[string]any{"error": map[string]any{"status": 400, "message": "this was not to be asked"}}})
	if err != nil {
		panic(err) // texts and numbers always marshal
	}
	return string(raw)
}
