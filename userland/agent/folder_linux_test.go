package agent_test

import (
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/devllm"
	"agentkernel/userland/agent"
)

// inFolder is a folder of the user with a picture, and another that its programs may read as well.
func inFolder(t *testing.T) func(*agentkernel.Spec) {
	t.Helper()
	folder, other := t.TempDir(), t.TempDir()
	for _, path := range []string{filepath.Join(folder, "red.png"), filepath.Join(other, "secret.png")} {
		if err := os.WriteFile(path, picture(t, color.White), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(other, "secret.png"), filepath.Join(folder, "left.png")); err != nil {
		t.Fatal(err)
	}
	return func(s *agentkernel.Spec) {
		s.Workspace, s.Volumes, s.Tools = &agentkernel.Workspace{Path: folder}, []agentkernel.Volume{{Name: "other", Path: other, ReadOnly: true}}, nil
	}
}

// A file of the folder can be looked at, also one that a program has made; no other, however it is named.
func TestLookAtFiles(t *testing.T) {
	const makes = `import os
secret = '/volumes/other/secret.png'
assert open(secret, 'rb').read().startswith(b'\x89PNG')
os.symlink(secret, 'link.png')
os.symlink('/volumes/other', 'there')
os.symlink('red.png', 'inside.png')
os.mkdir('made')
open('made/copy.png', 'wb').write(open('red.png', 'rb').read())
open('text.png', 'w').write('no picture')
open('large.png', 'wb').write(open('red.png', 'rb').read() + bytes(4_000_000))
os.mkfifo('pipe.png')
os.chdir('/volumes/other')
'made'`
	attacks := []string{"link.png", "left.png", "there/secret.png", "inside.png", "/volumes/other/secret.png", "../volumes/other/secret.png", "made/../../volumes/other/secret.png",
		"secret.png", "/proc/self/root/volumes/other/secret.png", "/proc/self/cwd/secret.png", "made", "made/copy.png/x", "pipe.png", "text.png", "large.png", "a\\0b.png", "/dev/zero", "//volumes/other/secret.png"}
	var looks, refused []string
	for _, path := range attacks {
		looks = append(looks, `{name: look_at, arguments: {picture: "`+path+`"}}`)
		refused = append(refused, `[^\n]*(not in the folder|cannot be read|no file|no PNG|too large)[^\n]*`)
	}
	r := newRig(t, `
rules:
  - when: {turn: 1, tools: [look_at], images: 0}
    answer: {calls: [{name: run_python, arguments: {code: "`+strings.ReplaceAll(strings.ReplaceAll(makes, `\`, `\\`), "\n", `\n`)+`"}}]}
  - when: {turn: 2, images: 0, tool_result: '/ended well/'}
    answer: {calls: [`+strings.Join(looks, ", ")+`]}
  - when: {turn: 3, images: 0, tool_result: '/^`+strings.Join(refused, `\n`)+`$/'}
    answer: {calls: [{name: look_at, arguments: {picture: red.png}}, {name: look_at, arguments: {picture: ./made/copy.png}}]}
  - when: {turn: 4, images: 2, user: "red.png, ./made/copy.png:"}
    answer: {calls: [{name: finish, arguments: {result: both are seen}}]}
default: {error: {status: 400, message: this was not to be shown}}`)
	_, stdout, stderr := r.do(agent.Task{Text: "look", Folder: true}, inFolder(t))
	if stdout != "both are seen\n" {
		t.Errorf("%q\n%s", stdout, stderr)
		for _, p := range r.model.Log(devllm.Filter{}) {
			t.Logf("%+v", p)
		}
	}
}
