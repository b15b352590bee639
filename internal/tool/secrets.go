package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/jsonc"
	"agentkernel/internal/lazy"
)

// secretName matches names of variables and headers whose values are secrets whatever they look like.
var secretName = lazy.Regexp(`(?i)key|token|secret|passw|passphrase|auth|cred|cookie|bearer|private|session|signature|dsn`)

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
	strong := isHeader || secretName().MatchString(name)
	switch {
	case strong && len(value) < 4, !strong && (len(value) < 6 || harmless(value)):
		return
	}
	strong = strong && len(value) >= 8
	r.keep(value, name, strong)
	if _, credential, ok := strings.Cut(value, " "); ok && isHeader && len(credential) >= 8 {
		r.keep(credential, name, true)
	}
}

// keep notes a secret, and how it stands in a text that is itself JSON (a tool that shows a file), or an address.
func (r *redactor) keep(value, name string, strong bool) {
	forms := []string{value, strings.ReplaceAll(value, "/", `\/`), url.QueryEscape(value), url.PathEscape(value), string(jsonInner(value))}
	if html, err := json.Marshal(value); err == nil { // with & < > escaped
		forms = append(forms, string(html[1:len(html)-1]))
	}
	if ascii := strconv.QuoteToASCII(value); strings.Contains(ascii, `\u`) {
		forms = append(forms, ascii[1:len(ascii)-1])
	}
	for i, form := range forms {
		if i == 0 || !slices.Contains(forms[:i], form) {
			r.secrets = append(r.secrets, secret{value: form, mask: "[" + name + "]", strong: strong})
		}
	}
}

// noteSecrets takes the certain secrets of entries in. A tool of one server may read what another server was
// given (a file server the configuration itself), so all of them are taken out of the results of each.
func (h *Hub) noteSecrets(entries []*entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := &redactor{}
	if have := h.secrets.Load(); have != nil {
		all.secrets = slices.Clone(have.secrets)
	}
	for _, e := range entries {
		all.secrets = append(all.secrets, e.secrets.certain()...)
	}
	all.seal()
	h.secrets.Store(all)
}

// redact takes the secrets of all servers out of what a call gave.
func (h *Hub) redact(r agentkernel.ToolResult, err error) (agentkernel.ToolResult, error) {
	all := h.secrets.Load()
	if all == nil || len(all.secrets) == 0 {
		return r, err
	}
	r.Value = all.result(r.Value)
	if e, ok := errors.AsType[*agentkernel.Error](err); ok && e.Err != nil {
		if text := e.Err.Error(); all.text(text) != text {
			clean := *e
			clean.Err = errors.New(all.text(text))
			return r, &clean
		}
	}
	return r, err
}

// certain are the secrets that surely are some.
func (r *redactor) certain() []secret {
	return slices.DeleteFunc(slices.Clone(r.secrets), func(s secret) bool { return !s.strong })
}

// argument matches what carries a secret in one argument: --api-key=VALUE, API_KEY=VALUE, "Authorization: VALUE".
var argument = lazy.Regexp(`^-{0,2}([A-Za-z][A-Za-z0-9_.-]*)\s*([:=])\s*(\S.*)$`)

// argumentName is the end of a name whose value on a command line is a secret: an --author is none.
var argumentName = lazy.Regexp(`(?i)(key|token|secret|password|passwd|passphrase|auth|authorization|credentials?|cookie|bearer|dsn)$`)

// addArguments notes the secrets on a command line.
func (r *redactor) addArguments(args []string) {
	for i, arg := range args {
		if m := argument().FindStringSubmatch(arg); m != nil && argumentName().MatchString(m[1]) && !harmless(m[3]) {
			r.add(m[1], m[3], m[2] == ":")
		}
		flag := strings.TrimLeft(arg, "-")
		if flag != arg && argumentName().MatchString(flag) && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") && !harmless(args[i+1]) {
			r.add(flag, args[i+1], false)
		}
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
	// Writers may escape what need not be ("\/", "\u0026"), but never letters, digits and the like.
	plain := longestPlain(value)
	spelled := plain != value && bytes.IndexByte(raw, '\\') >= 0
	if !bytes.Contains(raw, []byte(plain)) || !spelled && !bytes.Contains(raw, inner) {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			out = append(out, raw[i])
			continue
		}
		end := jsonc.StringEnd(raw, i)
		text := raw[i : end+1]
		if spelled && bytes.IndexByte(text, '\\') >= 0 {
			out = append(out, replaceSpelled(text, value, mask)...)
		} else {
			out = append(out, bytes.ReplaceAll(text, inner, with)...)
		}
		i = end
	}
	return out
}

var plainRun = lazy.Regexp(`[A-Za-z0-9._~-]+`)

// longestPlain is the longest part of a text that every writer of JSON writes as it is.
func longestPlain(s string) string {
	longest := ""
	for _, run := range plainRun().FindAllString(s, -1) {
		if len(run) > len(longest) {
			longest = run
		}
	}
	return longest
}

// replaceSpelled replaces value in a JSON string, however it is written there.
func replaceSpelled(text []byte, value, mask string) []byte {
	var plain string
	if json.Unmarshal(text, &plain) != nil || !strings.Contains(plain, value) {
		return text
	}
	return appendJSONString(nil, strings.ReplaceAll(plain, value, mask))
}

// jsonInner is s as it stands between the quotes of a JSON string.
func jsonInner(s string) []byte {
	b := appendJSONString(nil, s)
	return b[1 : len(b)-1]
}

// appendJSONString appends s as canonical JSON.
func appendJSONString(b []byte, s string) []byte {
	if b == nil {
		b = make([]byte, 0, len(s)+len(s)/32+2)
	}
	return journal.AppendString(b, strings.ToValidUTF8(s, "\ufffd"))
}
