// Package deadline bounds how long the body of a request may take to come. The net/http server's own bound, ReadTimeout,
// would end streams and waits, too, which last as long as they like.
package deadline

import (
	"io"
	"net/http"
	"time"
)

// Bodies gives the body of each request so long to come.
func Bodies(patience time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.ContentLength != 0 {
			control := http.NewResponseController(w)
			if control.SetReadDeadline(time.Now().Add(patience)) == nil {
				r.Body = &body{r.Body, control}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// body is one whose deadline ends with it. While a handler reads none of it the deadline stands: the server reads what is
// left when the handler has returned.
type body struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF { //nolint:errorlint // as io.Reader has it
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
