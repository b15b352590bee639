package fetch

import (
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"agentkernel"
)

// redirection is where an answer sends the caller, "" if nowhere.
func redirection(resp *http.Response) string {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return resp.Header.Get("Location")
	}
	return ""
}

// redirected makes the request that a redirect asks for, under the same rules as the first.
func (f *Fetcher) redirected(h *hop, status int, location string, hosts []string) (*hop, error) {
	u, err := url.Parse(location)
	if err != nil || len(location) > maxURL {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, op, "%s redirects to something that is no url", h.to.host)
	}
	next := &hop{method: h.method, url: h.url.ResolveReference(u), headers: maps.Clone(h.headers), body: h.body}
	if next.url.Fragment == "" {
		next.url.Fragment = h.url.Fragment
	}
	if rewritten := methodAfter(status, h.method); rewritten != h.method {
		next.method, next.body = rewritten, nil
		maps.DeleteFunc(next.headers, func(name, _ string) bool {
			return strings.HasPrefix(http.CanonicalHeaderKey(name), "Content-")
		})
	}
	to, err := targetOf(next.url)
	if err != nil {
		return nil, redirectProblem(h, err)
	}
	if to != h.to {
		maps.DeleteFunc(next.headers, func(name, value string) bool {
			return !elsewhere[http.CanonicalHeaderKey(name)] || reference().MatchString(value)
		})
	}
	if err := f.direct(next, hosts); err != nil {
		return nil, redirectProblem(h, err)
	}
	return next, nil
}

// redirectProblem says whose wish it was; what a server asks for is no mistake in the program's arguments.
func redirectProblem(h *hop, err error) error {
	e := agentkernel.AsError(err, agentkernel.CodeDenied, op)
	c := agentkernel.Errorf(agentkernel.CodeDenied, op, "%s redirects: %s", h.to.host, e.Message())
	c.Hint = e.Hint
	return c
}

// methodAfter is the method behind a redirect, as clients have always done it (RFC 9110, section 15.4).
func methodAfter(status int, method string) string {
	switch {
	case status == http.StatusSeeOther && method != http.MethodHead,
		(status == http.StatusMovedPermanently || status == http.StatusFound) && method == http.MethodPost:
		return http.MethodGet
	}
	return method
}

// hostPort is the target as it stands in a URL.
func (t target) hostPort() string {
	host := t.host
	if t.addr.Is6() {
		host = "[" + host + "]"
	}
	if t.scheme == "https" && t.port == httpsPort || t.scheme == "http" && t.port == 80 {
		return host
	}
	return net.JoinHostPort(t.host, strconv.Itoa(int(t.port)))
}
