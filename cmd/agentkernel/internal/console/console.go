// Package console writes to the user's terminal, or to the pipes that stand in for it: program output, notes,
// errors, colours, and a progress line that never ends up in a file. It is the one place through which
// everything goes that a terminal is shown, and takes out what a terminal would obey (screen.go).
//
// It must never decide what is said; it only keeps several writers from spoiling one another's lines.
package console

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Console is both output streams of a command. It is safe for concurrent use.
type Console struct {
	cfg Config

	mu       sync.Mutex
	midLine  bool // the cursor of the terminal stands behind unfinished output
	drawn    bool // the progress line is on the screen
	behind   bool // the cursor stands behind a question
	held     int  // questions on the screen: no progress line and no output meanwhile
	waiting  []waiting
	out, err screen
	lastText time.Time
	broken   error // stdout was closed by its reader
}

// waiting is output that came while a question was on the screen: a program could answer it in our words.
type waiting struct {
	text  string
	toErr bool
}

// Config says what the streams are.
type Config struct {
	Out, Err       io.Writer
	OutTTY, ErrTTY bool
	Color          bool       // colours on those streams that are terminals
	Width          func() int // columns of the terminal; nil: 80
	Dumb           bool       // a terminal on which nothing can be erased: no progress
	// Commands makes the commands in notes and hints those that are meant here; nil: they are.
	Commands func(string) string
	Quiet    bool // no notes and no progress, only output and errors
}

// New makes a Console.
func New(cfg Config) *Console {
	if cfg.Width == nil {
		cfg.Width = func() int { return 80 }
	}
	if cfg.Commands == nil {
		cfg.Commands = func(text string) string { return text }
	}
	return &Console{cfg: cfg, lastText: time.Now()}
}

// Interactive says whether a human sees the notes.
func (c *Console) Interactive() bool { return c.cfg.ErrTTY }

// OutColor says whether standard output takes colours.
func (c *Console) OutColor() bool { return c.cfg.Color && c.cfg.OutTTY }

// ErrColor says whether standard error takes colours.
func (c *Console) ErrColor() bool { return c.cfg.Color && c.cfg.ErrTTY }

// OutTTY says whether standard output is a terminal.
func (c *Console) OutTTY() bool { return c.cfg.OutTTY }

// Width is the number of columns of the terminal.
func (c *Console) Width() int { return c.cfg.Width() }

// Out writes program output or a command's answer to standard output: unchanged to a file or a pipe, as a
// terminal may see it to a terminal. Once the reader of a pipe has gone, further output is dropped and the error
// is remembered.
func (c *Console) Out(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output(text, false)
}

// TookOut says whether anything that was given to Out was kept from the terminal.
func (c *Console) TookOut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.took
}

// output writes to one of the streams, or keeps the text until a question has been answered.
func (c *Console) output(text string, toErr bool) {
	tty := c.cfg.OutTTY
	if toErr {
		tty = c.cfg.ErrTTY
	}
	if c.held > 0 && tty {
		c.waiting = append(c.waiting, waiting{text, toErr})
		return
	}
	c.erase()
	switch {
	case toErr && tty:
		text = c.err.show(text)
		fallthrough
	case toErr:
		io.WriteString(c.cfg.Err, text)
	default:
		if tty {
			text = c.out.show(text)
		}
		if c.broken == nil {
			_, c.broken = io.WriteString(c.cfg.Out, text)
		}
	}
	c.wrote(text, tty)
}

// plain gives back the terminal's own style where a program has chosen another.
func (c *Console) plain() {
	if reset := c.out.own(); reset != "" && c.broken == nil {
		_, c.broken = io.WriteString(c.cfg.Out, reset)
	}
	if reset := c.err.own(); reset != "" {
		io.WriteString(c.cfg.Err, reset)
	}
}

// Close gives the terminal back as it was found.
func (c *Console) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plain()
}

// Broken is the error with which standard output refused, if it did.
func (c *Console) Broken() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// Err is Out for standard error.
func (c *Console) Err(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output(text, true)
}

func (c *Console) wrote(text string, tty bool) {
	c.lastText = time.Now()
	if tty && text != "" {
		c.midLine = !strings.HasSuffix(text, "\n")
	}
}

// Note writes one dim line to standard error: something to know that is not an answer.
func (c *Console) Note(format string, args ...any) {
	if !c.cfg.Quiet {
		c.line("2", c.cfg.Commands(fmt.Sprintf(format, args...)))
	}
}

// Say is Note for what the user must not miss; it is not silenced.
func (c *Console) Say(format string, args ...any) {
	c.line("", c.cfg.Commands(fmt.Sprintf(format, args...)))
}

// Error writes "error: ..." in red, and "hint: ..." under it if there is one.
func (c *Console) Error(message, hint string) {
	c.line("31;1", "error: ", message)
	c.Hint(hint)
}

// Hint writes "hint: ...", if there is one.
func (c *Console) Hint(hint string) {
	if hint != "" {
		c.line("36", "hint: ", c.cfg.Commands(hint))
	}
}

// line writes one line of its own; style applies to the first part.
func (c *Console) line(style, first string, rest ...string) {
	first = Clean(first)
	if style != "" && c.cfg.Color && c.cfg.ErrTTY {
		first = "\x1b[" + style + "m" + first + "\x1b[0m"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	c.plain()
	text := first + Clean(strings.Join(rest, "")) + "\n"
	if c.midLine {
		text = "\n" + text
	}
	io.WriteString(c.cfg.Err, text)
	c.wrote(text, c.cfg.ErrTTY)
	c.midLine, c.behind = false, false
}

// Prompt writes a question of one line without a line end, and keeps everything else from the terminal until the
// returned function is called: what stands last on the screen is the question. It calls before, if there is one, when
// nothing but the question is written any more.
func (c *Console) Prompt(text string, before func()) (done func()) {
	text = Line(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	c.plain()
	if before != nil {
		before()
	}
	if c.midLine {
		text = "\n" + text
	}
	io.WriteString(c.cfg.Err, text)
	c.midLine = false // the answer's own line end follows
	c.behind = true
	c.held++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.release(1)
	}
}

// Unasked ends the questions that nobody will answer any more: what they have kept back is written, on a line of its own.
func (c *Console) Unasked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == 0 {
		return
	}
	if c.behind {
		io.WriteString(c.cfg.Err, "\n")
	}
	c.midLine = false
	c.release(c.held)
}

// release ends n questions; c.mu is held.
func (c *Console) release(n int) {
	c.held, c.behind = max(c.held-n, 0), false
	c.lastText = time.Now()
	late := c.waiting
	c.waiting = nil
	for _, w := range late {
		c.output(w.text, w.toErr)
	}
}

// Echoed says that the terminal itself wrote something, as ^C: the next line starts afresh.
func (c *Console) Echoed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.midLine = c.midLine || c.cfg.ErrTTY && !c.drawn
}

// Silence is how long nothing has been written.
func (c *Console) Silence() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.lastText)
}

// Progress draws the progress line over the last one; "" takes it away. It is drawn on a terminal only, at
// the beginning of a line only, and never into a question.
func (c *Console) Progress(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.cfg.ErrTTY || c.cfg.Quiet || c.cfg.Dumb || c.midLine || c.held > 0 {
		return
	}
	c.erase()
	if text == "" {
		return
	}
	c.plain()
	text = clip(Line(text), c.cfg.Width()-1)
	if c.cfg.Color {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	io.WriteString(c.cfg.Err, text)
	c.drawn = true
}

func (c *Console) erase() {
	if c.drawn {
		io.WriteString(c.cfg.Err, "\r\x1b[K")
		c.drawn = false
	}
}

// clip cuts text to n columns, counting one for each rune.
func clip(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	if n < 1 {
		return ""
	}
	return string([]rune(text)[:n-1]) + "…"
}
