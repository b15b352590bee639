package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"agentkernel"
	"agentkernel/internal/llm/models"
)

type llmKeyCmd struct {
	Model string      `arg:"" name:"alias" help:"The model: its alias, or of the second line with one alias#2."`
	PID   optionalPID `name:"pid" placeholder:"PID" help:"A process of the tree that has brought the model; without it, the settings declare it."`
}

func (llmKeyCmd) Help() string {
	return `The key is read from standard input, or at a terminal from a line that is not shown; it is never an argument. It is for a model that is
declared with key=given, takes the place of the one before, and is in the memory of the running kernel alone: when that ends it is
gone. Calls that wait for it go on.

` + examples("agentkernel llm key fast", "pass show openai | agentkernel llm key fast", "agentkernel llm key fast --pid 12")
}

func (c *llmKeyCmd) Run(a *app) error {
	var pid agentkernel.PID
	if c.PID != "" {
		var err error
		if pid, err = agentkernel.ParsePID(string(c.PID)); err != nil {
			return err
		}
	}
	if a.cli.Embedded {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "llm key", "with --embedded the kernel ends with this command, and the key with it").
			WithHint("leave --embedded out")
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	if pid == 0 { // what a program brings is known when it first asks
		if err := c.wanted(a, k); err != nil { // before anybody is asked for a key that goes nowhere
			return err
		}
	}
	key, err := a.readKey(c.Model)
	if err != nil {
		return err
	}
	if key, err = models.Clean(key); err != nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "llm key", "what was given is no key: %w", err).
			WithHint("it comes from standard input, or is typed: agentkernel llm key %s <FILE", c.Model)
	}
	if err := k.GiveKey(a.ctx, pid, c.Model, key); err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(givenKey{c.Model, pid})
	}
	a.con.Note("the kernel has the key of %s until it ends", c.Model)
	return nil
}

// wanted says why a model is given no key. The kernel has the words for it, and refuses a key that is none last.
func (c *llmKeyCmd) wanted(a *app, k agentkernel.Kernel) error {
	l, err := k.ModelLimits(a.ctx)
	if err != nil {
		return err
	}
	for i := range l.Deployments {
		if d := &l.Deployments[i]; d.Name == c.Model && d.Given && d.Tree == 0 {
			return nil
		}
	}
	return k.GiveKey(a.ctx, 0, c.Model, "")
}

// givenKey says whose key was given.
type givenKey struct {
	Model string          `json:"model"`
	PID   agentkernel.PID `json:"pid,omitempty"` // that has brought it
}

// mostKey is how much of standard input is read for a key: more is none.
const mostKey = 128 << 10

// readKey reads the key of a model from standard input, without an echo where that is a terminal.
func (a *app) readKey(model string) (string, error) {
	in, ok := a.in.(*os.File)
	if !ok || !a.inTTY {
		text, err := io.ReadAll(io.LimitReader(a.in, mostKey))
		if err != nil {
			return "", agentkernel.Errorf(agentkernel.CodeInvalid, "llm key", "standard input cannot be read: %w", err)
		}
		return string(text), nil
	}
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", agentkernel.Errorf(agentkernel.CodeInvalid, "llm key", "the terminal cannot be read: %w", err)
	}
	signals, ignore := a.signals()
	defer ignore()
	a.con.Err(fmt.Sprintf("key of %s (it is not shown): ", model))
	type typed struct {
		text []byte
		err  error
	}
	line := make(chan typed, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		line <- typed{text, err}
	}()
	select {
	case t := <-line:
		a.con.Err("\n")
		if t.err != nil && !errors.Is(t.err, io.EOF) {
			return "", agentkernel.Errorf(agentkernel.CodeInvalid, "llm key", "the terminal cannot be read: %w", t.err)
		}
		return string(t.text), nil
	case <-signals: // the terminal is to show again what is typed
		a.con.Err("\n")
		return "", errors.Join(term.Restore(fd, before), agentkernel.Errorf(agentkernel.CodeCanceled, "llm key", "no key was given"))
	}
}
