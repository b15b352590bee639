package e2e_test

import (
	"fmt"
	"testing"

	"agentkernel"
)

// What docs/workspace.md says of a folder in the sandbox, and nothing else tries.
func TestWhatAFolderCannotDo(t *testing.T) {
	k := openEmbedded(t, home(t), withSandboxes(t))
	dir := folder(t, map[string]string{"old/f": "f"})
	s := inFolder(dir, `
import errno, os, shutil
try:
    os.rename("old", "new")
except OSError as e:
    print(errno.errorcode[e.errno])
shutil.move("old", "new")
print(open("new/f").read(), os.path.exists("old"))
try:
    with open("large", "wb") as f:
        f.truncate(9 << 20)
except OSError as e:
    print(errno.errorcode[e.errno])
os.unlink("large")
`)
	s.Limits.Disk = 8 << 20
	if p := run(t, k, s); p.ExitCode != 0 || p.stdout != "EXDEV\nf False\nEFBIG\n" {
		t.Errorf("%+v %q %q", p.Process, p.stdout, p.stderr)
	}
	s = program("print(1)")
	for i := range agentkernel.MaxVolumes + 1 {
		s.Volumes = append(s.Volumes, agentkernel.Volume{Name: fmt.Sprint("v", i), Path: dir})
	}
	if _, err := k.Spawn(t.Context(), s); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		t.Errorf("%d volumes: %v", len(s.Volumes), err)
	}
	p := run(t, k, inFolder(dir, `
from kernel import spawn, wait
import os
print(os.path.exists("/workspace/old"))
print(wait(spawn("import os\nprint(os.path.exists('/workspace/new') or os.path.exists('/workspace/old'))"))["stdout"])
`))
	if p.stdout != "True\nFalse\n\n" {
		t.Errorf("%+v %q %q", p.Process, p.stdout, p.stderr)
	}
}
