package confine

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/usertest"
)

// aConfig is a Config that is right.
func aConfig(t *testing.T) Config {
	dir := publicDir(t)
	for _, d := range []string{"work", "scratch", "volume", "data"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return Config{
		Runtime:   SystemRuntime(),
		Workspace: &Workspace{Source: filepath.Join(dir, "work"), Access: Overlay, Scratch: filepath.Join(dir, "scratch")},
		Volumes:   []Volume{{Name: "v", Source: filepath.Join(dir, "volume")}},
		Masked:    []string{filepath.Join(dir, "data")},
		Program:   Program{Path: "/bin/true", Args: []string{"true"}, Env: []string{"A=b"}},
	}
}

func TestWhatIsRefused(t *testing.T) {
	s := newSpawner(t)
	for _, tc := range []struct {
		name   string
		change func(c *Config, dir string)
		code   agentkernel.Code
		says   string
	}{
		{"nothing wrong", func(*Config, string) {}, "", ""},
		{"workspace inside the data directory", func(c *Config, dir string) { c.Masked = []string{dir} }, agentkernel.CodeInvalid, "inside the kernel's data directory"},
		{"workspace is the data directory", func(c *Config, dir string) { c.Masked = []string{c.Workspace.Source} }, agentkernel.CodeInvalid, "inside the kernel's data directory"},
		{"data directory inside a workspace that is written", func(c *Config, dir string) {
			c.Workspace.Source, c.Workspace.Access = dir, ReadWrite
		}, agentkernel.CodeInvalid, "holds the kernel's data directory"},
		{"workspace inside the data directory by a link", func(c *Config, dir string) {
			_ = os.Symlink(dir, dir+"/data/link")
			c.Workspace.Source, c.Masked = dir+"/data/link/work", []string{dir}
		}, agentkernel.CodeInvalid, "inside the kernel's data directory"},
		{"workspace is a symbolic link", func(c *Config, dir string) {
			_ = os.Symlink(dir+"/work", dir+"/link")
			c.Workspace.Source = dir + "/link"
		}, agentkernel.CodeInvalid, "is a symbolic link"},
		{"workspace does not exist", func(c *Config, dir string) { c.Workspace.Source = dir + "/nowhere" }, agentkernel.CodeNotFound, "nowhere: no such file"},
		{"workspace is a file", func(c *Config, dir string) {
			_ = os.WriteFile(dir+"/file", nil, 0o644)
			c.Workspace.Source = dir + "/file"
		}, agentkernel.CodeInvalid, "not a directory"},
		{"workspace is the machine", func(c *Config, dir string) { c.Workspace.Source = "/" }, agentkernel.CodeInvalid, "whole machine"},
		{"workspace by a relative path", func(c *Config, dir string) { c.Workspace.Source = "work" }, agentkernel.CodeInvalid, "not an absolute path"},
		{"workspace with dots", func(c *Config, dir string) { c.Workspace.Source = dir + "/work/../work" }, agentkernel.CodeInvalid, "not an absolute path"},
		{"workspace of an unknown access", func(c *Config, dir string) { c.Workspace.Access = "w" }, agentkernel.CodeInvalid, "cannot be used"},
		{"scratch inside the workspace", func(c *Config, dir string) { c.Workspace.Source = dir }, agentkernel.CodeInvalid, "hold one another"},
		{"scratch does not exist", func(c *Config, dir string) { c.Workspace.Scratch = dir + "/no" }, agentkernel.CodeNotFound, "scratch"},
		{"volume does not exist", func(c *Config, dir string) { c.Volumes[0].Source = dir + "/no" }, agentkernel.CodeNotFound, "volume v"},
		{"volume is the data directory", func(c *Config, dir string) { c.Volumes[0].Source = dir + "/data" }, agentkernel.CodeInvalid, "kernel's own"},
		{"volume with a path for a name", func(c *Config, dir string) { c.Volumes[0].Name = "../x" }, agentkernel.CodeInvalid, "no name"},
		{"volume twice", func(c *Config, dir string) { c.Volumes = append(c.Volumes, c.Volumes[0]) }, agentkernel.CodeInvalid, "twice"},
		{"runtime is the data directory", func(c *Config, dir string) { c.Runtime = []Mount{{Source: dir + "/data"}} }, agentkernel.CodeInvalid, "kernel's own"},
		{"runtime does not exist", func(c *Config, dir string) { c.Runtime = []Mount{{Source: "/no/python"}} }, agentkernel.CodeNotFound, "/no/python"},
		{"runtime where nothing can be mounted", func(c *Config, dir string) {
			c.Runtime = append(c.Runtime, Mount{Source: dir, Target: "/usr/no/such"})
		}, agentkernel.CodeInvalid, "nothing can be mounted at /usr/no/such"},
		{"memory absurdly small", func(c *Config, _ string) { c.Limits.Memory = 1 << 20 }, agentkernel.CodeInvalid, "memory limit is 1048576 bytes"},
		{"memory absurdly large", func(c *Config, _ string) { c.Limits.Memory = 1 << 60 }, agentkernel.CodeInvalid, "memory limit"},
		{"memory negative", func(c *Config, _ string) { c.Limits.Memory = -1 }, agentkernel.CodeInvalid, "memory limit is -1"},
		{"processes negative", func(c *Config, _ string) { c.Limits.Pids = -1 }, agentkernel.CodeInvalid, "process limit"},
		{"CPU not a number", func(c *Config, _ string) { c.Limits.CPUs = math.NaN() }, agentkernel.CodeInvalid, "CPU limit is NaN"},
		{"CPU infinite", func(c *Config, _ string) { c.Limits.CPUs = math.Inf(1) }, agentkernel.CodeInvalid, "CPU limit"},
		{"CPU time negative", func(c *Config, _ string) { c.Limits.CPUTime = -time.Second }, agentkernel.CodeInvalid, "CPU time"},
		{"files absurd", func(c *Config, _ string) { c.Limits.OpenFiles = 1 << 30 }, agentkernel.CodeInvalid, "open file limit"},
		{"runtime in the place of the workspace", func(c *Config, dir string) {
			c.Runtime = []Mount{{Source: dir, Target: "/workspace/x"}}
		}, agentkernel.CodeInvalid, "the sandbox has its own"},
		{"more files than the kernel itself", func(c *Config, _ string) { c.Limits.OpenFiles = 1 << 20 }, agentkernel.CodeInvalid, "this kernel itself may have"},
		{"file size absurd", func(c *Config, _ string) { c.Limits.FileSize = math.MaxInt64 }, agentkernel.CodeInvalid, "file size limit"},
		{"no room in /tmp", func(c *Config, _ string) { c.TmpBytes = 1 }, agentkernel.CodeInvalid, "size of /tmp"},
		{"unknown profile", func(c *Config, _ string) { c.Profile = "perl" }, agentkernel.CodeInvalid, `no seccomp profile "perl"`},
		{"no arguments", func(c *Config, _ string) { c.Program.Args = nil }, agentkernel.CodeInvalid, "no arguments"},
		{"environment that is none", func(c *Config, _ string) { c.Program.Env = []string{"x"} }, agentkernel.CodeInvalid, "not KEY=VALUE"},
		{"NUL in an argument", func(c *Config, _ string) { c.Program.Args = []string{"a\x00b"} }, agentkernel.CodeInvalid, "NUL"},
		{"zygote with a workspace", func(c *Config, _ string) { c.Kind = Zygote }, agentkernel.CodeInvalid, "zygote has no workspace"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := aConfig(t)
			s.machine.maxOpenFiles = 1 << 19
			tc.change(&cfg, filepath.Dir(cfg.Workspace.Source))
			c, err := s.Prepare(cfg)
			if tc.code == "" {
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			if agentkernel.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %v", agentkernel.CodeOf(err), err)
			}
		})
	}
}

func TestProgramsThatCannotBeStarted(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		dir := publicDir(t)
		write := func(name, text string, mode os.FileMode) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
				t.Fatal(err)
			}
			_ = os.Chmod(filepath.Join(dir, name), mode)
		}
		write("plain", "#!/bin/sh\n", 0o644)
		write("orphan", "#!/no/interpreter\n", 0o755)
		write("text", "hello", 0o755)
		foreign := []byte(readFile(t, tinyProgram(t, dir)))
		foreign[18] = 8 // MIPS
		write("foreign", string(foreign), 0o755)
		for _, tc := range []struct {
			path string
			code agentkernel.Code
			says string
		}{
			{"/no/such", agentkernel.CodeNotFound, "not in the sandbox"},
			{dir + "/plain", agentkernel.CodeDenied, "may not be executed"},
			{dir + "/orphan", agentkernel.CodeNotFound, "interpreter"},
			{dir + "/text", agentkernel.CodeUnsupported, "no program for this machine"},
			{dir + "/foreign", agentkernel.CodeUnsupported, "no program for this machine"},
			{dir, agentkernel.CodeDenied, "may not be executed"},
		} {
			c, err := s.Prepare(Config{Runtime: append(SystemRuntime(), Mount{Source: dir}), Program: Program{Path: tc.path, Args: []string{"x"}}})
			if err != nil {
				t.Fatal(err)
			}
			null, _ := os.Open(os.DevNull)
			defer null.Close()
			_, err = s.Start(t.Context(), c, []*os.File{null, null, null})
			if agentkernel.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %s: %v", tc.path, agentkernel.CodeOf(err), err)
			}
		}
		c, err := s.Prepare(Config{Runtime: SystemRuntime(), Program: Program{Path: "/bin/true", Args: []string{"x"}, Dir: "/nowhere"}})
		if err != nil {
			t.Fatal(err)
		}
		null, _ := os.Open(os.DevNull)
		defer null.Close()
		if _, err = s.Start(t.Context(), c, []*os.File{null, null, null}); agentkernel.CodeOf(err) != agentkernel.CodeNotFound || !strings.Contains(err.Error(), "/nowhere") {
			t.Errorf("working directory: %v", err)
		}
	})
}

// TestWorkspaceIsSwappedForALink replaces a directory between the decision and the mount.
func TestWorkspaceIsSwappedForALink(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		for _, where := range []string{"work", "."} {
			cfg := aConfig(t)
			dir := filepath.Dir(cfg.Workspace.Source)
			cfg.Workspace = &Workspace{Source: cfg.Workspace.Source}
			c, err := s.Prepare(cfg)
			if err != nil {
				t.Fatal(err)
			}
			swapped := filepath.Join(dir, where)
			if err := os.Rename(swapped, swapped+".old"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("/etc", swapped); err != nil {
				t.Fatal(err)
			}
			null, _ := os.Open(os.DevNull)
			defer null.Close()
			_, err = s.Start(t.Context(), c, []*os.File{null, null, null})
			if agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), "symbolic link") {
				t.Errorf("%s: %v", where, err)
			}
			_ = os.Remove(swapped)
			_ = os.RemoveAll(swapped + ".old")
		}
	})
}

// TestLandlockHoldsWhereAMountIsWrong takes the read-only flag off the workspace and the root: Landlock is the
// second wall.
func TestLandlockHoldsWhereAMountIsWrong(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		if s.machine.landlock == 0 {
			t.Skip("this Linux has no Landlock")
		}
		cfg := aConfig(t)
		cfg.Workspace = &Workspace{Source: cfg.Workspace.Source}
		const script = `for d in / /etc /workspace /dev; do if echo x >$d/file; then echo "BREACH $d"; fi; done; echo x >/tmp/fine && echo tried`
		cfg.Program = Program{Path: "/bin/sh", Args: []string{"sh", "-c", script}}
		c, err := s.Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.Plan.Trees {
			c.Plan.Trees[i].ReadOnly = false
		}
		last := &c.Plan.Setup
		*last = removeSteps(*last, func(st Step) bool {
			return st.Call == "mount" && st.Args[3].Num&unix.MS_REMOUNT != 0
		})
		null, _ := os.Open(os.DevNull)
		defer null.Close()
		out, w := collect(t)
		p, err := s.Start(t.Context(), c, []*os.File{null, w, w})
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		<-p.Done()
		<-out.done
		if got := out.String(); strings.Contains(got, "BREACH") || strings.Count(got, "Permission denied") != 4 || !strings.Contains(got, "tried") {
			t.Error(got)
		}
	})
}

func removeSteps(steps []Step, which func(Step) bool) (left []Step) {
	for _, s := range steps {
		if !which(s) {
			left = append(left, s)
		}
	}
	return left
}

func TestVolumes(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		for _, kind := range []Kind{Whole, Child} {
			t.Run(kind.String(), func(t *testing.T) {
				base := aConfig(t)
				dir := filepath.Dir(base.Workspace.Source)
				const script = `
import os
for v in "vw":
    try:
        with open("/volumes/%s/new" % v, "w") as f: f.write("x")
        print("wrote", v)
    except OSError as e: print(e.errno, v)
print(sorted(os.listdir("/volumes")), os.listdir("/volumes/v/data"))
try: open("/volumes/x", "w")
except OSError as e: print(e.errno)
try: os.chmod("/volumes/v/shut", 0o755)
except OSError as e: print(e.errno)
try: open("/volumes/v/shut/f")
except OSError as e: print(e.errno)`
				cfg := pythonConfig(t, script)
				cfg.Volumes = []Volume{{Name: "v", Source: dir, Hidden: []string{"shut/"}}, {Name: "w", Source: dir + "/volume", ReadOnly: true}}
				cfg.Masked = base.Masked
				if err := errors.Join(os.WriteFile(dir+"/data/token", nil, 0o644), os.Mkdir(dir+"/shut", 0o777), os.WriteFile(dir+"/shut/f", nil, 0o666)); err != nil {
					t.Fatal(err)
				}
				var r *running
				if kind == Child {
					r = launchChild(t, s, cfg, script)
				} else {
					r = launchWhole(t, s, cfg)
				}
				r.finish(t)
				if got, want := r.out.String(), "wrote v\n30 w\n['v', 'w'] []\n30\n30\n13\n"; got != want {
					t.Errorf("got %q, want %q\n%s", got, want, r.err)
				}
				st, err := os.Stat(dir + "/new")
				if err != nil || int(st.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
					t.Errorf("%v, %v", st, err)
				}
			})
		}
	})
}

func TestOverlayChanges(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		cfg := aConfig(t)
		work, upper := cfg.Workspace.Source, cfg.Workspace.Scratch+"/upper"
		for _, name := range []string{"changed", "deleted", "kept"} {
			if err := os.WriteFile(filepath.Join(work, name), []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Mkdir(work+"/shut", 0o777), os.WriteFile(work+"/shut/f", []byte("old"), 0o666)); err != nil {
			t.Fatal(err)
		}
		cfg.Workspace.Hidden = []string{"shut/"} // it can be opened by nobody, and so has no changes
		cfg.Program = Program{Path: "/bin/sh", Args: []string{"sh", "-ec", "echo new >changed; rm deleted; mkdir -p a/b; echo made >a/b/c; ls; ! chmod 755 shut && ! cat shut/f && ! echo new >shut/f && ! mkdir shut/d"}, Env: []string{"PATH=/bin:/usr/bin"}}
		r := launchWhole(t, s, cfg)
		if e := r.finish(t); e.String() != "exit 0" || r.out.String() != "a\nchanged\nkept\nshut\n" {
			t.Fatalf("%s: %s%s", e, r.out, r.err)
		}
		if readFile(t, work+"/changed") != "old" || readFile(t, work+"/deleted") != "old" {
			t.Error("the host's files changed")
		}
		if readFile(t, upper+"/changed") != "new\n" || readFile(t, upper+"/a/b/c") != "made\n" {
			t.Error("the changes are not in the upper directory")
		}
		var st unix.Stat_t
		if err := unix.Lstat(upper+"/deleted", &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
			t.Errorf("no whiteout: %v %o %d", err, st.Mode, st.Rdev)
		}
		if _, err := os.Lstat(upper + "/kept"); !os.IsNotExist(err) {
			t.Error("a file that was not touched was copied")
		}
		if int(st.Uid) != os.Geteuid() {
			t.Errorf("changes belong to user %d", st.Uid)
		}
		for _, d := range []string{upper + "/a/b", upper + "/a"} { // a program can make it hard
			if err := os.Chmod(d, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := RemoveScratch(cfg.Workspace.Scratch); err != nil {
			t.Error(err)
		}
	})
}

func TestProbe(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		r := newSpawner(t).Probe(t.Context())
		if r.Problem != nil {
			t.Fatalf("%v (%s)", r.Problem, r.Problem.Hint)
		}
		names := map[string]bool{}
		for _, w := range r.Walls {
			names[w.Name] = w.On
			if w.How == "" {
				t.Errorf("%s: says nothing", w.Name)
			}
		}
		for _, must := range []string{wallUser, wallRoot, wallProc, wallCaps, wallNoNew, wallSeccomp, "no network", "memory limit", "process limit"} {
			if !names[must] {
				t.Errorf("%s: not in force", must)
			}
		}
	})
}

// TestNothingCompares is a machine that cannot tell an inherited file from one that was opened again.
func TestNothingCompares(t *testing.T) {
	m := Look()
	for _, can := range []bool{true, false} {
		if can != m.kcmp {
			t.Errorf("files can be compared here: %t", m.kcmp)
		}
		i := slices.IndexFunc(m.walls(Config{}.withDefaults(), Identity{}, Counted{}), func(w Wall) bool { return !w.On && w.Name == "inherited files" })
		if (i < 0) != can {
			t.Errorf("with files that can be compared %t, it is wall %d that is missing", can, i)
		}
		m.kcmp = false
	}
}

// TestNoUserNamespaces is a machine where namespaces are used up: this one, in a namespace that may have none.
func TestNoUserNamespaces(t *testing.T) {
	const role = "CONFINE_TEST_NO_NAMESPACES"
	switch os.Getenv(role) {
	case "setting":
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
		fallthrough
	case "limit":
		s := newSpawner(t)
		if os.Getenv(role) == "limit" { // it is found out by trying
			if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
				t.Fatal(err)
			}
		}
		p := s.Probe(t.Context()).Problem
		if p == nil || p.Code != agentkernel.CodeUnavailable || !strings.Contains(p.Hint, "sysctl user.max_user_namespaces") {
			t.Fatalf("%v: %#v", p, p)
		}
		if os.Getenv(role) == "limit" {
			return
		}
		_, err := s.Prepare(Config{Runtime: SystemRuntime(), Program: Program{Path: "/bin/true", Args: []string{"true"}}})
		if agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
			t.Errorf("Prepare: %v", err)
		}
		return
	}
	outside := os.Geteuid()
	if outside == 0 {
		outside = usertest.Someone
	}
	for _, how := range []string{"setting", "limit"} {
		cmd := exec.Command(usertest.Executable(t, usertest.Dir(t)), "-test.run=^TestNoUserNamespaces$")
		cmd.Env = append(os.Environ(), role+"="+how)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential:  &syscall.Credential{NoSetGroups: true},
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: outside, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: outside, Size: 1}},
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", how, err, out)
		}
	}
}

func TestPlanSurvivesItsForms(t *testing.T) {
	s := newSpawner(t)
	for _, change := range []func(*Config){func(*Config) {}, func(c *Config) { c.FullProc = true }} {
		cfg := aConfig(t)
		change(&cfg)
		c, err := s.Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		b, err := json.Marshal(c.Plan)
		if err != nil {
			t.Fatal(err)
		}
		var back Plan
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(*c.Plan, back); diff != "" {
			t.Error("JSON:", diff)
		}
		decoded, err := decodePlan(encodePlan(nil, c.Plan))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(forExecutor(*c.Plan), forExecutor(*decoded)); diff != "" {
			t.Error("binary:", diff)
		}
		for cut := range 200 {
			if _, err := decodePlan(encodePlan(nil, c.Plan)[:cut]); err == nil {
				t.Errorf("a plan of %d bytes was taken", cut)
			}
		}
	}
	const want = `[-1,"a",{"bytes":"AAE="},{"fd":"x"},{"saved":"y"},{"filter":"Ag=="}]`
	args := []Arg{Num(-1), Str("a"), Bytes([]byte{0, 1}), FD("x"), Saved("y"), Filter([]byte{2})}
	if b, err := json.Marshal(args); err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}

// forExecutor drops what is for people, and makes nil of empty lists.
func forExecutor(p Plan) Plan {
	p.Walls = nil
	empty := func(steps []Step) []Step {
		out := append([]Step{}, steps...)
		for i := range out {
			out[i].Call, out[i].Wall = "", ""
			if len(out[i].OK) == 0 {
				out[i].OK = nil
			}
			if len(out[i].Args) == 0 {
				out[i].Args = nil
			}
		}
		return out
	}
	p.Setup, p.Seal = empty(p.Setup), empty(p.Seal)
	if len(p.Cgroups) == 0 {
		p.Cgroups = nil
	}
	if len(p.Program.Env) == 0 {
		p.Program.Env = nil
	}
	p.Program.Dir = "" // Seal has it
	return p
}

func TestNoPlanRunsAsRootOutside(t *testing.T) {
	m := Look()
	_, err := m.Decide(Config{Runtime: SystemRuntime(), Program: Program{Path: "/bin/true", Args: []string{"true"}}}, Identity{}, Counted{})
	if agentkernel.CodeOf(err) != agentkernel.CodeInternal {
		t.Errorf("user 0: %v", err)
	}
	if os.Geteuid() != 0 {
		return
	}
	ids := newIdentities(m, "x")
	first, _ := ids.take()
	second, _ := ids.take()
	if first.UID < firstUID || first == second || second.UID > math.MaxInt32 {
		t.Errorf("%v, %v", first, second)
	}
	ids.give(first)
	if again, _ := ids.take(); again != first {
		t.Errorf("%v was not used again", first)
	}
}

func TestWallsAreExplained(t *testing.T) {
	p := &Plan{Setup: []Step{{Call: "mount", Args: []Arg{Str("proc"), Str("/proc")}, Wall: wallProc}}}
	e := p.Explain(false, 0, unix.EPERM)
	if !regexp.MustCompile(`the wall "own /proc" cannot be built: mount proc /proc: operation not permitted`).MatchString(e.Error()) ||
		!strings.Contains(e.Hint, "systempaths=unconfined") {
		t.Errorf("%v (%s)", e, e.Hint)
	}
}
