package tool

import (
	"bytes"
	"encoding/base64"
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
	"agentkernel/internal/redact"
)

// secretName matches names of variables and headers whose values are secrets whatever they look like.
var secretName = lazy.Regexp(`(?i)key|token|secret|passw|passphrase|auth|cred|cookie|bearer|private|session|signature|dsn`)

// secret is a value of the configuration that must not come out again.
type secret struct {
	value  string
	mask   string // what stands in its place: "[GITHUB_TOKEN]"
	of     string // the tools file of the program that it belongs to, and ends with; "": it is of any other server
	strong bool   // surely a secret: taken out of results, too
}

// minStrong is how long a value is at least that is surely a secret.
const minStrong = 8

// redactor takes the secrets of one server out of texts, however they are spelled. Weak ones (any other value of env) are
// taken out of errors and logs only: in a result, a value such as "production" may be data.
type redactor struct {
	secrets []secret
	all     redact.Set
	surely  redact.Set     // the strong ones
	numbers redact.Numbers // of the strong ones
}

func (r *redactor) add(name, value string, isHeader bool) {
	strong := isHeader || secretName().MatchString(name)
	switch {
	case strong && len(value) < 4, !strong && (len(value) < 6 || harmless(value)):
		return
	}
	strong = strong && len(value) >= minStrong
	r.secrets = append(r.secrets, secret{value: value, mask: "[" + name + "]", strong: strong})
	if _, credential, ok := strings.Cut(value, " "); ok && isHeader && len(credential) >= minStrong {
		r.secrets = append(r.secrets, secret{value: credential, mask: "[" + name + "]", strong: true})
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
		if e.program != 0 {
			all.secrets = slices.DeleteFunc(all.secrets, func(s secret) bool { return s.of == e.file })
		}
	}
	for _, e := range entries {
		for _, sec := range e.secrets.certain() {
			if e.program != 0 {
				sec.of = e.file
			}
			all.secrets = append(all.secrets, sec)
		}
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
		r.addAddresses(arg)
		flag := strings.TrimLeft(arg, "-")
		if flag != arg && argumentName().MatchString(flag) && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") && !harmless(args[i+1]) {
			r.add(flag, args[i+1], false)
		}
	}
}

// userInfo matches what stands before the host of an address: a name and a password, or a token alone.
var userInfo = lazy.Regexp(`[a-zA-Z][a-zA-Z0-9+.-]*://(?:[^\s/@:"']*:([^\s/"']+)|([^\s/@:"']{20,}))@`)

// addAddresses notes the passwords in the addresses of a text, as they are written and as they are meant.
func (r *redactor) addAddresses(text string) {
	for _, m := range userInfo().FindAllStringSubmatch(text, -1) {
		password := m[1] + m[2]
		r.add("url password", password, true)
		if meant, err := url.PathUnescape(password); err == nil && meant != password {
			r.add("url password", meant, true)
		}
	}
}

// seal makes the secrets that were added ready. Of those with the same value one has the mask.
func (r *redactor) seal() {
	slices.SortFunc(r.secrets, func(a, b secret) int { return strings.Compare(a.value+a.mask, b.value+b.mask) })
	r.all, r.surely, r.numbers = redact.Set{}, redact.Set{}, redact.Numbers{}
	for _, sec := range r.secrets {
		r.all.Add(sec.value, sec.mask)
		if sec.strong {
			r.surely.Add(sec.value, sec.mask)
			if secretName().MatchString(sec.mask) { // an account's number in a header is none
				r.numbers.Add(sec.value, sec.mask)
			}
		}
	}
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
func (r *redactor) text(s string) string { return r.all.String(s) }

// result takes the certain secrets out of a JSON result; it stays valid JSON.
func (r *redactor) result(raw json.RawMessage) json.RawMessage {
	return redactJSON(&r.surely, r.numbers, raw)
}

// redactJSON takes secrets out of the strings of raw, never across them. Numbers that are secrets become strings.
func redactJSON(secrets *redact.Set, numbers redact.Numbers, raw json.RawMessage) json.RawMessage {
	if secrets.Empty() || len(numbers) == 0 && bytes.IndexByte(raw, '\\') < 0 && same(secrets.Bytes(raw), raw) {
		return raw
	}
	out := make([]byte, 0, len(raw))
	named := false // what comes next is the value of $bytes
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			named = named && (raw[i] == ':' || raw[i] == ' ')
			if end := numberEnd(raw, i); end > i && len(numbers) > 0 {
				if mask := numbers.Mask(string(raw[i:end])); mask != "" {
					out = appendJSONString(out, mask)
				} else {
					out = append(out, raw[i:end]...)
				}
				i = end - 1
				continue
			}
			out = append(out, raw[i])
			continue
		}
		end := jsonc.StringEnd(raw, i)
		text := raw[i : end+1]
		if clean, ok := redactBytes(secrets, text, named); ok {
			out = append(out, clean...)
		} else {
			out = append(out, redactString(secrets, text)...)
		}
		named = string(text) == `"$bytes"`
		i = end
	}
	return out
}

// numberEnd is where the number ends that begins at from; from: none does.
func numberEnd(raw []byte, from int) int {
	if c := raw[from]; c != '-' && (c < '0' || c > '9') {
		return from
	}
	end := from + 1
	for end < len(raw) && strings.IndexByte("0123456789+-.eE", raw[end]) >= 0 {
		end++
	}
	return end
}

// redactBytes takes secrets out of the bytes that a JSON string stands for, in base64: a mask amid the base64 would make it none.
func redactBytes(secrets *redact.Set, text []byte, named bool) (clean []byte, ok bool) {
	if !named {
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(string(bytes.Trim(text, `"`)))
	if err != nil {
		return nil, false
	}
	return strconv.AppendQuote(nil, base64.StdEncoding.EncodeToString(secrets.Bytes(b))), true
}

// same says whether nothing was taken out.
func same(clean, of []byte) bool { return len(of) == 0 || len(clean) == len(of) && &clean[0] == &of[0] }

// redactString takes secrets out of what a JSON string stands for: in the string itself a part of an escape may look
// like a part of a secret.
func redactString(secrets *redact.Set, text []byte) []byte {
	var plain string
	if bytes.IndexByte(text, '\\') < 0 && same(secrets.Bytes(text), text) {
		return text
	}
	if json.Unmarshal(text, &plain) != nil {
		return text
	}
	clean := secrets.String(plain)
	if clean == plain {
		return text
	}
	return appendJSONString(nil, clean)
}

// appendJSONString appends s as canonical JSON.
func appendJSONString(b []byte, s string) []byte {
	if b == nil {
		b = make([]byte, 0, len(s)+len(s)/32+2)
	}
	return journal.AppendString(b, strings.ToValidUTF8(s, "\ufffd"))
}
