package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/diff"
)

// fileKernel has one file.
type fileKernel struct {
	fakeKernel
	text string
}

func (k *fileKernel) OpenFile(context.Context, agentkernel.PID, agentkernel.FileName) (agentkernel.File, error) {
	slow := iotest.OneByteReader(strings.NewReader(k.text)) // characters are cut wherever they can be
	return agentkernel.File{Size: int64(len(k.text)), Media: "text/plain", Content: io.NopCloser(slow)}, nil
}

// A file that a program wrote is shown to a terminal as its output is, and copied byte for byte elsewhere.
func TestGetShowsNothingThatATerminalObeys(t *testing.T) {
	const note = "control characters"
	for _, test := range []struct {
		name, text, want string
		tty, notes       bool
	}{
		{"evil on a terminal", "é\x1b]52;c;ZXZpbA==\x07\x1b[2Jb\u009bc\xffd", "é\ufffd]52;c;ZXZpbA==\ufffd\ufffd[2Jb\ufffdc\ufffdd", true, true},
		{"evil in a pipe", evil, evil, false, false},
		{"text", "über\r\nzwei\t\x1b[31m€\x1b[0m\n", "über\nzwei\t\x1b[31m€\x1b[0m\n", true, false},
		{"broken off", "a\r", "a\ufffd", true, true},
		{"half a character", "a\xe2\x82", "a\ufffd\ufffd", true, true},
	} {
		r := newRig(t)
		r.outTTY = test.tty
		r.any = &fileKernel{fakeKernel{list: []agentkernel.Process{{PID: 12, State: agentkernel.StateExited}}}, test.text}
		code := r.run("get", "12", "a.txt")
		if got := r.out.String(); code != 0 || got != test.want || strings.Count(r.err.String(), note) != map[bool]int{true: 1}[test.notes] {
			t.Errorf("%s: %d %q, want %q; %s", test.name, code, got, test.want, r.err.String())
		}
		out := filepath.Join(t.TempDir(), "copy")
		if code := r.run("get", "12", "a.txt", "-o", out); code != 0 {
			t.Errorf("%s: -o: %d %s", test.name, code, r.err.String())
		}
		if b, err := os.ReadFile(out); err != nil || string(b) != test.text {
			t.Errorf("%s: -o has %q %v", test.name, b, err)
		}
	}
}

// Names in patches are those that git reads, and nothing that a terminal obeys.
func TestPatchNamesAreThoseOfGit(t *testing.T) {
	for name, want := range map[string]string{
		"plain über": "b/plain über", "esc\x1b": `"b/esc\033"`, `q"b\`: `"b/q\"b\\"`, "line\nend": `"b/line\012end"`, "turn\u202e": `"b/turn\342\200\256"`,
		"caf\xe9.txt": `"b/caf\351.txt"`, `caf\xe9.txt`: `"b/caf\\xe9.txt"`, `\x5c`: `"b/\\x5c"`, "instead \ufffd": "b/instead \ufffd", "\ufffd\n\xff": `"b/` + "\ufffd" + `\012\377"`,
	} {
		got := patchName("b/" + agentkernel.PathText(name))
		if got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
			continue
		}
		if _, err := exec.LookPath("git"); err != nil {
			continue
		}
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "git", "apply", "-")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(diff.Unified("/dev/null", got, "", "x\n"))
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%q: %v %s", name, err, out)
		} else if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%q: git made another file: %v", name, err)
		}
	}
}
