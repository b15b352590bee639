package devllm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"agentkernel/internal/lazy"
	"agentkernel/internal/nearest"
)

// Script decides answers by what a request shows. The first rule whose when matches counts; if what it expects was not
// shown, its wrong answer is given.
type Script struct {
	models   []Model
	rules    []*rule
	fallback *reply // what no rule matches; nil: the echo

	mu   sync.Mutex
	used map[*rule]int
}

// scriptFile is a script as it is written.
type scriptFile struct {
	Models  []scriptModel `yaml:"models"`
	Rules   []yaml.Node   `yaml:"rules"`
	Default yaml.Node     `yaml:"default"`
}

type scriptModel struct {
	Name       string      `yaml:"name"`
	Family     string      `yaml:"family"`
	Window     int64       `yaml:"window"`
	Output     int64       `yaml:"output"`
	Dims       int         `yaml:"dims"`
	CacheMin   int64       `yaml:"cache_min"`
	CacheWrite bool        `yaml:"cache_writes"`
	Price      scriptPrice `yaml:"price"`
}

// scriptPrice is in dollars a million tokens.
type scriptPrice struct {
	Input        float64 `yaml:"input"`
	CacheRead    float64 `yaml:"cache_read"`
	CacheWrite   float64 `yaml:"cache_write"`
	CacheWrite1h float64 `yaml:"cache_write_1h"`
	Output       float64 `yaml:"output"`
}

type ruleFile struct {
	Name   string     `yaml:"name"`
	When   conditions `yaml:"when"`
	Expect conditions `yaml:"expect"`
	Times  int        `yaml:"times"`
	Answer *reply     `yaml:"answer"`
	Wrong  *reply     `yaml:"wrong"`
}

// conditions are what a request shows; those that are not written hold.
type conditions struct {
	Model      pattern  `yaml:"model"`
	System     pattern  `yaml:"system"`
	User       pattern  `yaml:"user"`        // the last message of the user
	ToolResult pattern  `yaml:"tool_result"` // the results since the model's last message
	Anywhere   pattern  `yaml:"anywhere"`    // any message, or the system text
	Turn       int      `yaml:"turn"`        // the number of the answer that is asked for, from 1
	Tools      []string `yaml:"tools"`       // each of them is offered
	Schema     *bool    `yaml:"schema"`      // whether an answer in JSON is asked for
	Images     *int64   `yaml:"images"`      // how many pictures the conversation has
}

// reply is an answer as it is written. Texts may quote groups of the rule's expressions: {{city}}, {{1}}.
type reply struct {
	Text      string      `yaml:"text"`
	JSON      any         `yaml:"json"`
	Calls     []replyCall `yaml:"calls"`
	Refusal   string      `yaml:"refusal"`
	Reasoning string      `yaml:"reasoning"`
	Tokens    int64       `yaml:"tokens"` // an echo of so many tokens
	Error     *replyError `yaml:"error"`
}

type replyCall struct {
	Name      string `yaml:"name"`
	Arguments any    `yaml:"arguments"`
	Raw       string `yaml:"raw"` // instead of arguments: as it is, also what is no JSON
}

type replyError struct {
	Status     int    `yaml:"status"`
	Message    string `yaml:"message"`
	RetryAfter string `yaml:"retry_after"`
}

// pattern is a text that is contained, or /an expression/.
type pattern struct {
	text string
	re   *regexp.Regexp
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *pattern) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		return &lineError{n.Line, "a pattern is a text that is contained, or an expression between slashes"}
	}
	p.text = n.Value
	if inner, ok := strings.CutPrefix(n.Value, "/"); ok && len(inner) > 1 && strings.HasSuffix(inner, "/") {
		re, err := regexp.Compile(strings.TrimSuffix(inner, "/"))
		if err != nil {
			return &lineError{n.Line, fmt.Sprintf("the expression %s cannot be used: %s", n.Value, strings.TrimPrefix(err.Error(), "error parsing regexp: "))}
		}
		p.re = re
	}
	return nil
}

// find says whether the text matches, and adds the groups.
func (p pattern) find(text string, groups map[string]string) bool {
	if p.re == nil {
		return strings.Contains(text, p.text)
	}
	m := p.re.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	for i, name := range p.re.SubexpNames() {
		if i == 0 {
			continue
		}
		if groups[strconv.Itoa(i)] = m[i]; name != "" {
			groups[name] = m[i]
		}
	}
	return true
}

// rule is a rule that was checked.
type rule struct {
	ruleFile
	line int
}

// lineError says where in the script something is wrong.
type lineError struct {
	line int
	what string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.what) }

// LoadScript reads a script from a file.
func LoadScript(path string) (*Script, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, bad("name a file in YAML; docs/devllm.md says what is in it").of("the script cannot be read: %v", err)
	}
	return ParseScript(path, text)
}

// ParseScript reads a script; name is what errors call it.
func ParseScript(name string, text []byte) (*Script, error) {
	s, err := parseScript(text)
	if err == nil {
		return s, nil
	}
	hint := hint("docs/devllm.md says what a script may hold")
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if all, ok := errors.AsType[*yaml.TypeError](err); ok {
		message = strings.TrimPrefix(all.Errors[0], "yaml: ")
	}
	if m := unknownField().FindStringSubmatch(message); m != nil {
		message = fmt.Sprintf("line %s: there is no field %s", m[1], m[2])
		if near := nearest.Question(m[2], fieldNames()); near != "" {
			hint = bad("%s", near)
		}
	}
	message = strings.NewReplacer("cannot unmarshal !!seq into", "a list cannot be", "cannot unmarshal !!map into", "an object cannot be", "cannot unmarshal !!str", "the text", "cannot unmarshal !!int", "the number", " into devllm.", " cannot be ", " into ", " cannot be ").Replace(message)
	if line, rest, ok := strings.Cut(strings.TrimPrefix(message, "line "), ": "); ok && strings.HasPrefix(message, "line ") {
		return nil, hint.of("%s:%s: %s", name, line, rest)
	}
	return nil, hint.of("%s: %s", name, message)
}

var unknownField = lazy.Regexp(`^line (\d+): field (\S+) not found in type`)

// fieldNames are all fields that a script may have.
func fieldNames() (names []string) {
	for _, t := range []reflect.Type{reflect.TypeFor[scriptFile](), reflect.TypeFor[scriptModel](), reflect.TypeFor[scriptPrice](), reflect.TypeFor[ruleFile](),
		reflect.TypeFor[conditions](), reflect.TypeFor[reply](), reflect.TypeFor[replyCall](), reflect.TypeFor[replyError]()} {
		for i := range t.NumField() {
			names = append(names, t.Field(i).Tag.Get("yaml"))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func parseScript(text []byte) (*Script, error) {
	var file scriptFile
	if err := strictYAML(text, &file); err != nil {
		return nil, err
	}
	s := &Script{used: map[*rule]int{}}
	for _, m := range file.Models {
		if m.Name == "" || m.Window < 0 || m.Output < 0 || m.Dims < 0 || m.CacheMin < 0 {
			return nil, fmt.Errorf("a model has a name, and no number below zero: %q", m.Name)
		}
		if m.Window == 0 {
			m.Window = 128_000
		}
		s.models = append(s.models, Model{Name: m.Name, Family: m.Family, Window: m.Window, Output: m.Output, Dims: m.Dims, CacheMin: m.CacheMin, CacheWrites: m.CacheWrite,
			Price: Price{nano(m.Price.Input), nano(m.Price.CacheRead), nano(m.Price.CacheWrite), nano(m.Price.CacheWrite1h), nano(m.Price.Output)}})
	}
	for i := range file.Rules {
		r := &rule{line: file.Rules[i].Line}
		if err := strictNode(&file.Rules[i], &r.ruleFile); err != nil {
			return nil, err
		}
		if err := r.check(); err != nil {
			return nil, err
		}
		s.rules = append(s.rules, r)
	}
	if file.Default.Kind != 0 {
		s.fallback = &reply{}
		if err := strictNode(&file.Default, s.fallback); err != nil {
			return nil, err
		}
		if err := s.fallback.check(file.Default.Line, nil); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// nano are dollars a million tokens in nano-dollars a token.
func nano(dollars float64) int64 { return int64(dollars*1000 + 0.5) }

func strictYAML(text []byte, v any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// strictNode decodes a node and refuses unknown fields; errors name the lines of the file.
func strictNode(n *yaml.Node, v any) error {
	if err := knownFields(n, reflect.TypeOf(v).Elem()); err != nil {
		return err
	}
	return n.Decode(v)
}

// knownFields finds a field that the type does not have. (yaml.v3 looks for them in whole documents only.)
func knownFields(n *yaml.Node, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice {
		for _, item := range n.Content {
			if err := knownFields(item, t.Elem()); err != nil {
				return err
			}
		}
	}
	if n.Kind != yaml.MappingNode || t.Kind() != reflect.Struct || t == reflect.TypeFor[pattern]() {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, at := n.Content[i], -1
		for j := range t.NumField() {
			if t.Field(j).Tag.Get("yaml") == key.Value {
				at = j
			}
		}
		if at < 0 {
			return fmt.Errorf("line %d: field %s not found in type", key.Line, key.Value)
		}
		if err := knownFields(n.Content[i+1], t.Field(at).Type); err != nil {
			return err
		}
	}
	return nil
}
