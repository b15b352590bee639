package fetch

import (
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/lazy"
	"agentkernel/internal/redact"
)

// secret is an entry of the setting `secrets`: where a value is, and where it may go.
type secret struct {
	name  string
	env   string // variable of the kernel, or
	file  string // path
	hosts []pattern
	texts []string // of hosts
}

var secretName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

const secretForm = `write "NAME env:VARIABLE HOST..." or "NAME file:PATH HOST...", such as "github env:GITHUB_TOKEN api.github.com"` //nolint:gosec // names a variable, no secret

// parseSecrets reads entries: a name, a source, and the hosts to which the value may go.
func parseSecrets(entries []string) (map[string]*secret, error) {
	out := map[string]*secret{}
	for _, entry := range entries {
		s, err := parseSecret(entry)
		if err != nil {
			return nil, err
		}
		if out[s.name] != nil {
			return nil, badSecret("secret %q is there twice", s.name)
		}
		out[s.name] = s
	}
	return out, nil
}

// CheckSecret says what is wrong with an entry of secrets, without showing it. Nothing is read.
func CheckSecret(entry string) error {
	_, err := parseSecret(entry)
	return err
}

// badSecret never shows an entry: somebody may have written a value into it.
func badSecret(format string, args ...any) error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, "secrets", format, args...).WithHint("%s", secretForm)
}

func parseSecret(entry string) (*secret, error) {
	fields := strings.Fields(entry)
	if len(fields) == 0 || !secretName().MatchString(fields[0]) {
		return nil, badSecret("an entry of secrets does not begin with a name of letters, digits, _, - and .")
	}
	s := &secret{name: fields[0]}
	if len(fields) == 1 { // the value itself, perhaps
		return nil, badSecret("an entry of secrets is one word: it names no source, and no host to which it may go")
	}
	if len(fields) < 3 {
		return nil, badSecret("secret %q names no source, or no host to which it may go", s.name)
	}
	kind, where, _ := strings.Cut(fields[1], ":")
	switch {
	case kind == "env" && where != "":
		s.env = where
	case kind == "file" && filepath.IsAbs(where):
		s.file = where
	case kind == "file":
		return nil, badSecret("secret %q: the path of its file is not absolute", s.name)
	default:
		return nil, badSecret("secret %q: its source is neither env:VARIABLE nor file:PATH", s.name)
	}
	for _, text := range fields[2:] {
		p, err := parsePattern(text)
		if err != nil {
			return nil, badSecret("secret %q: %s", s.name, agentkernel.AsError(err, agentkernel.CodeInvalid, "").Message())
		}
		if p.any {
			return nil, badSecret("secret %q would go to every host", s.name)
		}
		s.hosts, s.texts = append(s.hosts, p), append(s.texts, text)
	}
	return s, nil
}

// shortestSecret is the length below which a value cannot be taken out of an answer without taking out what is none.
const shortestSecret = 8

// value reads the secret, each time anew: files of secrets are replaced while a kernel runs.
func (s *secret) value(lookup func(string) (string, bool)) (string, error) {
	var v string
	if s.env != "" {
		v, _ = lookup(s.env)
	} else {
		b, err := os.ReadFile(s.file)
		if err != nil {
			return "", agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the file of secret %q cannot be read", s.name).
				WithHint("the kernel reads the file that the setting secrets names, as its own user")
		}
		v = string(b)
	}
	v = strings.TrimSpace(v)
	switch {
	case v == "":
		return "", agentkernel.Errorf(agentkernel.CodeUnavailable, op, "secret %q has no value", s.name).
			WithHint("a variable is read from the kernel's own environment: set it, then agentkernel shutdown")
	case len(v) < shortestSecret:
		return "", agentkernel.Errorf(agentkernel.CodeUnavailable, op, "secret %q is shorter than %d characters and could not be kept out of answers", s.name, shortestSecret)
	case strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", agentkernel.Errorf(agentkernel.CodeUnavailable, op, "secret %q holds characters that no header can carry", s.name)
	}
	return v, nil
}

// mayGo says whether the secret may be sent to a target: one that its entry names, and encrypted unless the entry
// names the address and port of a private service.
func (s *secret) mayGo(t target) error {
	for _, p := range s.hosts {
		if p.matches(t) && (t.scheme == "https" || t.addr.IsValid() && p.host == t.host && classify(t.addr) == private) {
			return nil
		}
	}
	if t.scheme != "https" {
		return denied("secret %q does not go to %s, which is not encrypted", s.name, t).WithHint("use https")
	}
	return denied("secret %q may not go to %s, only to %s", s.name, t, strings.Join(s.texts, ", ")).
		WithHint("add the host to its entry in the setting secrets, if that is meant")
}

// known are the values that may come back to a program: those of all secrets that it could have had sent to the hosts that it reaches,
// by this request or by another. Some servers show the last request, to whomever asks. What cannot be read cannot be sent.
func (f *Fetcher) known(hosts []string) values {
	out := values{}
	for name, s := range *f.secrets.Load() {
		if !s.reachable(hosts) {
			continue
		}
		if v, err := s.value(f.cfg.Env); err == nil {
			out[name] = v
		}
	}
	return out
}

// reachable says whether one of the hosts of the secret may be among those of some patterns.
func (s *secret) reachable(hosts []string) bool {
	for _, text := range hosts {
		q, err := parsePattern(text)
		if err == nil && slices.ContainsFunc(s.hosts, q.overlaps) {
			return true
		}
	}
	return false
}

// partial are the headers that ask for a part of an answer.
var partial = map[string]bool{"Range": true, "If-Range": true, "Request-Range": true}

// checkWhole refuses to ask for a part of an answer of a host to which a secret may go: it may show a part of the secret, which nobody
// recognizes.
func (f *Fetcher) checkWhole(h *hop) error {
	for name := range h.headers {
		canonical := http.CanonicalHeaderKey(name)
		if !partial[canonical] {
			continue
		}
		for _, s := range *f.secrets.Load() {
			if slices.ContainsFunc(s.hosts, func(p pattern) bool { return p.matches(h.to) }) {
				return denied("the header %s is not sent to %s: a secret may go there, and a part of one could not be kept out of a part of an answer", canonical, h.to).
					WithHint("fetch the whole: max_bytes may be up to %d", MaxBody)
			}
		}
	}
	return nil
}

// reference is a secret in a header value.
var reference = lazy.Regexp(`\{\{\s*secret:([^{}]*?)\s*\}\}`)

// references lists the secrets that headers name. CodeInvalid: there is no such secret.
func (f *Fetcher) references(headers map[string]string) ([]*secret, error) {
	var out []*secret
	known := *f.secrets.Load()
	for _, v := range headers {
		for _, m := range reference().FindAllStringSubmatch(v, -1) {
			s := known[m[1]]
			if s == nil {
				return nil, invalid("there is no secret %q", clip.Short(m[1])).
					WithHint("secrets are named in the setting secrets: agentkernel config show")
			}
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out, nil
}

// values are the secrets of one request, by name.
type values map[string]string

func (f *Fetcher) values(secrets []*secret) (values, error) {
	out := values{}
	for _, s := range secrets {
		v, err := s.value(f.cfg.Env)
		if err != nil {
			return nil, err
		}
		out[s.name] = v
	}
	return out, nil
}

// fill puts the values in the places of their names.
func (v values) fill(text string) string {
	return reference().ReplaceAllStringFunc(text, func(m string) string { return v[reference().FindStringSubmatch(m)[1]] })
}

// redactor takes secrets out of what comes back.
type redactor struct{ redact.Set }

// redactor knows the values, in whatever form servers give them back. Those of known are further ones; where two have one value, it has
// the name in v. Names of hosts and of headers come in lower case.
func (v values) redactor(known values) *redactor {
	r := &redactor{}
	for _, list := range []values{v, known} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			value, mask := list[name], "[secret:"+name+"]"
			r.Add(value, mask)
			if low := strings.ToLower(value); low != value {
				r.Add(low, mask)
			}
		}
	}
	return r
}

func (r *redactor) header(h http.Header) http.Header {
	out := make(http.Header, len(h))
	for name, list := range h {
		clean := make([]string, len(list))
		for i, v := range list {
			clean[i] = r.String(v)
		}
		low := strings.ToLower(name) // as programs get it; on the way its letters were changed already
		if masked := r.String(low); masked != low {
			name = masked
		}
		out[name] = append(out[name], clean...)
	}
	return out
}

func (r *redactor) failure(err error) error {
	var e *agentkernel.Error
	if !errors.As(err, &e) || r.Empty() {
		return err
	}
	c := agentkernel.Errorf(e.Code, e.Op, "%s", r.String(e.Message()))
	c.Hint = r.String(e.Hint)
	return c
}
