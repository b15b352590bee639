package fetch

import (
	"net/http"
	"strings"

	"agentkernel/internal/clip"
)

const (
	maxHeaders       = 100
	maxHeaderBytes   = 64 << 10
	maxAnswerHeaders = 256 << 10
)

// ours are headers that decide how a message is framed or where it goes, which programs do not.
var ours = map[string]bool{
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Keep-Alive": true, "Te": true,
	"Trailer": true, "Upgrade": true, "Expect": true, "Accept-Encoding": true, "Http2-Settings": true,
}

// elsewhere are the headers that go along when a redirect leaves the host: those that cannot be a credential.
var elsewhere = map[string]bool{
	"Accept": true, "Accept-Language": true, "Cache-Control": true, "Content-Language": true, "Content-Type": true,
	"If-Modified-Since": true, "If-None-Match": true, "Range": true, "User-Agent": true,
}

// checkHeaders refuses headers that cannot be sent, or that are not a program's to set.
func checkHeaders(headers map[string]string) error {
	if len(headers) > maxHeaders {
		return invalid("%d headers are too many; the limit is %d", len(headers), maxHeaders)
	}
	size := 0
	seen := map[string]string{}
	for name, value := range headers {
		size += len(name) + len(value)
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !token(name):
			return invalid("%q is no name of a header", clip.Short(name))
		case ours[canonical] || strings.HasPrefix(canonical, "Proxy-"):
			return invalid("the header %s is set by the kernel", canonical)
		case seen[canonical] != "":
			return invalid("the header %s is there twice, as %q and %q", canonical, seen[canonical], name)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return invalid("the header %s holds a line break or another control character", canonical)
		}
		seen[canonical] = name
	}
	if size > maxHeaderBytes {
		return invalid("the headers are %d bytes long; the limit is %d", size, maxHeaderBytes)
	}
	return nil
}

// token says whether s is a token of RFC 9110, section 5.6.2.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
