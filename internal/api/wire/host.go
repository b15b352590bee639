package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"agentkernel"
)

// UpgradeHost is the protocol to which the connection of a host is upgraded: docs/hosted.md.
const UpgradeHost = "agentkernel-host"

// Beat is how often each side of a host's connection says something. Who hears nothing for three beats takes the other for gone.
const Beat = 10 * time.Second

// MaxLine is the size in bytes of the longest line of a host's connection.
const MaxLine = 64 << 20

// HostLine is a line of a host: a call, the end, or a sign of life.
type HostLine struct {
	agentkernel.HostedCall
	End *agentkernel.HostedEnd `json:"end,omitempty"`
}

// BeatLine is a sign of life.
const BeatLine = "{}\n"

// Attached is the first line of a kernel.
type Attached struct {
	agentkernel.Attached
	Beat int `json:"beat"` // seconds
}

// KernelLine is a line of a kernel: what came of the call at Place, why the attachment is over, or that it has begun.
type KernelLine struct {
	*agentkernel.Place
	Result   json.RawMessage      `json:"result,omitempty"`
	Error    *agentkernel.Error   `json:"error,omitempty"`
	Attached *Attached            `json:"attached,omitempty"`
	Ended    *agentkernel.Process `json:"ended,omitempty"`
	Failure  *agentkernel.Error   `json:"failure,omitempty"`
}

// ErrSilent says that nothing was heard for three beats, ErrLine that a line was too long.
var (
	ErrSilent = errors.New("nothing came for three beats")
	ErrLine   = fmt.Errorf("a line is longer than %d MiB", MaxLine>>20)
)

// Lines is a connection on which both sides write lines of JSON, and signs of life. Send may be called by many at the same time,
// ReadLine by one.
type Lines struct {
	conn  net.Conn
	r     *bufio.Reader
	beat  time.Duration
	timer *time.Timer

	mu      sync.Mutex
	room    sync.Cond // what is pending has been written
	pending []byte
	spare   []byte
	writing bool // somebody writes what is pending
	said    bool // something, since the last beat
	failed  error
}

// NewLines takes a connection over. r has what was read of it already.
func NewLines(conn net.Conn, r *bufio.Reader, beat time.Duration) *Lines {
	l := &Lines{conn: conn, r: r, beat: beat}
	l.room.L = &l.mu
	l.timer = time.AfterFunc(beat, l.tick)
	return l
}

// tick sends a sign of life if nothing else was said.
func (l *Lines) tick() {
	l.mu.Lock()
	silent := !l.said
	l.said = false
	over := l.failed != nil
	l.mu.Unlock()
	if over {
		return
	}
	if silent {
		l.write([]byte(BeatLine))
	}
	l.timer.Reset(l.beat)
}

// Send writes v as a line. It does not wait for the other side: see Room. An error is that of ReadLine, too.
func (l *Lines) Send(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	if b.Len() > MaxLine {
		return ErrLine
	}
	l.write(b.Bytes())
	return nil
}

// write adds to what is pending. If nobody writes it, the caller does.
func (l *Lines) write(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return
	}
	l.pending, l.said = append(l.pending, line...), true
	if l.writing {
		return
	}
	l.writing = true
	for len(l.pending) > 0 && l.failed == nil {
		sending := l.pending
		l.pending = l.spare[:0]
		l.mu.Unlock()
		_ = l.conn.SetWriteDeadline(time.Now().Add(3 * l.beat))
		_, err := l.conn.Write(sending)
		l.mu.Lock()
		if cap(sending) <= 64<<10 {
			l.spare = sending
		} else {
			l.spare = nil
		}
		if err != nil {
			l.fail(err)
		}
		l.room.Broadcast()
	}
	l.writing = false
}

// fail ends the connection; mu is held.
func (l *Lines) fail(err error) {
	if l.failed == nil {
		l.failed = err
	}
	l.pending = nil
	l.timer.Stop()
	_ = l.conn.Close()
	l.room.Broadcast()
}

// Room waits until fewer than most bytes are pending: a host that reads no answers gets no more of them.
func (l *Lines) Room(most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending) >= most && l.failed == nil {
		l.room.Wait()
	}
}

// ReadLine gives the next line, without its end; signs of life are passed over. What it gives is valid until the next call.
func (l *Lines) ReadLine() ([]byte, error) {
	var long []byte
	for {
		_ = l.conn.SetReadDeadline(time.Now().Add(3 * l.beat))
		part, err := l.r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if len(long)+len(part) > MaxLine {
				return nil, ErrLine
			}
			long = append(long, part...)
			continue
		case err != nil:
			return nil, l.readError(err)
		case long != nil:
			part = append(long, part...)
			long = nil
		}
		if line := bytes.TrimSpace(part); len(line) > 0 && string(line) != "{}" {
			return line, nil
		}
	}
}

func (l *Lines) readError(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return ErrSilent
	case l.failed != nil && !errors.Is(l.failed, net.ErrClosed):
		return l.failed
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close ends the connection, once what is pending has been written, or cannot be within a second.
func (l *Lines) Close() {
	late := time.AfterFunc(time.Second, func() { _ = l.conn.Close() })
	defer late.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.writing && l.failed == nil {
		l.room.Wait()
	}
	l.fail(net.ErrClosed)
}
