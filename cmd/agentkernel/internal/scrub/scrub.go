// Package scrub takes secrets out of texts that people send to others: values that are known to be secret, and
// whatever looks like one. It errs on the side of taking out too much. It must never keep, log or return what it found.
package scrub

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentkernel/internal/lazy"
	"agentkernel/internal/redact"
)

// minSecret is the length in bytes below which a value is no secret by itself: "1", "true" and "dev" stand everywhere.
const minSecret = 5

// Scrubber knows secrets. The zero value knows what secrets look like.
type Scrubber struct {
	// Also are others who know secrets and take them out of a text, each after the one before.
	Also []func(string) string
	// AlsoNumbers take them out of a number of JSON: what they return for it is another value where it is a secret.
	AlsoNumbers []func(json.RawMessage) json.RawMessage

	// known are values, in their forms, and what stands in their places. A process may have kept tens of thousands: each text is looked
	// through once, and where a value begins its lengths say what to look up.
	known   map[string]string
	lengths map[start][]int // the longest first: a secret may be part of another
	numbers redact.Numbers
}

// start is how a value begins.
type start [minSecret]byte

// secretName are names of variables, settings and fields whose values are secret.
var secretName = lazy.Regexp(`(?i)secret|token|passw|passphrase|pwd|credential|api_?-?key|access_?-?key|private_?-?key|_key$|^key$|auth|cookie|session|dsn|bearer|signature|(database|redis|mongo|postgres|amqp|broker).*(url|uri)`)

// SecretName says whether what has this name is not for others.
func SecretName(name string) bool { return secretName().MatchString(name) }

// Add makes a value known under a name, in the forms in which it may turn up.
func (s *Scrubber) Add(name, value string) {
	value = strings.TrimSpace(value)
	if len(value) < minSecret {
		return
	}
	mask := "[" + name + "]"
	if s.numbers == nil {
		s.numbers = redact.Numbers{}
	}
	s.numbers.Add(value, mask)
	quoted := strconv.Quote(value)
	inJSON, _ := json.Marshal(value) // a string always encodes
	for _, form := range []string{value, quoted[1 : len(quoted)-1], string(inJSON[1 : len(inJSON)-1]),
		base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
		hex.EncodeToString([]byte(value)), url.QueryEscape(value), url.PathEscape(value)} {
		s.learn(form, mask)
	}
}

func (s *Scrubber) learn(form, mask string) {
	if _, have := s.known[form]; have {
		return
	}
	if s.known == nil {
		s.known, s.lengths = map[string]string{}, map[start][]int{}
	}
	s.known[form] = mask
	at := start([]byte(form[:minSecret]))
	i, have := slices.BinarySearchFunc(s.lengths[at], len(form), func(a, b int) int { return b - a })
	if !have {
		s.lengths[at] = slices.Insert(slices.Clone(s.lengths[at]), i, len(form)) // a clone of s has the old ones
	}
}

// mask puts names in the places of what is known.
func (s *Scrubber) mask(text string) string {
	var b strings.Builder
	done := 0
	for at := 0; at+minSecret <= len(text) && len(s.known) > 0; {
		lengths := s.lengths[start([]byte(text[at:at+minSecret]))]
		i := slices.IndexFunc(lengths, func(n int) bool { return at+n <= len(text) && s.known[text[at:at+n]] != "" })
		if i < 0 {
			at++
			continue
		}
		end := at + lengths[i]
		b.WriteString(text[done:at])
		b.WriteString(s.known[text[at:end]])
		at, done = end, end
	}
	if done == 0 {
		return text
	}
	b.WriteString(text[done:])
	return b.String()
}

// Clone is a Scrubber that knows the same, and may learn more.
func (s *Scrubber) Clone() *Scrubber {
	return &Scrubber{Also: slices.Clone(s.Also), AlsoNumbers: slices.Clone(s.AlsoNumbers), known: maps.Clone(s.known),
		lengths: maps.Clone(s.lengths), numbers: maps.Clone(s.numbers)}
}

// AddEnvironment makes the values of variables known whose names or values are those of secrets.
func (s *Scrubber) AddEnvironment(env []string) {
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if SecretName(name) || looks(value) {
			s.Add(name, value)
		}
	}
}

// shapes are texts that are secrets whoever wrote them; what stands in the first group stays. The last is a name with a value.
var shapes = []func() *regexp.Regexp{
	lazy.Regexp(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`),
	lazy.Regexp(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`),
	lazy.Regexp(`\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}`),
	lazy.Regexp(`\b(?:gh[pousr]|github_pat|glpat|xox[abeoprs]|npm|pypi|hf|dop_v1|shpat|AIza|ya29)[-_.]?[A-Za-z0-9_-]{16,}`),
	lazy.Regexp(`\b(?:AKIA|ASIA)[0-9A-Z]{12,}`),
	lazy.Regexp(`(?i)\b((?:bearer|basic|digest)\s+)[A-Za-z0-9._~+/=-]{6,}`),
	lazy.Regexp(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s"'@]+@`),
	lazy.Regexp(`(?i)([a-z0-9_.-]*(?:secret|token|passw(?:or)?d|passphrase|credential|api[_-]?key|access[_-]?key|authorization)[a-z0-9_-]*\\?["']?\s*[=:]\s*\\?["']?)[^\s"',;&)}\]\\]{3,}`),
}

func looks(value string) bool {
	return slices.ContainsFunc(shapes, func(shape func() *regexp.Regexp) bool { return shape().MatchString(value) })
}

const removed = "[removed]"

// Text gives a text without secrets.
func (s *Scrubber) Text(text string) string { return s.text(text, shapes) }

func (s *Scrubber) text(text string, shapes []func() *regexp.Regexp) string {
	for _, also := range s.Also {
		text = also(text)
	}
	text = s.mask(text)
	for _, shape := range shapes {
		re := shape()
		text = re.ReplaceAllStringFunc(text, func(found string) string {
			kept := ""
			if m := re.FindStringSubmatch(found); len(m) > 1 {
				kept = m[1]
			}
			if strings.HasPrefix(found[len(kept):], "[") { // taken out already, by its name
				return found
			}
			if strings.HasSuffix(found, "@") && strings.HasSuffix(kept, "://") {
				return kept + removed + "@"
			}
			return kept + removed
		})
	}
	return text
}

// JSON gives a value as indented JSON without secrets: in every string and number, in every name, and whole where a name says so.
func (s *Scrubber) JSON(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	plain, err := decode(text)
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(s.clean(plain, false, false), "", "  ")
}

// decode reads a value; numbers stay as they are written.
func decode(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// clean takes secrets out of a value. text and number say that the name of the value, or of the list that it is in, is that of a secret which is a
// text, or a number: counts of tokens are none, and neither is what is too short for one.
func (s *Scrubber) clean(v any, text, number bool) any {
	switch v := v.(type) {
	case string:
		if text && v != "" {
			return removed
		}
		return s.Text(v)
	case json.Number:
		if number && len(v) >= minSecret {
			return removed
		}
		return s.number(v)
	case []any:
		for i := range v {
			v[i] = s.clean(v[i], text, number)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		in, called := pairName(v)
		for name, value := range v {
			switch {
			case in != "" && name == in:
				out[name] = s.Text(called)
			case in != "" && name == pairValue:
				out[name] = s.named(called, value)
				if text, ok := value.(string); ok && SecretName(called) {
					s.Add("removed", text) // what a program keeps under such a name is in other places, too
				}
			default:
				out[s.Text(name)] = s.named(name, value)
			}
		}
		return out
	}
	return v
}

func (s *Scrubber) named(name string, value any) any {
	secret := SecretName(name)
	return s.clean(value, secret, secret && !strings.Contains(strings.ToLower(name), "tokens"))
}

// pairValue is the field with the value of a pair that is written as one object, as arguments of state.set and lists of headers have it.
const pairValue = "value"

// pairName is the field with the name in such an object, and that name; "" if it is none.
func pairName(v map[string]any) (field, name string) {
	if _, ok := v[pairValue]; ok {
		for _, field := range []string{"key", "name"} {
			if name, ok := v[field].(string); ok {
				return field, name
			}
		}
	}
	return "", ""
}

// number is the number, or what stands in its place if it is a secret.
func (s *Scrubber) number(v json.Number) any {
	if mask := s.numbers.Mask(string(v)); mask != "" {
		return mask
	}
	for _, also := range s.AlsoNumbers {
		if clean := also(json.RawMessage(v)); string(clean) != string(v) {
			return clean
		}
	}
	return v
}

// Redaction is a Scrubber as recordings in a report want it.
type Redaction struct{ *Scrubber }

// literal is a name of a secret with its value in quotes, in a program.
var literal = lazy.Regexp(`(?i)[a-z0-9_.-]*(?:secret|token|passw(?:or)?d|passphrase|credential|api[_-]?key|access[_-]?key|authorization)[a-z0-9_-]*["']?\s*[=:]\s*["']([^"'\s]+)["']`)

// Source gives program text without secrets: what stands in quotes behind the name of one is known from then on, and code
// behind such a name stays, so that the program stays one.
func (r Redaction) Source(text string) string {
	for _, m := range literal().FindAllStringSubmatch(text, -1) {
		r.Add("removed", m[1])
	}
	return r.text(text, shapes[:len(shapes)-1])
}

// JSON gives a value without secrets, as that of a Scrubber; other numbers stay as they are written.
func (r Redaction) JSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return raw
	}
	v, err := decode(raw)
	if err != nil {
		return raw
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(r.clean(v, false, false)) != nil { // what was decoded can be encoded
		return raw
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

var (
	// secretBlock are the parts of a tools file in which every value may be a secret.
	secretBlock = lazy.Regexp(`"(?:env|headers)"\s*:\s*\{([^}]*)\}`)
	pair        = lazy.Regexp(`("(?:[^"\\]|\\.)*")\s*:\s*("(?:[^"\\]|\\.)*")`)
)

// AddConfig makes known what a tools file keeps secret. The file need not be well-formed: one that is not, is a reason
// for a report.
func (s *Scrubber) AddConfig(text []byte) {
	add := func(part []byte, all bool) {
		for _, m := range pair().FindAllSubmatch(part, -1) {
			var name, value string
			if json.Unmarshal(m[1], &name) == nil && json.Unmarshal(m[2], &value) == nil && (all || SecretName(name)) {
				s.Add(name, value)
			}
		}
	}
	for _, m := range secretBlock().FindAllSubmatch(text, -1) {
		add(m[1], true)
	}
	add(text, false)
}
