package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/lazy"
	"agentkernel/internal/strictjson"
)

const (
	// eachBatch is how many processes spawn --each has created at a time, and eachBytes how many bytes of arguments go into one request.
	eachBatch = 500
	eachBytes = 4 << 20
	// maxLine bounds a line of the file.
	maxLine = agentkernel.MaxSource
)

// eachFile is the file of spawn --each: it is read twice, first to look for what is wrong with it.
type eachFile struct {
	name  string
	f     *os.File
	lines int // that have a value
	temp  bool
}

// openEach opens the file that --each names. What comes through a pipe is gathered in a file first.
func (a *app) openEach(name string) (e *eachFile, err error) {
	e = &eachFile{name: name}
	if name == "-" {
		e.name = "standard input"
		if e.f, err = os.CreateTemp("", "agentkernel-each-*"); err != nil {
			return nil, fileError(e.name, err)
		}
		e.temp = true
		if _, err := io.Copy(e.f, a.in); err != nil {
			return nil, errors.Join(fileError(e.name, err), e.close())
		}
		a.in = strings.NewReader("") // it is no input of the programs
	} else if e.f, err = os.Open(name); err != nil {
		return nil, fileError(name, err)
	}
	err = e.read(func(int, agentkernel.Instance) error { e.lines++; return a.ctx.Err() })
	if err == nil && e.lines == 0 {
		err = agentkernel.Errorf(agentkernel.CodeInvalid, "spawn", "%s has no line with a value", e.name).
			WithHint("one JSON value a line: \"text\", 7, {\"a\": 1}, or [\"several\", \"arguments\"]")
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *eachFile) close() error {
	err := e.f.Close()
	if e.temp {
		err = errors.Join(err, os.Remove(e.f.Name()))
	}
	return err
}

// read calls fn for each line that is not blank, with its number.
func (e *eachFile) read(fn func(line int, i agentkernel.Instance) error) error {
	if _, err := e.f.Seek(0, io.SeekStart); err != nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "spawn", "%s cannot be read twice: %w", e.name, unwrapPath(err)).
			WithHint("give a pipe as standard input: --each -")
	}
	lines := bufio.NewScanner(e.f)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if n == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if len(text) == 0 {
			continue
		}
		args, err := argsOfLine(text)
		if err != nil {
			return agentkernel.Errorf(agentkernel.CodeInvalid, "spawn", "line %d of %s: %w", n, e.name, err).
				WithHint("one JSON value a line: \"text\", 7, {\"a\": 1}, or [\"several\", \"arguments\"]; nothing was spawned")
		}
		if err := fn(n, agentkernel.Instance{Args: args}); err != nil {
			return err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "spawn", "line %d of %s is longer than %d bytes", n+1, e.name, maxLine).
			WithHint("a program reads its data through a tool; nothing was spawned")
	} else if err != nil {
		return fileError(e.name, err)
	}
	return nil
}

// argsOfLine makes the arguments of a process from a line: of an array one for each of its values, else one. Text is taken as it is, any
// other value as its JSON.
func argsOfLine(line []byte) ([]string, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("it is not valid UTF-8")
	}
	var value json.RawMessage
	if err := json.Unmarshal(line, &value); err != nil {
		return nil, fmt.Errorf("it is no JSON value: %s", strings.TrimPrefix(strictjson.Wrong(err, line), "line 1, "))
	}
	if at := strictjson.LoneSurrogate(line); at >= 0 {
		return nil, fmt.Errorf("%s, at byte %d, is half of a character: what is no text cannot be an argument", line[at:at+len(`\uXXXX`)], at)
	}
	values := []json.RawMessage{value}
	if line[0] == '[' {
		if err := json.Unmarshal(line, &values); err != nil {
			return nil, err
		}
	}
	args := []string{}
	for _, v := range values {
		var text string
		if v[0] == '"' {
			if err := json.Unmarshal(v, &text); err != nil {
				return nil, err
			}
		} else {
			var b bytes.Buffer
			if err := json.Compact(&b, v); err != nil {
				return nil, err
			}
			text = b.String()
		}
		args = append(args, text)
	}
	return args, nil
}

// spawnEach spawns a process for each line of a file.
type spawnEach struct {
	a     *app
	k     agentkernel.Kernel
	spec  agentkernel.Spec
	file  *eachFile
	key   string // prefix of the idempotency keys; "": they have none
	batch []agentkernel.Instance
	lines []int // of the batch
	bytes int   // of arguments in it
	done  int   // processes that are durable
}

func (s *spawnEach) run() error {
	err := s.file.read(func(line int, i agentkernel.Instance) error {
		if s.key != "" {
			i.IdempotencyKey = fmt.Sprintf("%s/%d", s.key, line)
		}
		size := 0
		for _, arg := range i.Args {
			size += len(arg)
		}
		if len(s.batch) > 0 && (len(s.batch) == eachBatch || s.bytes+size > eachBytes) {
			if err := s.send(); err != nil {
				return err
			}
		}
		s.batch, s.lines, s.bytes = append(s.batch, i), append(s.lines, line), s.bytes+size
		return nil
	})
	if err == nil {
		err = s.send()
	}
	s.a.con.Progress("")
	if err != nil {
		return s.cutOff(err)
	}
	if s.a.cli.JSON {
		s.a.con.Out("]\n")
	} else if s.a.con.Interactive() {
		s.a.con.Note("%d processes: agentkernel ps -n 20", s.done)
	}
	return s.a.outputError()
}

// send spawns what was gathered.
func (s *spawnEach) send() error {
	if len(s.batch) == 0 {
		return nil
	}
	pids, err := s.k.SpawnMany(s.a.ctx, s.spec, s.batch)
	if err != nil {
		e := *agentkernel.AsError(err, agentkernel.CodeInternal, "spawn")
		e.Err = fmt.Errorf("lines %d to %d of %s: %s", s.lines[0], s.lines[len(s.lines)-1], s.file.name, s.byLine(e.Message()))
		return &e
	}
	var b strings.Builder
	for i, pid := range pids {
		switch {
		case !s.a.cli.JSON:
			fmt.Fprintf(&b, "%d\n", pid)
		case s.done+i == 0:
			fmt.Fprintf(&b, "[%d", pid)
		default:
			fmt.Fprintf(&b, ",%d", pid)
		}
	}
	s.a.con.Out(b.String())
	s.done += len(pids)
	s.batch, s.lines, s.bytes = s.batch[:0], s.lines[:0], 0
	s.a.con.Progress(fmt.Sprintf("spawned %d of %d", s.done, s.file.lines))
	return nil
}

// ofBatch is how the kernel names one of a batch.
var ofBatch = lazy.Regexp(`each\[(\d+)\]`)

// byLine names lines of the file where an error names places in the batch.
func (s *spawnEach) byLine(text string) string {
	return ofBatch().ReplaceAllStringFunc(text, func(place string) string {
		if i, err := strconv.Atoi(ofBatch().FindStringSubmatch(place)[1]); err == nil && i < len(s.lines) {
			return fmt.Sprintf("line %d", s.lines[i])
		}
		return place
	})
}

// cutOff says how far it came.
func (s *spawnEach) cutOff(err error) error {
	if s.done == 0 && s.key == "" {
		return err
	}
	// Another program under the same keys is refused again each time, and nothing is missing then.
	if e := asError(err); s.key == "" || e.Code == agentkernel.CodeConflict || e.Code == agentkernel.CodeInvalid {
		s.a.con.Note("%d of %d were spawned before that", s.done, s.file.lines)
	} else {
		s.a.con.Note("%d of %d were spawned before that, perhaps some more: the same command again spawns those that are missing", s.done, s.file.lines)
	}
	return underKey(err, s.key, "under its keys it spawns those that are missing, and none twice")
}
