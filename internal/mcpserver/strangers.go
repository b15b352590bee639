package mcpserver

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of connections: whoever reaches the port may open some, with no token.
const (
	// maxStrangers is how many may be open over which no token has come that counts. With the next one the oldest of them is closed.
	maxStrangers = 256
	// idlePatience is how long a connection may stay open between two requests.
	idlePatience = 2 * time.Minute
)

// strangers knows the connections over which nobody has shown a token yet.
type strangers struct {
	most int

	mu   sync.Mutex
	came map[net.Conn]int64 // at which place
	next int64
}

func newStrangers(most int) *strangers { return &strangers{most: most, came: map[net.Conn]int64{}} }

// strangerOf is the key of the connection of a request in its context.
type strangerOf struct{}

// opened is for http.Server.ConnContext.
func (s *strangers) opened(ctx context.Context, c net.Conn) context.Context {
	if oldest := s.add(c); oldest != nil {
		_ = oldest.Close() // nobody waits for it
	}
	return context.WithValue(ctx, strangerOf{}, c)
}

// add gives the one that has to go, if there are too many.
func (s *strangers) add(c net.Conn) (oldest net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	if s.came[c] = s.next; len(s.came) <= s.most {
		return nil
	}
	for other, at := range s.came {
		if oldest == nil || at < s.came[oldest] {
			oldest = other
		}
	}
	delete(s.came, oldest)
	return oldest
}

// changed is for http.Server.ConnState.
func (s *strangers) changed(c net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		s.forget(c)
	}
}

// known makes the connection of a request one of a client.
func (s *strangers) known(r *http.Request) {
	if c, ok := r.Context().Value(strangerOf{}).(net.Conn); ok {
		s.forget(c)
	}
}

func (s *strangers) forget(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.came, c)
}
