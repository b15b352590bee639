package process

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
)

// folders are a workspace, a volume over which a layer lies, one that is read-only and one that is a copy.
func folders(t *testing.T) (mounts []agentkernel.Mount, host map[string]string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "folders")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	host = map[string]string{}
	for _, name := range []string{"w", "v", "ro", "own"} {
		host[name] = filepath.Join(dir, name)
		scratch := filepath.Join(dir, name+".scratch")
		for _, d := range []string{host[name], scratch} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(host[name], "f"), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		m := agentkernel.Mount{Volume: name, Source: host[name], Scratch: scratch}
		switch name {
		case "w":
			m.Volume = ""
		case "ro":
			m.Scratch, m.ReadOnly = "", true
		case "own":
			m.Scratch, m.Own = "", true
		}
		mounts = append(mounts, m)
	}
	return mounts, host
}

const seesFolders = `
import os
print(os.getcwd(), open("f").read())
for v in ("v", "ro", "own"):
    print(v, open("/volumes/" + v + "/f").read())
for p in ("f", "/volumes/v/f", "/volumes/ro/f", "/volumes/own/f"):
    try:
        with open(p, "a") as f: f.write("+")
        print(p, open(p).read())
    except OSError as e:
        print(p, e.strerror)
`

const sawFolders = `/workspace w
v v
ro ro
own own
f w+
/volumes/v/f v+
/volumes/ro/f Read-only file system
/volumes/own/f own+
`

func TestFolders(t *testing.T) {
	b := sharedBackend(t)
	for range 2 { // the second time the zygote knows the plan, and the folders are others
		mounts, host := folders(t)
		r := newRun(t, b, seesFolders)
		r.req.Mounts = mounts
		checkFolders(t, r, host)
	}
}

func TestFoldersOfAnyProgram(t *testing.T) {
	mounts, host := folders(t)
	r := newRun(t, sharedBackend(t), `#!/bin/sh
echo "$PWD $(cat f)"
for v in v ro own; do echo "$v $(cat /volumes/$v/f)"; done
for p in f /volumes/v/f /volumes/ro/f /volumes/own/f; do
	if (printf + >> $p) 2>/dev/null; then echo "$p $(cat $p)"; else echo "$p Read-only file system"; fi
done
`)
	r.req.Program.Language, r.req.Mounts = agentkernel.Script, mounts
	checkFolders(t, r, host)
}

func checkFolders(t *testing.T, r *run, host map[string]string) {
	t.Helper()
	turn, err := r.finish()
	if err != nil || turn.Kind != agentkernel.TurnExit {
		t.Fatalf("ended with %+v, %v\n%s%s", turn, err, tracebackOf(turn), r.out.String())
	}
	if got := r.out.String(); got != sawFolders {
		t.Errorf("printed\n%swant\n%s", got, sawFolders)
	}
	if err := r.box.Close(); err != nil {
		t.Fatal(err)
	}
	<-r.box.(agentkernel.Ender).Gone()
	for name, want := range map[string]string{"w": "w", "v": "v", "ro": "ro", "own": "own+"} {
		if got, err := os.ReadFile(filepath.Join(host[name], "f")); err != nil || string(got) != want {
			t.Errorf("on the host %s has %q, want %q; %v", name, got, want, err)
		}
	}
	upper, err := os.ReadFile(filepath.Join(host["w"]+".scratch", "upper", "f"))
	if err != nil || string(upper) != "w+" {
		t.Errorf("the layer has %q, %v", upper, err)
	}
}

func TestAFileMayBeAsLargeAsTheLayer(t *testing.T) {
	mounts, _ := folders(t)
	r := newRun(t, sharedBackend(t), "f = open('big', 'wb')\nf.truncate(1 << 20)\nprint('fits')\nf.truncate((1 << 20) + 1)\n")
	r.req.Mounts, r.req.Limits.Disk = mounts, 1<<20
	turn, err := r.finish()
	if err != nil || turn.Kind != agentkernel.TurnFail || r.out.String() != "fits\n" || turn.Err.Op != "limit.disk" {
		t.Errorf("ended with %+v, %v; printed %q", turn, err, r.out.String())
	}
}

func TestWithoutWallsThereAreNoFolders(t *testing.T) {
	b := newBackend(t, func(c *Config) { c.Isolation = IsolationNone })
	if b.Info().Files {
		t.Error("it says that it shows folders")
	}
	r := newRun(t, b, "print(1)")
	r.req.Mounts, _ = folders(t)
	if _, err := b.Start(t.Context(), r.req); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
		t.Errorf("Start: %v", err)
	}
}

// A zygote's children can read what it has in memory, and have no business with where things lie on the host.
func TestAZygoteDoesNotLearnWhereFoldersLie(t *testing.T) {
	mounts, host := folders(t)
	b := newBackend(t)
	mustExit(t, b, "1")
	h, err := b.tenants.house(t.Context(), Interpreter{}, tenant{"default", stdlibSet, ""})
	if err != nil {
		t.Fatal(err)
	}
	cell, err := h.z.body.cell(agentkernel.DefaultLimits(), mounts)
	if err != nil {
		t.Fatal(err)
	}
	defer cell.Close()
	told, err := json.Marshal(nameless(cell.Plan))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(cell.Plan)
	if err != nil || !strings.Contains(string(whole), host["w"]) {
		t.Fatalf("the plan itself has the folder: %v", err)
	}
	if strings.Contains(string(told), filepath.Dir(host["w"])) {
		t.Errorf("the zygote is told %s", told)
	}
}

// A folder that a program may do without is there, read-only; and where it cannot be shown the program runs and is told.
func TestOptionalFolder(t *testing.T) {
	_, host := folders(t)
	program := shell("pwd; cat f 2>/dev/null; (echo x > new) 2>/dev/null || echo refused; echo $GIT_CONFIG_VALUE_0")
	for _, c := range []struct{ source, out string }{
		{host["w"], "/workspace\nwrefused\n/workspace\n"},
		{filepath.Join(host["w"], "f"), "[stderr]" + agentkernel.NotShown + "folder: " + filepath.Join(host["w"], "f") + " is not a directory\n/tmp\n\n"},
	} {
		r, turn, err := wholeRun(t, program, func(r *run) {
			r.req.Mounts = []agentkernel.Mount{{Source: c.source, ReadOnly: true, Optional: true}}
		})
		if err != nil || turn.Kind != agentkernel.TurnExit || turn.ExitCode != 0 || r.out.String() != c.out {
			t.Errorf("ended with %+v %v and printed %q, want %q", turn, err, r.out.String(), c.out)
		}
	}
	if entries, err := os.ReadDir(host["w"]); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}
