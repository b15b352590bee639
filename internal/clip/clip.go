// Package clip keeps what a program, a client or a file says short where it stands in a message.
package clip

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// The most that is kept, in bytes.
const (
	most = 100
	long = 64 << 10
)

// Short is at most the first 100 bytes of s, cut between words where there are any, and three dots for what is missing.
func Short(s string) string {
	if len(s) <= most {
		return s
	}
	s = strings.ToValidUTF8(s[:most], "")
	if i := strings.LastIndexByte(s, ' '); i > most/2 {
		s = s[:i]
	}
	return s + "..."
}

// Long is at most the first 64 KiB of s, whole letters, and three dots for what is missing.
func Long(s string) string {
	if len(s) <= long {
		return s
	}
	return strings.ToValidUTF8(s[:long], "") + "..."
}

// At is at most about the first n bytes of s, whole letters, and for what is missing how long s is.
func At(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := n
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "... (" + strconv.Itoa(len(s)) + " bytes)"
}
