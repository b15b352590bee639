// Package connlimit bounds how many connections of a listener are open at one moment. Each takes a descriptor of the process, and a kernel
// without any can neither write to its store nor start a worker.
package connlimit

import (
	"bytes"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// reserved are the descriptors that are left for everything else at least.
	reserved = 64
	// least is how many connections there may be however few descriptors there are.
	least = 4
)

// Most is how many connections may take up one in so many of the descriptors that the process may have.
func Most(parts int) int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return most(1024, parts)
	}
	const plenty = 1 << 20 // more are not there, whatever the limit is
	return most(int(min(l.Cur, plenty)), parts)
}

func most(descriptors, parts int) int {
	return max(least, min(descriptors/parts, descriptors-reserved))
}

// How long those are waited for who are beyond the bound.
const (
	// patience is how long a new connection waits for another to be closed. Where they all stay, those behind it do not wait once more.
	patience = time.Second
	// askingPatience is how long one that is turned away may take to send its request, and bodyPatience to read the refusal and to
	// write what is left.
	askingPatience = 500 * time.Millisecond
	bodyPatience   = 100 * time.Millisecond
	// turningMost is how many are turned away at one moment; others wait with the system.
	turningMost = reserved / 2
	// longestHead bounds what of a request is read before the refusal.
	longestHead = 64 << 10
)

// Bound bounds a listener to so many open connections. One beyond them waits a moment for another to be closed; then it is sent the refusal,
// a whole answer of HTTP, and closed.
func Bound(ln net.Listener, most int, refusal []byte) net.Listener {
	return &listener{Listener: ln, refusal: refusal, places: make(chan struct{}, most), turning: make(chan struct{}, turningMost), closed: make(chan struct{})}
}

type listener struct {
	net.Listener
	refusal []byte
	places  chan struct{} // one for each connection that is open
	turning chan struct{} // one for each that is turned away
	closed  chan struct{}
	once    sync.Once
	until   time.Time // how long new ones wait, since the listener was full; zero: it was not. Accept's
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.enter() {
			return &conn{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
		}
		l.turnAway(c)
	}
}

// enter takes a place. False: there is none.
func (l *listener) enter() bool {
	select {
	case l.places <- struct{}{}:
		l.until = time.Time{}
		return true
	default:
	}
	if l.until.IsZero() {
		l.until = time.Now().Add(patience)
	}
	timer := time.NewTimer(time.Until(l.until))
	defer timer.Stop()
	select {
	case l.places <- struct{}{}:
		l.until = time.Time{}
		return true
	case <-timer.C:
	case <-l.closed:
	}
	return false
}

// turnAway refuses a connection in the background.
func (l *listener) turnAway(c net.Conn) {
	select {
	case l.turning <- struct{}{}:
		go func() {
			l.refuse(c)
			<-l.turning
		}()
	case <-l.closed:
		_ = c.Close()
	}
}

// refuse reads a request before it answers, and what comes after it: a client that is still writing would be told of a broken connection, and
// not read why.
func (l *listener) refuse(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(askingPatience))
	var head []byte
	for b := make([]byte, 4<<10); !bytes.Contains(head, []byte("\r\n\r\n")) && len(head) < longestHead; {
		n, err := c.Read(b)
		if err != nil { // it says nothing, and may still listen
			break
		}
		head = append(head, b[:n]...)
	}
	_ = c.SetDeadline(time.Now().Add(bodyPatience))
	if _, err := c.Write(l.refusal); err != nil {
		return
	}
	if lower := bytes.ToLower(head); !bytes.Contains(lower, []byte("\r\ncontent-length:")) && !bytes.Contains(lower, []byte("\r\ntransfer-encoding:")) {
		return // no body comes behind it
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// conn gives its place back when it is closed.
type conn struct {
	net.Conn
	leave func()
}

func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// CloseWrite lets package net/http end an answer before all of the request has come, as it does with connections of package net.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
