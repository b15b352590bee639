package agentkernel

import (
	"context"
	"net/http"
	"time"
)

// Fetcher makes the HTTP requests of programs (syscall http.fetch), from outside every sandbox. It is safe for
// concurrent use.
type Fetcher interface {
	// CheckHosts refuses patterns of Spec.AllowHosts that are none: CodeInvalid.
	CheckHosts(patterns []string) error
	// Admit says whether a request may be made at all, without any network: CodeInvalid if it is none, CodeDenied if
	// no pattern allows its host (the hint names the flag), a secret may not go there, or it asks for a part of an answer where one may.
	Admit(r FetchRequest) error
	// Fetch makes the request, Admit included, and follows redirects. Errors besides those of Admit: CodeDenied, the
	// host is at an address that programs do not reach, or a redirect leads somewhere that is not allowed;
	// CodeLimit, the answer is larger than MaxBytes; CodeTimeout; CodeUnavailable, no answer, or half of one. With an
	// error FetchResponse.Settled says what is known of the outcome.
	Fetch(ctx context.Context, r FetchRequest) (FetchResponse, error)
}

// DefaultFetchTimeout is how long a request may take that says nothing of it.
const DefaultFetchTimeout = 30 * time.Second

// FetchRequest is one request of a program.
type FetchRequest struct {
	URL     string
	Method  string            // upper case; see FetchEffect
	Headers map[string]string // values may name secrets: "Bearer {{secret:NAME}}"
	Body    []byte
	// Hosts are the patterns of Spec.AllowHosts.
	Hosts     []string
	Timeout   time.Duration // of everything; 0: DefaultFetchTimeout
	MaxBytes  int64         // of the body, decompressed; 0: 10 MiB
	Redirects int           // at most
	// Key is sent as Idempotency-Key with methods that are neither safe nor idempotent.
	Key string
}

// FetchResponse is what a server answered.
type FetchResponse struct {
	Status  int
	URL     string      // where the answer came from, behind all redirects
	Headers http.Header // secrets are taken out, of Body as well
	Body    []byte      // decompressed
	// Settled, with an error, says that the outcome is known all the same: nothing was sent, or the server had
	// answered. Otherwise the request may or may not have been acted upon.
	Settled bool
	// Done, if not nil, gives back the room that the body takes among all that is being received. It is called once the kernel has
	// what became of the body.
	Done func()
}

// FetchEffect is the class of a request by its method; "" for methods that programs may not use.
func FetchEffect(method string) Effect {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return EffectRead
	case http.MethodPut, http.MethodDelete:
		return EffectIdempotent
	case http.MethodPost, http.MethodPatch:
		return EffectWrite
	}
	return ""
}
