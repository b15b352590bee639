package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/shellword"
)

type exportCmd struct {
	PID        string `arg:"" help:"The process."`
	Output     string `short:"o" placeholder:"FILE" help:"Write to this file instead of standard output (-)."`
	Force      bool   `help:"Replace a file that is there."`
	Files      bool   `help:"Take along what the process changed in its workspace and volumes, with the contents."`
	Unredacted bool   `help:"Leave the values of the tool servers' env and headers in, where they occur."`
}

func (exportCmd) Help() string {
	return `Writes one file with the program, its journal with all results, and its working set. The values of env and headers
of its tool servers are taken out wherever they occur; their encodings (base64, URLs) are not found, so look
before you publish. docs/export.md describes the file. Anybody can then run "agentkernel replay FILE", without the
tool servers, or "agentkernel import FILE" to trace, compare and rerun it. With --files that gives artifacts and get
what the process made, too.

` + examples("agentkernel export 12 > bug.akr", "agentkernel export 12 --files -o run.akr", "agentkernel export 12 -o bug.akr --json | jq .bytes")
}

// exported is what export -o FILE --json prints.
type exported struct {
	PID      agentkernel.PID `json:"pid"`
	File     string          `json:"file"`
	Bytes    int             `json:"bytes"`
	Redacted bool            `json:"redacted"`
}

func (c *exportCmd) Run(a *app) error {
	pid, err := agentkernel.ParsePID(c.PID)
	if err != nil {
		return err
	}
	if c.Output == "-" {
		c.Output = ""
	}
	switch {
	case c.Output == "" && a.outTTY:
		return agentkernel.Errorf(agentkernel.CodeInvalid, "export", "a recording is not for a terminal").
			WithHint("agentkernel export %d > pid%d.akr", pid, pid)
	case c.Output == "" && a.cli.JSON:
		return agentkernel.Errorf(agentkernel.CodeInvalid, "export", "standard output cannot be the recording and JSON at once").
			WithHint("name the file: agentkernel export %d -o pid%d.akr --json", pid, pid)
	}
	if _, err := os.Lstat(c.Output); c.Output != "" && err == nil && !c.Force {
		return agentkernel.Errorf(agentkernel.CodeConflict, "export", "%s is there already", c.Output).
			WithHint("name another file, or replace it: agentkernel export %d -o %s --force", pid, shellword.File(c.Output))
	}
	seen, p, err := a.question(c.PID) // before a kernel is started for it
	if err != nil {
		return err
	}
	_ = seen.Close() // it was only read from
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	file, err := k.Export(a.ctx, pid, agentkernel.ExportOptions{Unredacted: c.Unredacted, Files: c.Files})
	if err != nil {
		return err
	}
	if c.Output == "" {
		a.con.Out(string(file))
		if err := a.outputError(); err != nil {
			return err
		}
	} else if err := writeNew("export", c.Output, file); err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(exported{pid, c.Output, len(file), !c.Unredacted})
	}
	state := ""
	if c.Files {
		state = " with its files"
	}
	if !p.State.Terminal() {
		state += ", which has not ended: what it did so far"
	}
	a.con.Note("exported process %d%s · %s", pid, state, console.Bytes(int64(len(file))))
	return a.outputError()
}

// writeCode is the code of an error of writing to a place that the user named, for all commands: CodeDenied where permission is missing,
// CodeStorage where the disk is to blame, else the name is.
func writeCode(err error) agentkernel.Code {
	if errors.Is(err, fs.ErrPermission) {
		return agentkernel.CodeDenied
	}
	for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EFBIG, syscall.EROFS} {
		if errors.Is(err, e) {
			return agentkernel.CodeStorage
		}
	}
	return agentkernel.CodeInvalid
}

// writeNew writes a file whole or not at all.
func writeNew(op, path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".export-*")
	if err == nil {
		defer os.Remove(tmp.Name())
		_, err = tmp.Write(data)
		if cerr := tmp.Close(); err == nil {
			err = cerr
		}
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return agentkernel.Errorf(writeCode(err), op, "%s cannot be written: %w", path, unwrapPath(err))
	}
	return nil
}

type importCmd struct {
	File      string `arg:"" help:"A recording; - reads standard input."`
	Namespace string `placeholder:"NAME" help:"Tenant that the process belongs to here."`
}

func (importCmd) Help() string {
	return `Puts a recording into the store, under a new PID that is printed. The process has ended: trace, why, diff, logs and
rerun work, and no kernel ever continues it. The tools and permissions that it had are not taken over: name them
when you rerun it.

` + examples("agentkernel import bug.akr", "pid=$(agentkernel import bug.akr) && agentkernel why $pid",
		"agentkernel rerun $pid --with fixed.py --tools mcp.json --allow github")
}

func (c *importCmd) Run(a *app) error {
	file, err := a.recording(c.File)
	if err != nil {
		return a.refuseRecording(err)
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	p, err := k.Import(a.ctx, file, agentkernel.ImportOptions{Namespace: c.Namespace})
	if err != nil {
		return a.refuseRecording(err)
	}
	if a.cli.JSON {
		return a.printJSON(public(p))
	}
	a.con.Out(fmt.Sprintf("%d\n", p.PID))
	if c, err := k.Changes(a.ctx, p.PID); err == nil && len(c.Changes) > 0 { // else no files came with it
		a.con.Note("%s: agentkernel artifacts %d", countChanges(&c), p.PID)
	}
	if a.con.Interactive() {
		a.con.Note("look: agentkernel why %d · agentkernel trace %d", p.PID, p.PID)
	}
	return a.outputError()
}

// recording reads a file that somebody exported, or standard input (-).
func (a *app) recording(path string) ([]byte, error) {
	in := a.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fileError(path, err)
		}
		defer f.Close()
		in = f
	}
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(in, agentkernel.MaxRecording+1))
	if err != nil {
		return nil, fileError(path, err)
	}
	if n > agentkernel.MaxRecording {
		return nil, agentkernel.Errorf(agentkernel.CodeLimit, "recording", "%s is larger than %d MiB, which no recording is", path, agentkernel.MaxRecording>>20)
	}
	return b.Bytes(), nil
}

// refuseRecording reports a recording that cannot be used. The exit code is 2 for all of these, so that it is never
// taken for the outcome of a replay.
func (a *app) refuseRecording(err error) error {
	switch agentkernel.CodeOf(err) {
	case agentkernel.CodeCorrupt, agentkernel.CodeVersion, agentkernel.CodeLimit, agentkernel.CodeNotFound, agentkernel.CodeUnsupported, agentkernel.CodeDenied:
		a.fail(err)
		return exitCode(agentkernel.ExitUsage)
	}
	return err
}
