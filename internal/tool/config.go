package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/jsonc"
	"agentkernel/internal/strictjson"
)

const opConfig = "tools config"

const configExample = `write {"mcpServers": {"name": {"command": "npx", "args": ["-y", "package"]}}}, or {"url": "https://..."} for a server on the network`

// entry is one server of one file, checked and with its variables filled in.
type entry struct {
	name      string
	file      string
	where     string // "line 3, column 7"
	transport string // "stdio" or "http"

	command string
	args    []string
	env     map[string]string
	cwd     string

	url     string
	headers map[string]string

	disabled     bool
	trusted      bool // its annotations count
	kept         bool // session: "kept"
	timeout      time.Duration
	startTimeout time.Duration
	concurrency  int
	program      int    // the os process whose functions its tools are, as long as it runs; 0: it is any other server
	prices       prices // not in hash: a server is the same whatever it costs

	hash    string // of everything above: two entries with one hash may share a process
	secrets redactor
	problem *agentkernel.Error // why it cannot be used; the other servers of the file can
	later   *rawEntry          // what it starts once the environment has what it lacks; nil: the file would have to change
}

// rawEntry is an entry as it stands in the file.
type rawEntry struct {
	Type         string            `json:"type"`
	Transport    string            `json:"transport"`
	Command      string            `json:"command"`
	Args         []string          `json:"args"`
	Env          map[string]string `json:"env"`
	Cwd          string            `json:"cwd"`
	URL          string            `json:"url"`
	Headers      map[string]string `json:"headers"`
	Disabled     bool              `json:"disabled"`
	Trusted      *bool             `json:"trusted"`
	Session      string            `json:"session"`
	Timeout      span              `json:"timeout"`
	StartTimeout span              `json:"startTimeout"`
	Concurrency  int               `json:"concurrency"`
	CostUSD      prices            `json:"cost_usd"`
	Program      int               `json:"program"`
}

// span is a length of time: a number of seconds, or text such as "30s".
type span time.Duration

func (s *span) UnmarshalJSON(b []byte) error {
	var seconds float64
	if json.Unmarshal(b, &seconds) == nil && seconds >= 0 && seconds < 1e9 {
		*s = span(seconds * float64(time.Second))
		return nil
	}
	var text string
	if json.Unmarshal(b, &text) == nil {
		if d, err := time.ParseDuration(text); err == nil && d >= 0 {
			*s = span(d)
			return nil
		}
	}
	return fmt.Errorf(`%s is not a length of time: write seconds as a number (30) or text ("30s", "5m")`, b)
}

// parseConfig reads the entries of one MCP configuration file. A file that is no JSON is an error; an entry
// that is wrong is returned with its problem, so that it does not cost the user the other servers.
func parseConfig(file string, src []byte, lookup func(string) (string, bool)) ([]*entry, error) {
	return parseConfigAs(file, src, lookup, nil)
}

// parseConfigAs fills in what shown has for a variable, which is not its value: that is what actual has. A path whose beginning is a
// variable is thereby as absolute as it would be.
func parseConfigAs(file string, src []byte, shown, actual func(string) (string, bool)) ([]*entry, error) {
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	clean := jsonc.Plain(src)
	bad := func(offset int64, format string, args ...any) error {
		return agentkernel.Errorf(agentkernel.CodeInvalid, opConfig, "%s, %s: %s", file, jsonc.Position(src, offset),
			fmt.Sprintf(format, args...)).WithHint("%s", configExample)
	}
	if len(bytes.TrimSpace(clean)) == 0 {
		return nil, bad(0, "the file is empty")
	}
	var probe json.RawMessage
	if err := json.Unmarshal(clean, &probe); err != nil {
		at, _ := strictjson.Offset(err)
		return nil, bad(at, "not JSON: %s", strictjson.Reason(err, clean))
	}
	p := &configParser{file: file, src: src, dec: json.NewDecoder(bytes.NewReader(clean)), bad: bad, lookup: shown, actual: actual}
	return p.parse()
}

type configParser struct {
	file   string
	src    []byte
	dec    *json.Decoder
	bad    func(offset int64, format string, args ...any) error
	lookup func(string) (string, bool)
	actual func(string) (string, bool) // see expander
}

func (p *configParser) parse() ([]*entry, error) {
	if tok, _ := p.dec.Token(); tok != json.Delim('{') {
		return nil, p.bad(0, "the file must hold a JSON object")
	}
	var keys []string
	var entries []*entry
	found := false
	for p.dec.More() {
		key, _ := p.dec.Token()
		name, _ := key.(string)
		if name != "mcpServers" && name != "servers" {
			keys = append(keys, name)
			var skip json.RawMessage
			if err := p.dec.Decode(&skip); err != nil {
				return nil, p.bad(p.dec.InputOffset(), "not JSON: %v", err)
			}
			continue
		}
		found = true
		list, err := p.servers(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, list...)
	}
	if !found {
		what := "it is empty"
		if len(keys) > 0 {
			what = "it has " + quoteList(keys)
		}
		return nil, p.bad(0, `there is no "mcpServers" in the file (%s)`, what)
	}
	return entries, nil
}

func (p *configParser) servers(key string) ([]*entry, error) {
	start := p.dec.InputOffset()
	if tok, _ := p.dec.Token(); tok != json.Delim('{') {
		return nil, p.bad(start, "%q must be an object of servers by name", key)
	}
	var entries []*entry
	for p.dec.More() {
		tok, _ := p.dec.Token()
		name, _ := tok.(string)
		at := p.dec.InputOffset() - int64(len(name)) - 2
		if name == "" {
			return nil, p.bad(at, "a server has an empty name")
		}
		if slices.ContainsFunc(entries, func(e *entry) bool { return e.name == name }) {
			return nil, p.bad(at, "server %q stands in the file twice", name)
		}
		var raw json.RawMessage
		if err := p.dec.Decode(&raw); err != nil {
			return nil, p.bad(p.dec.InputOffset(), "not JSON: %v", err)
		}
		entries = append(entries, p.entry(name, raw, at, p.dec.InputOffset()-int64(len(raw))))
	}
	_, _ = p.dec.Token()
	return entries, nil
}

// entry checks one server. at is the offset of its name, body that of its object.
func (p *configParser) entry(name string, raw json.RawMessage, at, body int64) *entry {
	e := &entry{name: name, file: p.file, where: jsonc.Position(p.src, at), trusted: true, transport: "stdio"}
	fail := func(offset int64, err error) *entry {
		e.problem = agentkernel.Errorf(agentkernel.CodeInvalid, opConfig, "server %q (%s, %s): %w", name, p.file,
			jsonc.Position(p.src, offset), err)
		return e
	}
	var r rawEntry
	if err := json.Unmarshal(raw, &r); err != nil {
		if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fail(body+typ.Offset-1, fmt.Errorf("%q must be %s, not %s", strictjson.Place(typ, raw), goTypeInWords(typ.Type.String()), typ.Value))
		}
		return fail(at, err)
	}
	if err := strictjson.CheckKnown(raw, r); err != nil {
		return fail(at, err)
	}
	e.disabled = r.Disabled
	if r.Trusted != nil {
		e.trusted = *r.Trusted
	}
	e.timeout, e.startTimeout, e.concurrency = time.Duration(r.Timeout), time.Duration(r.StartTimeout), r.Concurrency
	e.prices = r.CostUSD
	if err := e.fill(&r, raw); err != nil {
		return fail(at, err)
	}
	if e.transport == "http" { // a command is started again where it has ended
		e.program = r.Program
	}
	x := &expander{lookup: p.lookup, actual: p.actual, folder: filepath.Dir(p.file)}
	if err := e.resolve(&r, x); err != nil {
		e.later = &r
		return fail(at, err)
	}
	e.hash = e.digest()
	return e
}

// fill decides the transport and checks what needs no environment.
func (e *entry) fill(r *rawEntry, raw json.RawMessage) error {
	kind := r.Type
	if kind == "" {
		kind = r.Transport
	}
	switch strings.ToLower(strings.ReplaceAll(kind, "_", "-")) {
	case "":
		if r.URL != "" && r.Command == "" {
			e.transport = "http"
		}
	case "stdio", "local":
	case "http", "streamable-http", "streamablehttp", "remote":
		e.transport = "http"
	case "sse":
		return errors.New(`type "sse" is the transport of 2024 and not supported: most servers now also offer streamable HTTP, often under /mcp: write "type": "http" and that url`)
	default:
		return fmt.Errorf(`type %q is not known: write "stdio" (with "command") or "http" (with "url")`, kind)
	}
	switch {
	case e.transport == "stdio" && r.Command == "" && r.URL != "":
		return errors.New(`type "stdio" needs a "command"; for this "url" write "type": "http"`)
	case e.transport == "stdio" && r.Command == "":
		return fmt.Errorf(`there is neither "command" nor "url"%s`, similarKeys(raw))
	case e.transport == "http" && r.URL == "":
		return errors.New(`type "http" needs a "url"`)
	case e.transport == "http" && r.Command != "":
		return errors.New(`there are both "command" and "url": keep one`)
	case r.Session != "" && r.Session != "kept" && r.Session != "none":
		return fmt.Errorf(`session %q is not known: write "kept" if the server remembers things between calls, or leave it out`, r.Session)
	case r.Concurrency < 0 || r.Concurrency > 10_000:
		return fmt.Errorf("concurrency %d is out of range: 1 to 10000", r.Concurrency)
	}
	e.kept = r.Session == "kept"
	return nil
}

// resolve fills in variables and paths, and notes the secrets.
func (e *entry) resolve(r *rawEntry, x *expander) error {
	var err error
	expand := func(s string) string {
		v, xerr := x.expand(s)
		if xerr != nil && err == nil {
			err = xerr
		}
		return v
	}
	e.command, e.cwd, e.url = expandHome(expand(r.Command), x), expandHome(expand(r.Cwd), x), expand(r.URL)
	if err != nil {
		return err
	}
	if e.args, err = x.all(r.Args); err != nil {
		return err
	}
	if e.env, err = x.values(r.Env); err != nil {
		return err
	}
	if e.headers, err = x.values(r.Headers); err != nil {
		return err
	}
	e.noteSecrets(x)
	if e.transport == "http" {
		u, uerr := url.Parse(e.url)
		if uerr != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return errors.New(`"url" is not an http or https address`)
		}
		return nil
	}
	cwd := e.cwd
	if x.actual != nil {
		y := &expander{lookup: x.actual, folder: x.folder}
		if cwd, err = y.expand(r.Cwd); err != nil {
			return err
		}
		cwd = expandHome(cwd, y)
	}
	if !filepath.IsAbs(cwd) {
		e.cwd = x.join(x.folder, e.cwd)
	}
	return nil
}

func (e *entry) noteSecrets(x *expander) {
	for k, v := range e.env {
		e.secrets.add(k, v, false)
	}
	for k, v := range e.headers {
		e.secrets.add(k, v, true)
	}
	for k, v := range x.used {
		e.secrets.add(k, v, false)
	}
	for _, values := range []map[string]string{e.env, e.headers, x.used} {
		for _, v := range values {
			e.secrets.addAddresses(v)
		}
	}
	e.secrets.addArguments(e.args)
	if u, err := url.Parse(e.url); err == nil && e.url != "" {
		if pw, ok := u.User.Password(); ok {
			e.secrets.add("url password", pw, true)
		}
		for k, vs := range u.Query() {
			for _, v := range vs {
				e.secrets.add("url "+k, v, false)
			}
		}
	}
	e.secrets.seal()
}

func expandHome(path string, x *expander) string {
	if path == "~" {
		path = "~/"
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, found := x.lookup("HOME"); found {
			return x.join(home, rest)
		}
	}
	return path
}

// digest identifies what would be started.
func (e *entry) digest() string {
	b, err := json.Marshal([]any{e.transport, e.command, e.args, e.env, e.cwd, e.url, e.headers, e.trusted, e.kept,
		e.timeout, e.startTimeout, e.concurrency, e.disabled})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// similarKeys names the keys of an entry that has no command, in case one is a slip of the pen.
func similarKeys(raw json.RawMessage) string {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || len(m) == 0 {
		return ""
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return " (it has " + quoteList(keys) + ")"
}

func quoteList(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(q, ", ")
}

func goTypeInWords(t string) string {
	switch t {
	case "string":
		return "text"
	case "bool":
		return "true or false"
	case "int":
		return "a whole number"
	case "[]string":
		return "a list of texts"
	case "map[string]string":
		return "an object of texts"
	}
	return "an object"
}
