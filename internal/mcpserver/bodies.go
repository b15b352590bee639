package mcpserver

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// A request is read whole before it is served, and a client may take minutes to send it: many large ones at once would fill
// the memory, though each is within its own limit.

// Bounds of the bodies that are held at once, in bytes.
const (
	maxBodies    = 256 << 20
	maxOwnBodies = 2 * maxRequest // of one principal
)

// bodyPause is how many seconds a client shall wait that was refused for the bodies under way.
const bodyPause = "5"

// bodies counts the bytes of the requests that are read or served.
type bodies struct {
	most, mostOwn int64

	mu  sync.Mutex
	all int64
	own map[string]int64 // by principal
}

func newBodies(most, mostOwn int64) *bodies {
	return &bodies{most: most, mostOwn: mostOwn, own: map[string]int64{}}
}

var (
	errOwnBodies = errors.New("the requests that you are sending are too large together: wait for the answers to some of them")
	errBodies    = errors.New("the requests that are being sent are too large together: try again later")
)

// fits says whether n bytes more of a principal may be held; nil: they may.
func (b *bodies) fits(principal string, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fitsLocked(principal, n)
}

func (b *bodies) fitsLocked(principal string, n int64) error {
	switch {
	case b.own[principal]+n > b.mostOwn:
		return errOwnBodies
	case b.all+n > b.most:
		return errBodies
	}
	return nil
}

// take counts n bytes more, if they fit.
func (b *bodies) take(principal string, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.fitsLocked(principal, n); err != nil {
		return err
	}
	b.all += n
	b.own[principal] += n
	return nil
}

// release gives back what take has counted.
func (b *bodies) release(principal string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= n
	if b.own[principal] -= n; b.own[principal] == 0 {
		delete(b.own, principal)
	}
}

// countedBody is a body whose bytes are counted as they come: what a client only announces takes no room.
type countedBody struct {
	io.Reader
	bodies    *bodies
	principal string
	taken     int64
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if full := c.bodies.take(c.principal, int64(n)); full != nil {
		return 0, full
	}
	c.taken += int64(n)
	return n, err
}

// refuseBody answers a request whose body cannot be held, or not be read.
func refuseBody(w http.ResponseWriter, err error) {
	status := http.StatusBadRequest
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, errOwnBodies):
		status = http.StatusTooManyRequests
	case errors.Is(err, errBodies):
		status = http.StatusServiceUnavailable
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", bodyPause)
	}
	http.Error(w, "the request cannot be read: "+err.Error(), status)
}
