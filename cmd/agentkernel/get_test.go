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

// Names in patches are those that git and patch read, and nothing that a terminal obeys.
func TestPatchNamesAreThoseOfGit(t *testing.T) {
	for name, want := range map[string]string{
		"plainüber": "b/plainüber", "plain über": "b/plain über\t", ".envrc notes": "b/.envrc notes\t", "esc\x1b": `"b/esc\033"`, `q"b\`: `"b/q\"b\\"`, "line\nend": `"b/line\012end"`, "turn\u202e": `"b/turn\342\200\256"`,
		"caf\xe9.txt": `"b/caf\351.txt"`, `caf\xe9.txt`: `"b/caf\\xe9.txt"`, `\x5c`: `"b/\\x5c"`, "instead \ufffd": "b/instead \ufffd\t", "\ufffd\n\xff": `"b/` + "\ufffd" + `\012\377"`,
	} {
		got := patchName("b/" + agentkernel.PathText(name))
		if got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
			continue
		}
		full := diff.Unified("/dev/null", got, "", "x\n")
		empty := emptyFile(&agentkernel.Change{Path: agentkernel.PathText(name), Kind: agentkernel.FileAdded, Mode: "644"})
		makes(t, name, full, "git", "apply", "-")
		makes(t, name, empty, "git", "apply", "-")
		if !strings.Contains(name, "\n") { // which patch refuses
			makes(t, name, full, "patch", "-p1", "-s")
			makes(t, name, empty, "patch", "-p1", "-s")
		}
	}
}

// makes says whether a patch makes the file name, and no other, as a tool reads it.
func makes(t *testing.T, name, text, tool string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		return
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(text)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s, %q: %v %s", tool, name, err, out)
		return
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 || list[0].Name() != name {
		t.Errorf("%s, %q: made %v, %v", tool, name, list, err)
	}
}
