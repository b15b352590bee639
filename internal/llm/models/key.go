package models

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/envname"
)

// Key says where a key is, and never what it is.
type Key struct {
	// Source is "env:VARIABLE", "file:/PATH", "command:/PATH" (its output; it gets no arguments) or "keyring:SERVICE/ACCOUNT" (of the
	// desktop of whoever runs the kernel); KeyGiven; "": there is none.
	Source string
}

// KeyGiven is the Source of a key that is nowhere until somebody hands it to the kernel that runs, which keeps it in memory alone.
const KeyGiven = "given"

// Given says whether somebody hands the key to the kernel.
func (k Key) Given() bool { return k.Source == KeyGiven }

// ParseKey reads where a key is. No error shows the text: somebody may have written the key itself.
func ParseKey(text string) (Key, error) {
	kind, where, _ := strings.Cut(text, ":")
	switch {
	case text == KeyGiven:
	case kind == "env" && envname.Valid(where):
	case kind == "env":
		return Key{}, errors.New("its key's variable has a name that no variable has: key=env:VARIABLE names one; the key itself belongs in none of the settings")
	case kind == "keyring":
		if service, account, _ := strings.Cut(where, "/"); !isName(service) || !isName(account) {
			return Key{}, errors.New("its key's keyring needs a service and an account: keyring:SERVICE/ACCOUNT")
		}
	case (kind == "file" || kind == "command") && filepath.IsAbs(where):
	case kind == "file" || kind == "command":
		return Key{}, fmt.Errorf("the path of its key's %s is not absolute", kind)
	default:
		return Key{}, errors.New("key is neither env:VARIABLE nor file:/PATH nor command:/PATH nor keyring:SERVICE/ACCOUNT nor given; the key itself belongs in none of the settings")
	}
	return Key{text}, nil
}

// isName says whether a text can name something in a keyring, and is no option of the tool that is asked for it.
func isName(text string) bool { return text != "" && text[0] != '-' }

// maxKey bounds a key, in bytes.
const maxKey = 64 << 10

// commandTime is how long a command may take that says a key.
const commandTime = 10 * time.Second

// Read reads the key, each time anew: files are replaced while a kernel runs. The error says where it is not, and never what it
// is. lookup finds a variable of the kernel's environment.
func (k Key) Read(ctx context.Context, lookup func(string) (string, bool)) (string, error) {
	kind, where, _ := strings.Cut(k.Source, ":")
	var value []byte
	switch kind {
	case "":
		return "", nil
	case KeyGiven:
		return "", errors.New("it has to be given to the kernel that runs")
	case "env":
		v, set := lookup(where)
		if !set || strings.TrimSpace(v) == "" {
			return "", agentkernel.NotSet(where)
		}
		value = []byte(v)
	case "file":
		f, err := os.Open(where)
		if err != nil {
			return "", fmt.Errorf("the file of the key cannot be read: %w", err)
		}
		defer f.Close()
		if value, err = io.ReadAll(io.LimitReader(f, maxKey)); err != nil {
			return "", fmt.Errorf("the file of the key cannot be read: %w", err)
		}
	case "command":
		var err error
		if value, err = output(ctx, where); err != nil {
			return "", fmt.Errorf("the command that says the key has failed: %w", err)
		}
	case "keyring":
		var err error
		if value, err = inKeyring(ctx, where); err != nil {
			return "", err
		}
	}
	text := strings.TrimSpace(string(value))
	if text == "" {
		return "", fmt.Errorf("the %s that should have the key is empty", kind)
	}
	if !sendable(text) {
		return "", fmt.Errorf("what the %s has is no key: it holds spaces, or characters that no header can carry", kind)
	}
	return text, nil
}

// Look says why a key is not there that is in a variable or a file, without waiting for anything. Others are asked for when a request needs
// them: a command may take its time, and a keyring ask its user.
func (k Key) Look(lookup func(string) (string, bool)) error {
	if path, inFile := strings.CutPrefix(k.Source, "file:"); inFile {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // to open a pipe is to wait for its writer
			return nil
		}
	} else if _, inVariable := k.Variable(); !inVariable {
		return nil
	}
	_, err := k.Read(context.Background(), lookup)
	return err
}

// Variable is the variable that has the key; false: it is elsewhere.
func (k Key) Variable() (string, bool) { return strings.CutPrefix(k.Source, "env:") }

// sendable says whether the head of a request can carry a key.
func sendable(key string) bool {
	return !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// Clean is a key that somebody has given, without the space around it. The error says what is wrong, and has nothing of it.
func Clean(given string) (string, error) {
	key := strings.TrimSpace(given)
	switch {
	case key == "":
		return "", errors.New("it is empty")
	case len(key) > maxKey:
		return "", errors.New("it is larger than 64 KiB")
	case !sendable(key):
		return "", errors.New("it holds spaces, or characters that no header can carry")
	}
	return key, nil
}

// output is what a command says. What it writes to stderr may have the key, and goes nowhere.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	var out bytes.Buffer
	c := exec.CommandContext(ctx, name, args...)
	c.Stdout, c.WaitDelay = &limited{&out}, time.Second
	err := c.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("it has said nothing for %s", commandTime)
	}
	return out.Bytes(), err
}

// inKeyring reads what the keyring of the desktop has for a service and an account, by the tool that each system has for it.
func inKeyring(ctx context.Context, where string) ([]byte, error) {
	service, account, _ := strings.Cut(where, "/")
	tool, args, from := "secret-tool", []string{"lookup", "service", service, "username", account}, "it comes with libsecret, as the package libsecret-tools or libsecret"
	if runtime.GOOS == "darwin" {
		tool, args, from = "security", []string{"find-generic-password", "-w", "-s", service, "-a", account}, "it is in /usr/bin"
	}
	value, err := output(ctx, tool, args...)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("the keyring cannot be asked for the key: there is no %s on the PATH of the kernel (%s)", tool, from)
	case err != nil:
		return nil, fmt.Errorf("the keyring has no key of service %s, account %s, or is locked: %s: %w", service, account, tool, err)
	}
	return value, nil
}

// limited keeps what a command says of a key within bounds.
type limited struct{ b *bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.b.Len()+len(p) > maxKey {
		return 0, errors.New("it says too much")
	}
	return l.b.Write(p)
}
