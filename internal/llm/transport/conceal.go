package transport

import (
	"strings"
	"unicode/utf8"

	"agentkernel/internal/clip"
	"agentkernel/internal/redact"
)

// window is how many bytes in a row make a quotation of what was asked. Shorter ones are words that any message may have.
const window = 16

const (
	maxMessage  = 1 << 10
	shortestKey = 6 // a shorter one is no secret, and part of many words
)

// conceal takes the key and what was asked out of a message of a server, and makes it short. Servers quote both: "Incorrect
// API key provided: ...", "Invalid value: ...".
func (x *Exchange) conceal(message string) string {
	const marks = len("...")
	if len(x.key) >= shortestKey {
		var secrets redact.Set
		secrets.Add(x.key, "[key]")
		message = withoutHalf(secrets.String(message), x.key) // before it is cut: half of a key would not be found
	}
	message = clip.Long(message)
	message = strings.ToValidUTF8(message, "\ufffd")
	message = strings.Join(strings.FieldsFunc(message, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-marks], "") + "..."
	}
	if x.call.Asked == nil || message == "" {
		return message
	}
	// Where quotations are, by the bytes that they begin with.
	at := map[[window]byte][]int{}
	var may filter // by their first bytes: a conversation has half a million places where one may begin
	for i := 0; i+window <= len(message); i++ {
		var w [window]byte
		copy(w[:], message[i:])
		at[w] = append(at[w], i)
		may.add(message[i:])
	}
	quoted := make([]bool, len(message))
	for text := range x.call.Asked {
		if len(text) < window {
			markShort(message, text, quoted)
		}
		for i := 0; i+window <= len(text); i++ {
			if !may.has(text[i:]) {
				continue
			}
			var w [window]byte
			copy(w[:], text[i:])
			for _, from := range at[w] {
				for k := from; k < from+window; k++ {
					quoted[k] = true
				}
			}
			delete(at, w) // or a text that repeats itself would mark a message that does a million times
		}
	}
	return cutOut(message, quoted)
}

// withoutHalf is a text without the beginning of a key with which it ends: the body of an answer may have been cut in the middle of it.
func withoutHalf(text, key string) string {
	for n := min(len(key)-1, len(text)); n >= shortestKey; n-- {
		if strings.HasSuffix(text, key[:n]) {
			return text[:len(text)-n]
		}
	}
	return text
}

// filter knows the first four bytes of texts, and some that it was not told.
type filter [1 << 10]uint64

func (f *filter) add(s string) {
	at := place(s)
	f[at/64] |= 1 << (at % 64)
}

func (f *filter) has(s string) bool {
	at := place(s)
	return f[at/64]&(1<<(at%64)) != 0
}

// place is one of 65,536, by the first four bytes.
func place(s string) uint32 {
	const golden, shift = 0x9e3779b1, 16
	return (uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24) * golden >> shift
}

// markShort marks a whole text that is short, where it stands between quotation marks.
func markShort(message, text string, quoted []bool) {
	if len(text) == 0 {
		return
	}
	for from := 0; ; {
		i := strings.Index(message[from:], text)
		if i < 0 {
			return
		}
		i += from
		from = i + 1
		if end := i + len(text); i > 0 && end < len(message) && strings.IndexByte("'\"`", message[i-1]) >= 0 && message[end] == message[i-1] {
			for k := i; k < end; k++ {
				quoted[k] = true
			}
		}
	}
}

// cutOut puts a mark in place of what is quoted.
func cutOut(message string, quoted []bool) string {
	var b strings.Builder
	for i := 0; i < len(message); {
		_, n := utf8.DecodeRuneInString(message[i:])
		in := false
		for k := i; k < i+n; k++ {
			in = in || quoted[k]
		}
		if !in {
			b.WriteString(message[i : i+n])
		} else if i == 0 || !quoted[i-1] {
			b.WriteString("[...]")
		}
		i += n
	}
	return b.String()
}
