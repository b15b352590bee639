package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/cmd/agentkernel/internal/scrub"
	"agentkernel/embedded"
	"agentkernel/internal/config"
	"agentkernel/internal/datadir"
)

type bugReportCmd struct {
	Output  string   `short:"o" placeholder:"FILE" help:"Write to this file (default agentkernel-bug-TIME.tar.gz)."`
	WithPID []string `name:"with-pid" placeholder:"PID" help:"With the program and journal of this process, as export writes them; repeatable."`
	Lines   int      `placeholder:"N" default:"500" zero:"none" help:"Last lines of the kernel's log (default 500)."`
	Force   bool     `help:"Replace a file that is there."`
}

func (bugReportCmd) Help() string {
	return `Writes one file for whoever is to mend something: versions, what doctor finds, settings and where they come from, the last
lines of the log, how many rows the database has, which processes there are. No program text, no arguments, results or
output, unless --with-pid names a process. Secrets are taken out: of the environment, of tools files, and what looks like
one. Nothing is sent. Look at it before you send it.

` + examples("agentkernel bug-report", "agentkernel bug-report --with-pid 12 -o bug.tar.gz", "tar -xzOf bug.tar.gz | less")
}

// reportPart is a file of a bug report.
type reportPart struct {
	Name  string `json:"name"`
	What  string `json:"what"`
	Bytes int    `json:"bytes"`
	data  []byte
}

// bugReported is what bug-report --json prints.
type bugReported struct {
	File  string       `json:"file"`
	Parts []reportPart `json:"parts"`
}

func (c *bugReportCmd) Run(a *app) error {
	pids, err := parsePIDs(c.WithPID)
	if err != nil {
		return err
	}
	if c.Output == "" {
		c.Output = "agentkernel-bug-" + time.Now().UTC().Format("20060102-150405") + ".tar.gz"
	}
	if _, err := os.Lstat(c.Output); err == nil && !c.Force {
		return agentkernel.Errorf(agentkernel.CodeConflict, "bug-report", "%s is there already", c.Output).
			WithHint("name another file with -o, or replace it with --force")
	}
	var parts []reportPart
	err = a.withProgress(a.ctx, "looking around", func(ctx context.Context) error {
		parts, err = a.bugReport(ctx, pids, c.Lines)
		return err
	})
	if err != nil {
		return err
	}
	file, err := packReport(parts)
	if err != nil {
		return err
	}
	if err := writeNew("bug-report", c.Output, file); err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(bugReported{c.Output, parts})
	}
	rows := [][]string{}
	for _, p := range parts {
		rows = append(rows, []string{p.Name, console.Bytes(int64(p.Bytes)), p.What})
	}
	a.con.Out(console.Table(rows, 1) + "\n" + c.Output + " · " + console.Bytes(int64(len(file))) + "\n")
	a.con.Say("look at it before you send it: tar -xzOf %s | less", c.Output)
	return a.outputError()
}

// reporter collects the parts. What cannot be found out is a part, too: a report is made when things do not work.
type reporter struct {
	a     *app
	ctx   context.Context
	scrub *scrub.Scrubber
	parts []reportPart
}

func (a *app) bugReport(ctx context.Context, pids []agentkernel.PID, lines int) ([]reportPart, error) {
	r := &reporter{a: a, ctx: ctx, scrub: &scrub.Scrubber{}}
	_, wrong := a.settings()
	var unread []string
	if wrong != nil { // they are what is to be mended
		a.cfg = &config.Config{Values: config.Values{Home: a.cli.Home}}
		unread = a.unread(nil)
	}
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	files := r.toolsFiles(home)
	r.learn(home, files)
	r.json("version.json", "agentkernel, Go, operating system", versions())
	r.json("doctor.json", "what doctor finds", a.examine(ctx, home, nil, nil, unread)) // no tool servers, and no command that says a key: a report starts nothing
	r.json("config.json", "settings and where they come from", r.settings(wrong))
	r.text("log.txt", fmt.Sprintf("the last %d lines of the kernel's log", lines), lastLines(a.logConfig(datadir.At(home)).Path, lines))
	r.json("store.json", "schema version, rows of each table", r.store(home))
	r.json("processes.json", "the newest processes, without programs, results and errors' texts", r.processes(home))
	for _, pid := range pids {
		if err := r.process(pid); err != nil {
			return nil, err
		}
	}
	r.readme()
	return r.parts, nil
}

// learn finds out what is secret: in the environment, in the tools files of settings and processes, in the data directory.
func (r *reporter) learn(home string, files []string) {
	r.scrub.AddEnvironment(r.a.env)
	for _, s := range r.a.cfg.Settings() {
		if scrub.SecretName(s.Name) {
			for _, v := range s.Values {
				r.scrub.Add(s.Name, v)
			}
		}
	}
	if token, err := os.ReadFile(filepath.Join(home, "mcp-token")); err == nil {
		r.scrub.Add("mcp-token", string(token))
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			r.scrub.AddConfig(text)
		}
		r.learnServers(file)
	}
}

// learnServers has the tools' own reader say what is secret in a file, variables that it names included.
func (r *reporter) learnServers(file string) {
	source, closeSource, err := toolSource([]string{file})
	if err != nil {
		return // what stands in it is known
	}
	defer func() { _ = closeSource() }() // nothing was started
	keeper, ok := source.(agentkernel.SecretKeeper)
	if !ok {
		return
	}
	if redaction, err := keeper.Redaction(r.ctx); err == nil {
		r.scrub.Also = append(r.scrub.Also, redaction.Text)
		r.scrub.AlsoNumbers = append(r.scrub.AlsoNumbers, redaction.JSON)
	}
}

// toolsFiles are those of the settings, and those that processes were created with.
func (r *reporter) toolsFiles(home string) []string {
	var files []string
	seen := map[string]bool{}
	add := func(list []string) {
		for _, f := range list {
			if path, _ := agentkernel.SplitPin(f); !seen[path] {
				seen[path] = true
				files = append(files, path)
			}
		}
	}
	add(r.a.cfg.Tools)
	k, err := r.a.openReader(r.ctx, home)
	if err != nil {
		return files
	}
	defer func() { _ = k.Close() }() // it was only read from
	list, err := k.List(r.ctx, agentkernel.Filter{Limit: reportedProcesses})
	if err != nil {
		return files
	}
	for _, p := range list {
		if s, err := k.Spec(r.ctx, p.PID); err == nil {
			add(s.Tools)
		}
	}
	return files
}

// json adds a value; an error stands for itself.
func (r *reporter) json(name, what string, v any) {
	if err, ok := v.(error); ok {
		v = map[string]any{"error": asError(err)}
	}
	text, err := r.scrub.JSON(v)
	if err != nil {
		text = []byte(r.scrub.Text(err.Error()))
	}
	r.add(name, what, append(text, '\n'))
}

func (r *reporter) text(name, what, text string) { r.add(name, what, []byte(r.scrub.Text(text))) }

func (r *reporter) add(name, what string, data []byte) {
	if home := r.a.userHome; len(home) > 1 { // who somebody is, is nobody's business either
		data = bytes.ReplaceAll(data, []byte(home), []byte("~"))
	}
	r.parts = append(r.parts, reportPart{name, what, len(data), data})
}

// reportedSetting is a setting without its value, if that is a secret.
type reportedSetting struct {
	Setting string   `json:"setting"`
	Values  []string `json:"values"`
	Set     bool     `json:"set"`
	Origin  string   `json:"origin"`
}

func (r *reporter) settings(wrong error) any {
	if wrong != nil {
		return wrong
	}
	shown, err := r.a.shown(r.a.cfg)
	if err != nil {
		return err
	}
	out := []reportedSetting{}
	for _, s := range shown.Settings {
		if len(s.Values) > 0 && scrub.SecretName(s.Key) {
			s.Values = []string{"[removed]"}
		}
		out = append(out, reportedSetting{s.Key, s.Values, s.Set, s.Origin})
	}
	return out
}

// tableRows is a table with the number of its rows.
type tableRows struct {
	Table string `json:"table"`
	Rows  any    `json:"rows"`
}

func (r *reporter) store(home string) any {
	q, err := r.a.query()
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }() // it was only read from
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Second)
	defer cancel()
	names, err := q.Run(ctx, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name", 0)
	if err != nil {
		return err
	}
	out := struct {
		Path   string      `json:"path"`
		Schema any         `json:"schema"`
		Tables []tableRows `json:"tables"`
	}{Path: datadir.At(home).Database()}
	if v, err := q.Run(ctx, "SELECT max(version) FROM migrations", 1); err == nil && len(v.Rows) == 1 {
		out.Schema = v.Rows[0][0]
	}
	for _, row := range names.Rows {
		name := fmt.Sprint(row[0])
		n, err := q.Run(ctx, `SELECT count(*) FROM "`+strings.ReplaceAll(name, `"`, `""`)+`"`, 1)
		if err != nil {
			out.Tables = append(out.Tables, tableRows{name, asError(err).Message()})
			continue
		}
		out.Tables = append(out.Tables, tableRows{name, n.Rows[0][0]})
	}
	return out
}

// reportedProcesses is how many processes a report lists.
const reportedProcesses = 200

// processLine is what a report says of a process: nothing that it computed or was given.
type processLine struct {
	PID        agentkernel.PID   `json:"pid"`
	Parent     agentkernel.PID   `json:"parent,omitempty"`
	Backend    string            `json:"backend"`
	State      agentkernel.State `json:"state"`
	Paused     bool              `json:"paused,omitempty"`
	ExitCode   int               `json:"exit_code"`
	ErrorCode  agentkernel.Code  `json:"error_code,omitempty"`
	ErrorOp    string            `json:"error_op,omitempty"`
	Created    time.Time         `json:"created"`
	Ended      time.Time         `json:"ended,omitzero"`
	Usage      agentkernel.Usage `json:"usage"`
	Recoveries int               `json:"recoveries,omitempty"`
}

func (r *reporter) processes(home string) any {
	k, err := r.a.openReader(r.ctx, home)
	if err != nil {
		return err
	}
	defer func() { _ = k.Close() }() // it was only read from
	list, err := k.List(r.ctx, agentkernel.Filter{Limit: reportedProcesses})
	if err != nil {
		return err
	}
	lines := make([]processLine, 0, len(list))
	for _, p := range list {
		line := processLine{PID: p.PID, Parent: p.Parent, Backend: p.Backend, State: p.State, Paused: p.Paused, ExitCode: p.ExitCode,
			Created: p.Created, Ended: p.Ended, Usage: p.Usage, Recoveries: p.Recoveries}
		if p.Error != nil {
			line.ErrorCode, line.ErrorOp = p.Error.Code, p.Error.Op
		}
		lines = append(lines, line)
	}
	return lines
}

// process adds a recording. The kernel takes the secrets of its tool servers out of it, the reporter all that it knows.
func (r *reporter) process(pid agentkernel.PID) error {
	k, err := r.a.kernel()
	if err != nil {
		return err
	}
	defer func() { _ = k.Close() }() // it was only read from
	file, err := k.Export(r.ctx, pid, agentkernel.ExportOptions{})
	if err != nil {
		return err
	}
	if file, err = embedded.Redact(file, r.redaction()); err != nil {
		return err
	}
	name := fmt.Sprintf("pid%d.akr", pid)
	r.parts = append(r.parts, reportPart{name, fmt.Sprintf("program and journal of process %d: look with agentkernel import", pid), len(file), file})
	return nil
}

// redaction takes out of a recording what the report takes out of all else.
func (r *reporter) redaction() agentkernel.Redaction {
	learned := r.scrub.Clone()
	learned.Also = append(learned.Also, func(text string) string {
		if home := r.a.userHome; len(home) > 1 {
			text = strings.ReplaceAll(text, home, "~")
		}
		return text
	})
	return scrub.Redaction{Scrubber: learned}
}

func (r *reporter) readme() {
	var b strings.Builder
	b.WriteString("A bug report of agentkernel " + version + ".\n\n")
	for _, p := range r.parts {
		fmt.Fprintf(&b, "%-16s %s\n", p.Name, p.What)
	}
	b.WriteString("\nValues of secrets are replaced by [NAME] or [removed], as far as they could be known. Look before you send it.\n")
	r.add("README.txt", "this list", []byte(b.String()))
}

// maxLogRead bounds what is read of a log's end, in bytes.
const maxLogRead = 4 << 20

// lastLines are the last lines of a log, of the file before it, too, if the newest has too few.
func lastLines(path string, n int) string {
	var all []byte
	for _, p := range []string{path + ".1", path} {
		all = append(all, fileEnd(p, maxLogRead)...)
	}
	if len(all) == 0 {
		return "there is no log at " + path + "\n"
	}
	lines := strings.SplitAfter(string(bytes.TrimRight(all, "\n")), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "") + "\n"
}

func fileEnd(path string, most int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return []byte(err.Error() + "\n")
	}
	defer func() { _ = f.Close() }() // it was only read from
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return nil
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return []byte(err.Error() + "\n")
	}
	return b
}

// packReport makes the file: gzip and tar, which everybody can look into.
func packReport(parts []reportPart) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for _, p := range parts {
		err := t.WriteHeader(&tar.Header{Name: p.Name, Mode: 0o600, Size: int64(len(p.data)), Typeflag: tar.TypeReg})
		if err == nil {
			_, err = t.Write(p.data)
		}
		if err != nil {
			return nil, agentkernel.AsError(err, agentkernel.CodeInternal, "bug-report")
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return nil, agentkernel.AsError(err, agentkernel.CodeInternal, "bug-report")
	}
	return b.Bytes(), nil
}
