package main

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// host is the surroundings of the command: what a test replaces.
type host struct {
	args           []string
	env            []string
	in             io.Reader
	out, err       io.Writer
	inTTY          bool
	outTTY, errTTY bool
	width          func() int
	workingDir     func() (string, error)
	userHome       string
	// signals delivers those that ask the command to stop. Interrupts come as os.Interrupt.
	signals func() (<-chan os.Signal, func())
	// askTTY opens the terminal that a human answers on; nil if there is none.
	askTTY func() (io.ReadCloser, error)
}

func systemHost(args []string) host {
	home, _ := os.UserHomeDir()
	h := host{
		args: args, env: os.Environ(), in: os.Stdin, out: os.Stdout, err: os.Stderr,
		inTTY: term.IsTerminal(int(os.Stdin.Fd())), outTTY: term.IsTerminal(int(os.Stdout.Fd())), errTTY: term.IsTerminal(int(os.Stderr.Fd())),
		width: terminalWidth, workingDir: os.Getwd, userHome: home, signals: systemSignals,
	}
	if h.errTTY {
		h.askTTY = func() (io.ReadCloser, error) { return os.Open("/dev/tty") }
	}
	return h
}

func terminalWidth() int {
	if w, _, err := term.GetSize(int(os.Stderr.Fd())); err == nil && w > 0 {
		return w
	}
	return 80
}

func systemSignals() (<-chan os.Signal, func()) {
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return ch, func() { signal.Stop(ch) }
}

func (h host) getenv(name string) string {
	v, _ := h.lookupEnv(name)
	return v
}

func (h host) lookupEnv(name string) (string, bool) {
	for i := len(h.env) - 1; i >= 0; i-- {
		if v := h.env[i]; len(v) > len(name) && v[len(name)] == '=' && v[:len(name)] == name {
			return v[len(name)+1:], true
		}
	}
	return "", false
}
