package tool

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentkernel/internal/jsonc"
)

// secretName matches names of variables and headers whose values are secrets whatever they look like.
var secretName = regexp.MustCompile(`(?i)key|token|secret|passw|passphrase|auth|cred|cookie|bearer|private|session|signature|dsn`)

// secret is a value of the configuration that must not come out again.
type secret struct {
	value  string
	mask   string // what stands in its place: "[GITHUB_TOKEN]"
	strong bool   // surely a secret: taken out of results, too
}

// redactor takes the secrets of one server out of texts. Weak ones (any other value of env) are taken out of
// errors and logs only: in a result, a value such as "production" may be data.
type redactor struct{ secrets []secret }

func (r *redactor) add(name, value string, isHeader bool) {
	strong := isHeader || secretName.MatchString(name)
	switch {
	case strong && len(value) < 4, !strong && (len(value) < 6 || harmless(value)):
		return
	}
	strong = strong && len(value) >= 8
	r.secrets = append(r.secrets, secret{value: value, mask: "[" + name + "]", strong: strong})
	if _, credential, ok := strings.Cut(value, " "); ok && isHeader && len(credential) >= 8 {
		r.secrets = append(r.secrets, secret{value: credential, mask: "[" + name + "]", strong: true})
	}
}

// seal orders the secrets so that one that contains another is replaced whole.
func (r *redactor) seal() {
	slices.SortFunc(r.secrets, func(a, b secret) int {
		if d := len(b.value) - len(a.value); d != 0 {
			return d
		}
		return strings.Compare(a.value+a.mask, b.value+b.mask)
	})
	r.secrets = slices.CompactFunc(r.secrets, func(a, b secret) bool { return a.value == b.value })
}

// harmless says that a value is a path, a number, a switch or an address without credentials.
func harmless(v string) bool {
	if strings.HasPrefix(v, "/") || strings.HasPrefix(v, "~/") || strings.HasPrefix(v, "./") {
		return true
	}
	if _, err := strconv.ParseFloat(v, 64); err == nil {
		return true
	}
	if u, err := url.Parse(v); err == nil && u.Scheme != "" && u.Host != "" {
		return u.User == nil && u.RawQuery == ""
	}
	return false
}

// text takes every secret out of a message for humans.
func (r *redactor) text(s string) string {
	for _, sec := range r.secrets {
		s = strings.ReplaceAll(s, sec.value, sec.mask)
	}
	return s
}

// result takes the certain secrets out of a JSON result; it stays valid JSON.
func (r *redactor) result(raw json.RawMessage) json.RawMessage {
	for _, sec := range r.secrets {
		if !sec.strong {
			continue
		}
		raw = replaceJSON(raw, sec.value, sec.mask)
	}
	return raw
}

// replaceJSON replaces value inside the strings of raw, never across them.
func replaceJSON(raw json.RawMessage, value, mask string) json.RawMessage {
	inner, with := jsonInner(value), jsonInner(mask)
	if !bytes.Contains(raw, inner) {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			out = append(out, raw[i])
			continue
		}
		end := jsonc.StringEnd(raw, i)
		out = append(out, bytes.ReplaceAll(raw[i:end+1], inner, with)...)
		i = end
	}
	return out
}

// jsonInner is s as it stands between the quotes of a JSON string.
func jsonInner(s string) []byte {
	b := appendJSONString(nil, s)
	return b[1 : len(b)-1]
}

// appendJSONString appends s as JSON without the HTML escapes of encoding/json.
func appendJSONString(b []byte, s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}
