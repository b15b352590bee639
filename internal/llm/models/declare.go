// Package models knows which models there are: how a user declares them, where their keys are, and what they cost. It asks no
// server, and holds no key longer than for one request.
package models

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/lazy"
	"agentkernel/internal/nearest"
)

// Model is one declaration: a name for programs, and one place where that model is served. Several with one alias are several
// deployments of it.
type Model struct {
	Alias string // what programs say: "fast"
	Kind  string // of the server: see Kinds
	Name  string // what the server calls it: "gpt-5-mini"
	URL   string // "": the kind's own
	Key   Key
	// APIVersion and Deployment are Azure's.
	APIVersion, Deployment string
	// RPM, TPM, IPM and OPM are limits in a minute: requests, tokens, input tokens, output tokens. 0: the server says them, or
	// there is none. Concurrent is how many requests it takes at a time.
	RPM, TPM, IPM, OPM int64
	Concurrent         int64
	MaxTokens          int64  // what an answer may have where the caller does not say; 0: DefaultMaxTokens
	Context            int64  // what a conversation may have, in tokens; 0: not known
	Price              *Price // nil: that of the table, if it has one
	Fallback           string // the alias that is asked when this one cannot answer
}

// DefaultMaxTokens caps an answer for which nobody said a cap.
const DefaultMaxTokens = 4096

// Cap is the cap of an answer for which the caller says none.
func (m *Model) Cap() int64 {
	if m.MaxTokens > 0 {
		return m.MaxTokens
	}
	return DefaultMaxTokens
}

// ID names the model wherever it is said which one it was: "openai:gpt-5-mini".
func (m *Model) ID() string { return m.Kind + ":" + m.Name }

// Address is where the model is served.
func (m *Model) Address() string {
	if m.URL != "" {
		return m.URL
	}
	return kinds[m.Kind].url
}

// KeyName names whose limits a model counts against: its key, never what that is, at its server.
func (m *Model) KeyName() string {
	name := m.Kind
	if u, err := url.Parse(m.URL); err == nil && u.Host != "" {
		name += " at " + u.Host
	}
	switch usual := kinds[m.Kind].key; {
	case m.Key.Given(): // another model may be given another one
		name += " (given for " + m.Alias + ")"
	case m.Key.Source != "" && m.Key.Source != "env:"+usual:
		name += " (" + m.Key.Source + ")"
	}
	return name
}

// DeploymentName names the nth of the deployments with one alias, from 1 on: "smart", "smart#2".
func DeploymentName(alias string, n int) string {
	if n == 1 {
		return alias
	}
	return fmt.Sprintf("%s#%d", alias, n)
}

// OutputKept says that the server takes the cap of an answer off its limit of tokens when a request begins, and gives nothing of it
// back. Of what only speaks the same protocol that is not known; if it is otherwise there, what its answers say is left corrects it.
func (m *Model) OutputKept() bool { return kinds[m.Kind].kept }

// Family names the models with which a model shares its limits.
func (m *Model) Family() string {
	if m.Kind == "anthropic" { // claude-opus-4-8 and claude-opus-4-7 share them
		if parts := strings.SplitN(m.Name, "-", 3); len(parts) == 3 {
			return parts[0] + "-" + parts[1]
		}
	}
	return m.Name
}

// kind is what is known of a kind of server.
type kind struct {
	key   string // the variable that usually has its key; "": it needs none
	url   string // its address; "": one has to be given
	path  string // where it takes questions, below that; "": it depends on the model
	free  bool   // it runs on the user's own machines
	known string // the provider under which the table of prices has its models
	kept  bool   // it takes the cap of an answer off the limit of tokens when a request begins, and gives nothing of it back
}

var kinds = map[string]kind{
	"openai":           {kept: true, key: "OPENAI_API_KEY", url: "https://api.openai.com/v1", path: "/chat/completions", known: "openai"},
	"openai-responses": {kept: true, key: "OPENAI_API_KEY", url: "https://api.openai.com/v1", path: "/responses", known: "openai"},
	"anthropic":        {key: "ANTHROPIC_API_KEY", url: "https://api.anthropic.com/v1", path: "/messages", known: "anthropic"},
	"azure":            {kept: true, key: "AZURE_OPENAI_API_KEY", known: "openai"},
	"openrouter":       {key: "OPENROUTER_API_KEY", url: "https://openrouter.ai/api/v1", path: "/chat/completions", known: "openrouter"},
	"ollama":           {url: "http://localhost:11434", path: "/api/chat", free: true},
	"vllm":             {path: "/chat/completions", free: true},
}

// PathOf is where a server of a kind takes questions, below its address; "": that depends on the model.
func PathOf(name string) string { return kinds[name].path }

// AddressOf says what url= has to be for a kind of server.
func AddressOf(name string) string {
	switch {
	case name == "azure":
		return "the endpoint of the resource, such as https://NAME.openai.azure.com"
	case name == "ollama":
		return "what comes before " + PathOf(name) + ", such as http://127.0.0.1:11434, without /v1"
	}
	return "what comes before " + PathOf(name) + ", often .../v1"
}

// Kinds are the kinds of servers, sorted.
func Kinds() []string {
	var all []string
	for name := range kinds {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Form is how a declaration is written.
const Form = `write "ALIAS KIND:MODEL [option=value ...]", such as "fast openai:gpt-5-mini" or "local ollama:llama3.2 url=http://127.0.0.1:11434"`

var aliasForm = lazy.Regexp(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// Parse reads a declaration.
func Parse(text string) (m Model, err error) {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return m, wrong("a model is declared by an alias and what it stands for")
	}
	if m.Alias = fields[0]; !aliasForm().MatchString(m.Alias) {
		return m, wrong("%q is no alias: letters, digits, _, - and ., at most 64, beginning with a letter", clip.Short(m.Alias))
	}
	name, model, found := strings.Cut(fields[1], ":")
	k, known := kinds[name]
	switch {
	case name == "bedrock" || name == "vertex":
		return m, agentkernel.Errorf(agentkernel.CodeUnsupported, "models", "model %s: %s is not supported, since its requests are signed by the cloud's own account", m.Alias, name).
			WithHint("put a gateway that speaks OpenAI's or Anthropic's protocol before it, and declare that with url=")
	case !known:
		e := wrong("model %s: there is no kind of server %q", m.Alias, clip.Short(name))
		if q := nearest.Question(name, Kinds()); q != "" {
			return m, e.WithHint("%s", q)
		}
		return m, e.WithHint("the kinds are %s", strings.Join(Kinds(), ", "))
	case !found || model == "":
		return m, wrong("model %s: %s names no model", m.Alias, name)
	}
	m.Kind, m.Name = name, model
	seen := map[string]bool{}
	for _, option := range fields[2:] {
		name, value, found := strings.Cut(option, "=")
		if !found || value == "" || seen[name] {
			return m, wrong("model %s: %q is no option=value, or is there twice", m.Alias, clip.Short(name))
		}
		seen[name] = true
		if err := m.option(name, value); err != nil {
			return m, err
		}
	}
	if m.Key.Source == "" && k.key != "" {
		m.Key = Key{Source: "env:" + k.key}
	}
	if m.Address() == "" {
		return m, wrong("model %s: %s needs url=", m.Alias, m.Kind)
	}
	if m.Kind != "azure" && (m.APIVersion != "" || m.Deployment != "") {
		return m, wrong("model %s: api_version and deployment are options of azure", m.Alias)
	}
	return m, nil
}

// option reads one option.
func (m *Model) option(name, value string) (err error) {
	numbers := map[string]*int64{"rpm": &m.RPM, "tpm": &m.TPM, "ipm": &m.IPM, "opm": &m.OPM, "concurrent": &m.Concurrent,
		"max_tokens": &m.MaxTokens, "context": &m.Context}
	texts := map[string]*string{"api_version": &m.APIVersion, "deployment": &m.Deployment, "fallback": &m.Fallback}
	switch {
	case numbers[name] != nil:
		if *numbers[name], err = count(value); err != nil {
			return wrong("model %s: %s=%s: %v", m.Alias, name, clip.Short(value), err)
		}
	case texts[name] != nil:
		*texts[name] = value
	case name == "url":
		u, err := url.Parse(value)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return wrong("model %s: url is no http or https address", m.Alias)
		}
		if u.User != nil || u.RawQuery != "" {
			return wrong("model %s: url holds a name, a password or a query", m.Alias)
		}
		m.URL = strings.TrimSuffix(value, "/")
	case name == "key":
		if m.Key, err = ParseKey(value); err != nil {
			return wrong("model %s: %v", m.Alias, err)
		}
	case name == "price":
		if m.Price, err = parsePrice(value); err != nil {
			return wrong("model %s: price: %v", m.Alias, err)
		}
	default:
		all := []string{"url", "key", "price"}
		for n := range numbers {
			all = append(all, n)
		}
		for n := range texts {
			all = append(all, n)
		}
		slices.Sort(all)
		e := wrong("model %s: there is no option %q", m.Alias, clip.Short(name))
		if q := nearest.Question(name, all); q != "" {
			return e.WithHint("%s", q)
		}
		return e.WithHint("the options are %s", strings.Join(all, ", "))
	}
	return nil
}

// count reads a number as people write it: 500, 200k, 1m.
func count(text string) (int64, error) {
	digits, unit := text, int64(1)
	if last := len(text) - 1; last > 0 {
		switch text[last] {
		case 'k', 'K':
			digits, unit = text[:last], 1000
		case 'm', 'M':
			digits, unit = text[:last], 1_000_000
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 || n > 1<<50/unit {
		return 0, fmt.Errorf("it is no number above 0 such as 500, 200k or 2m")
	}
	return n * unit, nil
}

// ParseAll reads declarations, and checks what they say of each other.
func ParseAll(texts []string) ([]Model, error) {
	var all []Model
	for _, text := range texts {
		m, err := Parse(text)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	for i := range all {
		for at, steps := &all[i], 0; at.Fallback != ""; steps++ {
			next := slices.IndexFunc(all, func(m Model) bool { return m.Alias == at.Fallback })
			switch {
			case next < 0:
				return nil, wrong("model %s: its fallback %q is not declared", at.Alias, clip.Short(at.Fallback))
			case steps > len(all):
				return nil, wrong("model %s: its fallbacks lead in a circle", all[i].Alias)
			}
			at = &all[next]
		}
	}
	return all, nil
}

func wrong(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, "models", format, args...).WithHint("%s", Form)
}

// Limited describes the limits that were declared, for people: "500 requests/min, 200k tokens/min"; "": none.
func (m *Model) Limited() string {
	var parts []string
	for _, l := range []struct {
		n    int64
		what string
	}{{m.RPM, "requests/min"}, {m.TPM, "tokens/min"}, {m.IPM, "input tokens/min"}, {m.OPM, "output tokens/min"}, {m.Concurrent, "at a time"}} {
		if l.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", short(l.n), l.what))
		}
	}
	return strings.Join(parts, ", ")
}

// short writes a number as count reads it.
func short(n int64) string {
	switch {
	case n%1_000_000 == 0:
		return fmt.Sprintf("%dm", n/1_000_000)
	case n%1000 == 0:
		return fmt.Sprintf("%dk", n/1000)
	}
	return strconv.FormatInt(n, 10)
}
