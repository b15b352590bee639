package reaper

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What gets away from group, session, environment and parent, all at once, and would have an effect two seconds later.
var escapes = []struct {
	name, script string
	lines        int
}{
	{"a new session without environment", `env -i setsid sh -c 'echo up >&3; sleep 2; echo effect >&3' & wait`, 1},
	{"a daemon without environment", `env -i setsid -f sh -c 'echo up >&3; sleep 2; echo effect >&3'; sleep 60`, 1},
	{"a daemon of a daemon", `env -i setsid -f sh -c 'setsid -f sh -c "echo up >&3; sleep 2; echo effect >&3"; echo up >&3; sleep 60'; sleep 60`, 2},
	{"one whose parents go in turn", `env -i setsid -f sh -c '(setsid -f sh -c "(echo up >&3; sleep 2; echo effect >&3) &")'; sleep 60`, 1},
}

// killKernel starts a script below the guard of a kernel, and kills the kernel when all of it is up.
func killKernel(t *testing.T, dir, script string, lines int) *witness {
	t.Helper()
	w := newWitness(t)
	kernel := exec.Command(os.Args[0])
	kernel.Env = append(os.Environ(), envKernel+"="+dir, envScript+"="+script, envGuard+"=1")
	kernel.ExtraFiles = []*os.File{w.w}
	kernel.Stderr = os.Stderr
	stdin, err := kernel.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kernel.Process.Kill(); _ = stdin.Close(); _ = kernel.Wait() })
	if err := kernel.Start(); err != nil {
		t.Fatal(err)
	}
	w.await(t, lines+1)
	_ = kernel.Process.Kill()
	return w
}

// From below a guard nothing gets away: neither when its kernel is killed and none comes after it, nor before the next one
// has looked, nor when the command is to end, nor when it ends by itself.
func TestNothingGetsAwayFromAGuard(t *testing.T) {
	all := escapes
	for _, s := range scripts {
		if strings.Contains(s.name, "leader gone") { // takes the others along, before they are up
			continue
		}
		all = append(all, struct {
			name, script string
			lines        int
		}{s.name, s.script, s.lines})
	}
	for _, tc := range all {
		t.Run(tc.name, func(t *testing.T) {
			t.Run("unaided", func(t *testing.T) { killKernel(t, t.TempDir(), tc.script, tc.lines).allGone(t) })
			t.Run("survivors", func(t *testing.T) {
				dir := t.TempDir()
				w := killKernel(t, dir, tc.script, tc.lines)
				if _, err := KillSurvivors(dir); err != nil {
					t.Error(err)
				}
				w.goneAtOnce(t)
				if names, _ := os.ReadDir(dir); len(names) != 0 {
					t.Errorf("records left: %v", names)
				}
			})
			for name, end := range map[string]func(r *Reaper, cmd *exec.Cmd){
				"kill":  func(r *Reaper, cmd *exec.Cmd) { r.Kill(cmd); _ = cmd.Wait(); r.Kill(cmd) },
				"close": func(r *Reaper, cmd *exec.Cmd) { _ = r.Close(); _ = cmd.Wait() },
			} {
				t.Run(name, func(t *testing.T) {
					r, w := newReaper(t), newWitness(t)
					cmd := exec.Command("sh", "-c", tc.script)
					cmd.ExtraFiles = []*os.File{w.w}
					if err := r.Guarded().Start(cmd); err != nil {
						t.Fatal(err)
					}
					w.await(t, tc.lines)
					end(r, cmd)
					w.goneAtOnce(t)
					if names, _ := filepath.Glob(filepath.Join(r.dir, "[0-9]*")); len(names) != 0 {
						t.Errorf("records left: %v", names)
					}
				})
			}
		})
	}
}

// What a command has left is gone when it is waited for.
func TestWhatACommandLeavesEndsWithIt(t *testing.T) {
	r, w := newReaper(t), newWitness(t)
	cmd := exec.Command("sh", "-c", `env -i setsid -f sh -c 'echo up >&3; sleep 60'; read line; exit 7`)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), out.Close() }()
	cmd.Stdin = in
	cmd.ExtraFiles = []*os.File{w.w}
	if err := r.Guarded().Start(cmd); err != nil {
		t.Fatal(err)
	}
	w.await(t, 1)
	if _, err := out.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("it ended with %v, not 7", err)
	}
	w.goneAtOnce(t)
	r.Kill(cmd)
}

// A command below a guard has what it would have without one: its name, folder, environment, files and group; its end is the guard's.
func TestAGuardIsNotSeen(t *testing.T) {
	r := newReaper(t)
	start := r.Guarded().Start
	run := func(cmd *exec.Cmd) (string, *exec.ExitError) {
		t.Helper()
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := start(cmd); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		r.Kill(cmd)
		exit, _ := errors.AsType[*exec.ExitError](err)
		return out.String(), exit
	}
	dir := t.TempDir()
	var outs []string
	for _, start = range []func(*exec.Cmd) error{r.Start, r.Guarded().Start} {
		cmd := exec.Command("sh", "-c", `echo "$0 $1"; pwd; echo "$X"; ls /proc/$$/fd; tr '\0' ' ' </proc/$$/cmdline; grep Sig[BI] /proc/self/status; ulimit -a`, "zero", "one")
		cmd.Dir, cmd.Env = dir, []string{"X=y", "PATH=" + os.Getenv("PATH")}
		out, exit := run(cmd)
		if exit != nil || !strings.HasPrefix(out, "zero one\n"+dir+"\ny\n") {
			t.Errorf("%q, %v", out, exit)
		}
		outs = append(outs, out)
	}
	if outs[0] != outs[1] {
		t.Errorf("without a guard:\n%s\nbelow one:\n%s", outs[0], outs[1])
	}
	if _, exit := run(exec.Command("sh", "-c", "exit 3")); exit == nil || exit.ExitCode() != 3 {
		t.Errorf("%v, not status 3", exit)
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGPIPE} {
		_, exit := run(exec.Command("sh", "-c", `kill -$0 $$`, signalName(signal)))
		if exit == nil || exit.Sys().(syscall.WaitStatus).Signal() != signal {
			t.Errorf("%v, not %s", exit, signal)
		}
	}
	if _, exit := run(exec.Command("sh", "-c", `trap '' TERM; kill -TERM 0; exit 4`)); exit == nil || exit.ExitCode() != 4 {
		t.Errorf("a signal to the group ended the guard: %v", exit)
	}
	odd := filepath.Join(dir, "odd")
	if err := os.WriteFile(odd, []byte("\x00no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, exit := run(exec.Command(odd)); exit == nil || exit.ExitCode() != unexecutable || !strings.Contains(out, "cannot be started: exec "+odd+": exec format error") {
		t.Errorf("what is no program: %q, %v", out, exit)
	}
}

func signalName(s syscall.Signal) string {
	return map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGKILL: "KILL", syscall.SIGSEGV: "SEGV", syscall.SIGPIPE: "PIPE"}[s]
}

// What a program that has a kernel in it was started with, or has opened to be inherited, is neither the command's nor its guard's.
func TestAGuardKeepsNothingThatItWasNotGiven(t *testing.T) {
	r, given, other := newReaper(t), newWitness(t), newWitness(t)
	fd, err := unix.FcntlInt(other.w.Fd(), unix.F_DUPFD, 50) // not close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `echo up >&3; if [ -e /proc/$$/fd/`+strconv.Itoa(fd)+` ]; then echo open >&3; fi; echo looked >&3; read x`)
	cmd.ExtraFiles = []*os.File{given.w}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Guarded().Start(cmd); err != nil {
		t.Fatal(err)
	}
	_, _ = unix.Close(fd), other.w.Close()
	for _, want := range []string{"up\n", "looked\n"} {
		if line, err := given.lines.ReadString('\n'); line != want {
			t.Errorf("%q, %v, not %q", line, err, want)
		}
	}
	other.goneAtOnce(t) // while both run
	_ = in.Close()
	_ = cmd.Wait()
	r.Kill(cmd)
}

// A guard that is killed takes its command along, and one that is stopped with its group still ends.
func TestGuardsThatAreHarmed(t *testing.T) {
	r, w := newReaper(t), newWitness(t)
	cmd := exec.Command("sh", "-c", `echo up >&3; exec sleep 60`)
	cmd.ExtraFiles = []*os.File{w.w}
	if err := r.Guarded().Start(cmd); err != nil {
		t.Fatal(err)
	}
	w.await(t, 1)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	w.allGone(t)
	r.Kill(cmd)

	dir := t.TempDir()
	w = killKernel(t, dir, `echo up >&3; kill -STOP 0; sleep 60`, 1)
	if _, err := KillSurvivors(dir); err != nil {
		t.Error(err)
	}
	w.goneAtOnce(t)
}
