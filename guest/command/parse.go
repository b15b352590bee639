package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const usage = `kernel: system calls of AgentKernel, for programs in a sandbox

  kernel tool call SERVER.TOOL [--arg NAME=TEXT]... [--arg NAME:=JSON]... [--json OBJECT|-]
  kernel tool list [SERVER]
  kernel tool describe SERVER.TOOL
  kernel state get KEY [--default TEXT]      kernel state set KEY TEXT|--json VALUE|--json -
  kernel state delete KEY                    kernel state keys
  kernel now                                 seconds since 1970
  kernel sleep SECONDS
  kernel self                                pid, name, arguments ...
  kernel log TEXT [--level debug|info|warning|error]
  kernel call OPERATION [--json OBJECT|-]    any other system call: proc.spawn, rand.bytes ...

Text results are printed as they are, others as a line of JSON; "-" reads standard input. Exit codes: 0, 1 the call
failed, 2 wrong usage or arguments, 3 denied, 4 nobody knows whether a write happened, 5 a limit, 6 the kernel cannot be
reached, 124 timeout, 130 interrupted. Each call is in the journal: agentkernel trace PID.
`

var errHelp = errors.New("help was asked for")

func wrong(format string, args ...any) error {
	return fmt.Errorf(format+"; kernel --help says how", args...)
}

// parse turns arguments into an operation and its parameters, a JSON object.
func parse(args []string, in io.Reader) (op string, params json.RawMessage, err error) {
	if len(args) == 0 {
		return "", nil, wrong("nothing was asked for")
	}
	for _, a := range args {
		if a == "--" {
			break
		}
		if a == "--help" || a == "-h" {
			return "", nil, errHelp
		}
	}
	a, err := readArguments(args, in)
	if err != nil {
		return "", nil, err
	}
	op, fields, err := a.operation()
	if err == nil {
		err = a.unused()
	}
	if err != nil {
		return "", nil, err
	}
	if raw, ok := fields.(json.RawMessage); ok {
		return op, raw, nil
	}
	params, err = json.Marshal(fields)
	return op, params, err
}

// arguments are what stood on the command line.
type arguments struct {
	words   []string
	named   map[string]any    // --arg
	json    json.RawMessage   // --json; nil: not given
	options map[string]string // --default, --level
}

func readArguments(args []string, in io.Reader) (*arguments, error) {
	a := &arguments{named: map[string]any{}, options: map[string]string{}}
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" {
			a.words = append(a.words, args[i+1:]...)
			break
		}
		if !strings.HasPrefix(word, "--") {
			a.words = append(a.words, word)
			continue
		}
		name, value, given := strings.Cut(word[2:], "=")
		if !given {
			if i++; i == len(args) {
				return nil, wrong("--%s needs a value", name)
			}
			value = args[i]
		}
		if err := a.option(name, value, in); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *arguments) option(name, value string, in io.Reader) error {
	switch name {
	case "arg":
		return a.argument(value)
	case "json":
		if value == "-" {
			b, err := io.ReadAll(io.LimitReader(in, maxRequest+1))
			if err != nil {
				return fmt.Errorf("standard input: %w", err)
			}
			value = string(b)
		}
		if !json.Valid([]byte(value)) {
			return wrong("--json: that is no JSON: %.60s", value)
		}
		a.json = json.RawMessage(strings.TrimSpace(value))
	case "default", "level":
		a.options[name] = value
	default:
		return wrong("there is no option --%s", name)
	}
	return nil
}

// argument reads NAME=TEXT or NAME:=JSON.
func (a *arguments) argument(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return wrong("--arg %s: write NAME=TEXT or NAME:=JSON", text)
	}
	raw, isJSON := strings.CutSuffix(name, ":")
	switch {
	case isJSON && !json.Valid([]byte(value)):
		return wrong("--arg %s: that is no JSON behind :=", text)
	case isJSON:
		a.named[raw] = json.RawMessage(value)
	default:
		a.named[name] = value
	}
	return nil
}

// unused refuses what the operation did not take.
func (a *arguments) unused() error {
	switch {
	case len(a.words) > 0:
		return wrong("%q is too much", a.words[0])
	case a.json != nil:
		return wrong("--json means nothing here")
	case len(a.named) > 0:
		return wrong("--arg means nothing here")
	}
	for name := range a.options {
		return wrong("--%s means nothing here", name)
	}
	return nil
}

// next takes the next word.
func (a *arguments) next(what string) (string, error) {
	if len(a.words) == 0 {
		return "", wrong("%s is missing", what)
	}
	word := a.words[0]
	a.words = a.words[1:]
	return word, nil
}

type object = map[string]any

// operation takes the words of one system call and gives its parameters.
func (a *arguments) operation() (string, any, error) {
	word, err := a.next("the call")
	if err != nil {
		return "", nil, err
	}
	switch word {
	case "now":
		return "time.now", object{}, nil
	case "self":
		return "proc.self", object{}, nil
	case "sleep":
		return a.sleep()
	case "log":
		return a.log()
	case "tool":
		return a.tool()
	case "state":
		return a.state()
	case "call":
		return a.any()
	}
	return "", nil, wrong("there is no kernel %s", word)
}

func (a *arguments) sleep() (string, any, error) {
	text, err := a.next("how many seconds")
	if err != nil {
		return "", nil, err
	}
	seconds, err := strconv.ParseFloat(strings.TrimSuffix(text, "s"), 64)
	if err != nil || !(seconds >= 0 && seconds < 1e12) {
		return "", nil, wrong("%q is no number of seconds", text)
	}
	return "time.sleep", object{"seconds": seconds}, nil
}

func (a *arguments) log() (string, any, error) {
	text, err := a.next("the text")
	fields := object{"message": text}
	if level, ok := a.take("level"); ok {
		fields["level"] = level
	}
	return "log.write", fields, err
}

func (a *arguments) take(option string) (string, bool) {
	value, ok := a.options[option]
	delete(a.options, option)
	return value, ok
}

// object takes --json, which must be an object, and --arg.
func (a *arguments) object() (any, error) {
	if a.json == nil {
		fields := a.named
		a.named = nil
		return fields, nil
	}
	if a.json[0] != '{' {
		return nil, wrong("--json: an object is needed, {\"name\": value}")
	}
	raw := a.json
	if len(a.named) == 0 {
		a.json = nil
		return raw, nil
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	both := object{}
	for name, v := range fields {
		both[name] = v
	}
	for name, v := range a.named {
		both[name] = v
	}
	a.json, a.named = nil, nil
	return both, nil
}

func (a *arguments) any() (string, any, error) {
	op, err := a.next("the operation")
	if err != nil {
		return "", nil, err
	}
	fields, err := a.object()
	return op, fields, err
}

func (a *arguments) tool() (string, any, error) {
	what, err := a.next("call, list or describe")
	if err != nil {
		return "", nil, err
	}
	if what == "list" {
		fields := object{}
		if len(a.words) > 0 {
			fields["server"], _ = a.next("")
		}
		return "tool.list", fields, nil
	}
	if what != "call" && what != "describe" {
		return "", nil, wrong("there is no kernel tool %s", what)
	}
	name, err := a.next("SERVER.TOOL")
	if err != nil {
		return "", nil, err
	}
	server, tool, ok := strings.Cut(name, ".")
	if !ok || server == "" || tool == "" {
		return "", nil, wrong("%q: write SERVER.TOOL", name)
	}
	fields := object{"server": server, "tool": tool}
	if what == "call" {
		fields["arguments"], err = a.object()
	}
	return "tool." + what, fields, err
}

func (a *arguments) state() (string, any, error) {
	what, err := a.next("get, set, delete or keys")
	if err != nil || what == "keys" {
		return "state.keys", object{}, err
	}
	if what != "get" && what != "set" && what != "delete" {
		return "", nil, wrong("there is no kernel state %s", what)
	}
	key, err := a.next("the key")
	if err != nil {
		return "", nil, err
	}
	fields := object{"key": key}
	if otherwise, ok := a.take("default"); ok && what == "get" {
		fields["default"] = otherwise
	}
	if what == "set" {
		fields["value"] = a.json
		if a.json == nil {
			fields["value"], err = a.next("the value")
		}
		a.json = nil
	}
	return "state." + what, fields, err
}
