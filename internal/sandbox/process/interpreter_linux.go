package process

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/guest"
)

// Interpreter is what is known of a Python that programs may run in.
type Interpreter struct {
	Asked      string   `json:"asked"`      // as it was configured or found
	Identity   string   `json:"identity"`   // of the file: path, size, time of change
	Executable string   `json:"executable"` // sys.executable
	Version    string   `json:"version"`    // "3.11.7"
	Prefixes   []string `json:"prefixes"`   // directories that it needs to see: sys.prefix, sys.base_prefix, sys.path
	Data       bool     `json:"data"`       // numpy and pandas are installed, for everybody
	Strange    bool     `json:"strange"`    // code of strangers runs when it starts as usual: a virtual environment's packages
}

// probeScript prints the Interpreter. It imports nothing that is slow.
const probeScript = `
import sys, json, importlib.util as u
def has(m):
    try: return u.find_spec(m) is not None
    except Exception: return False
print(json.dumps(dict(executable=sys.executable, version="%d.%d.%d" % sys.version_info[:3], implementation=sys.implementation.name,
  prefixes=sorted({p for p in [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix] + sys.path if p}),
  data=has("numpy") and has("pandas"))))
`

// probeWait bounds the start of the interpreter, which takes a tenth of a second.
const probeWait = 20 * time.Second

const oldestPython = "3.9"

// lookAgain is how long a missing interpreter stays missing: to ask one that hangs takes all of probeWait.
const lookAgain = 5 * time.Second

// interpreter finds the executable and asks it once what it is. The answer is kept in a file, so that another kernel
// need not ask. One that is missing, or cannot be used, is looked for again.
type interpreter struct {
	launch Launcher
	path   string // configured; "" means python3 on PATH
	cache  string // file that keeps the answer; "" keeps none

	mu     sync.Mutex
	looked time.Time // zero: not yet
	found  Interpreter
	err    error
}

// get returns the interpreter, or CodeUnavailable with what mends it.
func (in *interpreter) get() (Interpreter, error) {
	found, err := in.known()
	if err != nil {
		return found, err
	}
	if _, err := os.Stat(found.Asked); errors.Is(err, fs.ErrNotExist) { // deleted since
		return Interpreter{}, in.unusable(found.Asked, "is gone")
	}
	return found, nil
}

func (in *interpreter) known() (Interpreter, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.looked.IsZero() || in.err != nil && time.Since(in.looked) >= lookAgain {
		in.found, in.err = in.look()
		in.looked = time.Now()
	}
	return in.found, in.err
}

// refresh asks again what a script of a version manager stands for now; if that has changed, the next kernel knows. This
// one keeps what it began with: its processes are to be replayed by it.
func (in *interpreter) refresh() {
	found, err := in.get()
	if err != nil || !isScript(found.Asked) {
		return
	}
	if now, err := in.ask(found.Asked); err == nil && now.Executable != found.Executable {
		now.Asked, now.Identity = found.Asked, found.Identity
		in.keep(now)
	}
}

func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	var head [2]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && string(head[:]) == "#!"
}

func (in *interpreter) look() (Interpreter, error) {
	path, err := in.locate()
	if err != nil {
		return Interpreter{}, err
	}
	identity, err := identityOf(path)
	if err != nil {
		return Interpreter{}, missing("%s: %w", path, err)
	}
	if kept, ok := in.kept(); ok && kept.Asked == path && kept.Identity == identity {
		if _, err := os.Stat(kept.Executable); err == nil {
			return kept, nil
		}
	}
	found, err := in.ask(path)
	if err != nil {
		return Interpreter{}, err
	}
	found.Asked, found.Identity = path, identity
	in.keep(found)
	return found, nil
}

func (in *interpreter) locate() (string, error) {
	if in.path == "" {
		path, err := exec.LookPath("python3")
		if err != nil {
			return "", missing("%w", agentkernel.NotOnPath("python3"))
		}
		return filepath.Abs(path)
	}
	path, err := exec.LookPath(in.path)
	if err != nil {
		return "", in.unusable(in.path, "is not an executable file")
	}
	return filepath.Abs(path)
}

// unusable says what is wrong with the interpreter at path, and where its name comes from.
func (in *interpreter) unusable(path, what string) *agentkernel.Error {
	if in.path == "" {
		return missing("the interpreter %s, from the PATH %s, %s", path, agentkernel.OfRunningKernel, what)
	}
	return missing("the interpreter %s, which the setting `python` %s names, %s", path, agentkernel.OfRunningKernel, what).
		WithHint("name a Python %s or later with the setting `python`, or take the setting away: then it is the python3 of PATH", oldestPython)
}

func missing(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "python", format, args...).
		WithHint("install Python %s or later (apt install python3), or name one with the setting `python`", oldestPython)
}

// identityOf changes when another file is at the path, or at the end of its links.
func identityOf(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	st, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(real, st.Size(), st.ModTime().UnixNano(), " ", version(probeScript)), nil
}

// ask runs the interpreter.
func (in *interpreter) ask(path string) (Interpreter, error) {
	out, err := probe(in.launch, path, "-s", "-B", "-c", probeScript)
	if err != nil {
		return Interpreter{}, missing("%s does not %w", path, err)
	}
	var found struct {
		Interpreter
		Implementation string `json:"implementation"`
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return Interpreter{}, missing("%s does not answer as Python does: %.80q", path, out)
	}
	if found.Implementation != "cpython" {
		return Interpreter{}, missing("%s is %s; CPython is needed", path, found.Implementation)
	}
	if olderThan(found.Version, oldestPython) {
		return Interpreter{}, missing("%s is Python %s; %s or later is needed", path, found.Version, oldestPython)
	}
	return found.Interpreter, nil
}

// probe gives what a command prints that says what an interpreter is. One that is killed from outside says nothing about
// the interpreter and is asked again. The error continues "it does not".
func probe(launch Launcher, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeWait)
	defer cancel()
	for left := takeTries; ; left-- {
		var out, said bytes.Buffer
		cmd := exec.Command(path, args...)
		cmd.Env, cmd.Dir = probeEnv(), "/"
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, exitWait
		if err := launch.Start(cmd); err != nil {
			return "", fmt.Errorf("start: %w", err)
		}
		stop := context.AfterFunc(ctx, func() { launch.Kill(cmd) })
		err := cmd.Wait()
		stop()
		launch.Kill(cmd) // its record
		if err == nil {
			return out.String(), nil
		}
		if cmd.ProcessState != nil { // else it could not be waited for
			status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if left > 1 && ctx.Err() == nil && ok && status.Signaled() && killedFromOutside(status.Signal()) {
				continue
			}
		}
		return "", fmt.Errorf("run: %w: %s", err, lastLine(said.String()))
	}
}

// killedFromOutside says whether a signal is one with which no program crashes.
func killedFromOutside(sig syscall.Signal) bool { return sig == unix.SIGKILL || sig == unix.SIGTERM }

// probeEnv is the host's environment: the name python3 may be a script of a version manager, which needs it. What it
// starts is asked for its version and nothing else.
func probeEnv() []string { return os.Environ() }

func olderThan(version, oldest string) bool {
	var a, b [2]int
	_, _ = fmt.Sscanf(version, "%d.%d", &a[0], &a[1])
	_, _ = fmt.Sscanf(oldest, "%d.%d", &b[0], &b[1])
	return a[0] < b[0] || a[0] == b[0] && a[1] < b[1]
}

func (in *interpreter) kept() (k Interpreter, ok bool) {
	if in.cache == "" {
		return k, false
	}
	b, err := os.ReadFile(in.cache)
	return k, err == nil && json.Unmarshal(b, &k) == nil
}

// keep may fail: the next kernel asks again.
func (in *interpreter) keep(k Interpreter) {
	if in.cache == "" {
		return
	}
	if b, err := json.Marshal(k); err == nil {
		_ = os.WriteFile(in.cache, b, 0o600)
	}
}

// bundle is the guest library, as the zygote's loader reads it on its standard input.
type bundle struct {
	Sources map[string]string `json:"sources"`
	Config  bundleConfig      `json:"config"`
}

type bundleConfig struct {
	Imports []string `json:"imports"` // modules to import ahead
	Needed  []string `json:"needed"`  // those without which it makes no sense
	// Runner makes a list of system calls: confine.StepRunner.
	Runner []byte       `json:"runner"`
	Calls  machineCalls `json:"calls"`
}

// machineCalls are the numbers of the system calls that a zygote makes around those of a plan.
type machineCalls struct {
	Clone      int `json:"clone"`
	Prctl      int `json:"prctl"`
	Setsid     int `json:"setsid"`
	Dup3       int `json:"dup3"`
	CloseRange int `json:"close_range"`
	Write      int `json:"write"`
	Read       int `json:"read"`
	Prlimit64  int `json:"prlimit64"`
	Recvfrom   int `json:"recvfrom"`
	Recvmsg    int `json:"recvmsg"`
	Sendmsg    int `json:"sendmsg"`
	Wait4      int `json:"wait4"`
	Writev     int `json:"writev"`
	Madvise    int `json:"madvise"`
	ExitGroup  int `json:"exit_group"`
	// ChildTIDLast says that the last argument of clone is where the child's number goes; elsewhere it is the last but one.
	ChildTIDLast bool `json:"child_tid_last"`
}

// theseCalls are those of this machine.
func theseCalls() machineCalls {
	return machineCalls{Clone: unix.SYS_CLONE, Prctl: unix.SYS_PRCTL, Setsid: unix.SYS_SETSID, Dup3: unix.SYS_DUP3, CloseRange: unix.SYS_CLOSE_RANGE,
		Write: unix.SYS_WRITE, Read: unix.SYS_READ, Prlimit64: unix.SYS_PRLIMIT64, Recvfrom: unix.SYS_RECVFROM, Recvmsg: unix.SYS_RECVMSG,
		Sendmsg: unix.SYS_SENDMSG, Wait4: unix.SYS_WAIT4, Writev: unix.SYS_WRITEV, Madvise: unix.SYS_MADVISE,
		ExitGroup: unix.SYS_EXIT_GROUP, ChildTIDLast: runtime.GOARCH == "arm64"}
}

// guestSources are the modules of the guest library, and the version that they make together.
var guestSources = sync.OnceValues(func() (map[string]string, string) {
	all := map[string]string{}
	h := sha256.New()
	entries, err := fs.ReadDir(guest.Python, "python")
	if err != nil {
		panic(err) // the files are part of the binary
	}
	for _, e := range entries {
		text, err := fs.ReadFile(guest.Python, "python/"+e.Name())
		if err != nil {
			panic(err)
		}
		all[strings.TrimSuffix(e.Name(), ".py")] = string(text)
		fmt.Fprintf(h, "%s %d\n%s", e.Name(), len(text), text)
	}
	return all, hex.EncodeToString(h.Sum(nil)[:6])
})

func version(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
