package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/shellword"
)

type getCmd struct {
	PID    string  `arg:"" help:"A process that works or worked in a folder."`
	File   rawText `arg:"" help:"A file as the program names it: out/report.csv, /volumes/NAME/x."`
	Output rawText `short:"o" placeholder:"PATH" help:"Write to this file instead of standard output (-)."`
	Before bool    `help:"As the file was before the process."`
}

func (getCmd) Help() string {
	return `Copies one file out, byte for byte and however large, as the process left it. The folder need not have it: changes that
were not applied are there, too.

` + examples("agentkernel get 12 out/report.csv", "agentkernel get 12 chart.png -o chart.png", "diff <(agentkernel get 12 --before a.txt) <(agentkernel get 12 a.txt)")
}

// got is what get --json prints.
type got struct {
	PID    agentkernel.PID `json:"pid"`
	File   string          `json:"file"`
	Output string          `json:"output"`
	Size   int64           `json:"size"`
	Media  string          `json:"media"`
}

func (c *getCmd) Run(a *app) error {
	pid, err := agentkernel.ParsePID(c.PID)
	if err != nil {
		return err
	}
	name, err := agentkernel.ParseFileName(string(c.File))
	if err != nil {
		return err
	}
	name.Before = c.Before
	if c.Output == "-" {
		c.Output = ""
	}
	if a.cli.JSON && c.Output == "" {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "get", "--json describes the file on standard output, where its contents would be").WithHint("add -o PATH")
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	if _, err := a.find(k, pid); err != nil {
		return err
	}
	f, err := k.OpenFile(a.ctx, pid, name)
	if err != nil {
		return err
	}
	defer f.Content.Close()
	if c.Output == "" && a.outTTY && !isText(f.Media) {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "get", "%s is %s, which no terminal can show", fileText(name.String()), f.Media).
			WithHint("agentkernel get %d %s -o %s", pid, shellword.File(name.String()), shellword.File(path.Base(name.Path)))
	}
	if err := c.write(a, f); err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(got{pid, name.String(), string(c.Output), f.Size, f.Media})
	}
	if c.Output != "" {
		a.con.Note("%s · %s", c.Output, console.Bytes(f.Size))
	}
	return nil
}

func isText(media string) bool {
	return strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "json") || strings.HasSuffix(media, "xml") || strings.HasSuffix(media, "yaml") ||
		strings.HasSuffix(media, "toml") || strings.HasSuffix(media, "sql") || strings.HasSuffix(media, "-sh")
}

// write copies the file out; one with a name is there whole or not at all.
func (c *getCmd) write(a *app, f agentkernel.File) error {
	if c.Output == "" && a.outTTY {
		to := &onScreen{con: a.con}
		_, err := io.Copy(to, f.Content)
		err = errors.Join(err, to.Close())
		if err == nil && a.con.TookOut() {
			a.con.Say("control characters, and what is not UTF-8, were left out for the terminal; -o PATH and pipes get every byte")
		}
		if err != nil {
			return copyError("standard output", err)
		}
		return a.outputError()
	}
	if c.Output == "" {
		_, err := io.Copy(a.out, f.Content)
		if errors.Is(err, syscall.EPIPE) {
			return nil // as for all that is printed: see outputError
		}
		return copyError("standard output", err)
	}
	output := string(c.Output)
	tmp, err := os.CreateTemp(filepath.Dir(output), ".get-*")
	if err != nil {
		return copyError(output, err)
	}
	defer os.Remove(tmp.Name())
	_, err = io.Copy(tmp, f.Content)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), output)
	}
	return copyError(output, err)
}

// onScreen writes a file to the terminal as everything else is: what a program wrote there is a stranger's.
type onScreen struct {
	con  *console.Console
	rest []byte // the beginning of a character, or of a line end, of which more may come
}

func (o *onScreen) Write(p []byte) (int, error) {
	text := append(o.rest, p...)
	end := len(text)
	for i := end - 1; i >= max(0, end-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if text[i] == '\r' || !utf8.FullRune(text[i:]) {
				end = i
			}
			break
		}
	}
	o.con.Out(strings.ReplaceAll(string(text[:end]), "\r\n", "\n"))
	o.rest = bytes.Clone(text[end:])
	return len(p), nil
}

// Close writes what the file broke off with.
func (o *onScreen) Close() error {
	o.con.Out(string(o.rest))
	o.rest = nil
	return nil
}

func copyError(where string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "get", "the kernel broke off in the middle of the file").WithHint("get it again")
	case errors.Is(err, context.Canceled):
		return err
	}
	code := writeCode(err)
	if where == "standard output" { // not a name that can be wrong
		code = agentkernel.CodeStorage
	}
	return agentkernel.Errorf(code, "get", "%s cannot be written: %w", where, unwrapPath(err))
}
