package confine

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agentkernel/internal/usertest"
)

// world is what is there to be attacked.
type world struct {
	dir       string // holds all
	workspace string
	data      string // the kernel's data directory, inside the workspace
	secret    string
	scratch   int
	sibling   *running
	reached   chan string // what came in on the host's sockets
	params    map[string]any
}

const marker = "the-hosts-own-secret"

func newWorld(t *testing.T, s *Spawner) *world {
	t.Helper()
	t.Setenv("CONFINE_TEST_SECRET", marker)
	dir := publicDir(t)
	w := &world{dir: dir, workspace: filepath.Join(dir, "work"), secret: filepath.Join(dir, "secret"), reached: make(chan string, 100)}
	w.data = filepath.Join(w.workspace, "state", "agentkernel")
	for path, text := range map[string]string{
		w.secret: marker, filepath.Join(w.workspace, "hello"): "hello", filepath.Join(w.workspace, "victim"): "v",
		filepath.Join(w.workspace, "other"): "o", filepath.Join(w.data, "token"): marker,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(w.secret, filepath.Join(w.workspace, "planted-link")); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := unix.Mknod(filepath.Join(w.workspace, "planted-device"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
			t.Fatal(err)
		}
		_ = os.Chmod(filepath.Join(w.workspace, "planted-device"), 0o666)
		plantSetuid(t, filepath.Join(w.workspace, "setuid-id"))
	}
	w.listen(t)
	w.sibling = launchWhole(t, s, pythonConfig(t, "import time\nx = '"+marker+"' * 1000\nprint('up', flush=True)\ntime.sleep(3600)"))
	w.sibling.out.await(t, "up")
	py, err := python()
	if err != nil {
		t.Fatal(err)
	}
	roots := []string{strings.Split(py.Prefix, "/")[1], strings.Split(py.Executable, "/")[1]}
	rel, _ := filepath.Rel(w.workspace, w.data)
	for k, v := range map[string]any{"secret": w.secret, "marker": []string{marker[:8], marker[8:]}, "data": w.data, "data_rel": rel, "roots": roots,
		"sibling": w.sibling.PID(), "kernel": os.Getpid(), "nr": callNumbers()} {
		w.params[k] = v
	}
	return w
}

// plantSetuid puts a program there that says who it is, owned by root and setuid.
func plantSetuid(t *testing.T, path string) {
	usertest.Copy(t, "/usr/bin/id", path)
	if err := unix.Chmod(path, 0o4755); err != nil {
		t.Fatal(err)
	}
}

// listen opens what must not be reached, and reports whoever reaches it.
func (w *world) listen(t *testing.T) {
	t.Helper()
	w.params = map[string]any{}
	name := fmt.Sprintf("confine-test-%d", os.Getpid())
	for _, l := range []struct{ network, address, param string }{
		{"tcp", "127.0.0.1:0", "port"}, {"unix", "@" + name, "abstract"}, {"unix", filepath.Join(w.workspace, "host.sock"), ""},
	} {
		ln, err := net.Listen(l.network, l.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				c.Close()
				w.reached <- l.address
			}
		}()
		if a, ok := ln.Addr().(*net.TCPAddr); ok {
			w.params["port"] = a.Port
		}
	}
	_ = os.Chmod(filepath.Join(w.workspace, "host.sock"), 0o777)
	w.params["abstract"], w.params["abstract_dgram"] = name, name+"-dgram"
	pc, err := net.ListenPacket("unixgram", "@"+name+"-dgram")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	go func() {
		for b := make([]byte, 100); ; {
			if _, _, err := pc.ReadFrom(b); err != nil {
				return
			}
			w.reached <- "datagram"
		}
	}()
}

func (w *world) config(t *testing.T, a attack) (Config, string) {
	t.Helper()
	w.scratch++
	w.params["run"] = w.scratch
	params, err := json.Marshal(w.params)
	if err != nil {
		t.Fatal(err)
	}
	script := readFile(t, "testdata/prelude.py") + a.program + "\n"
	cfg := pythonConfig(t, script)
	scratch := filepath.Join(w.dir, fmt.Sprintf("scratch%d", w.scratch))
	if err := os.Mkdir(scratch, 0o755); err != nil {
		t.Fatal(err)
	}
	cfg.Workspace = &Workspace{Source: w.workspace, Access: ReadWrite, Scratch: scratch}
	cfg.Program.Env = append(cfg.Program.Env, "PARAMS="+string(params))
	if a.change != nil {
		a.change(&cfg)
	}
	if cfg.Workspace.Access != ReadWrite {
		cfg.Masked = []string{w.data}
	}
	return cfg, script
}

func TestAttacks(t *testing.T) {
	bothUsers(t, func(t *testing.T) { attackAll(t, newSpawner(t)) })
}

// TestAttacksWithoutCgroups is for machines like an ordinary user's: the watchdog and rlimits must do.
func TestAttacksWithoutCgroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("TestAttacks has no cgroups either for this user")
	}
	s := newSpawner(t, func(c *SpawnerConfig) { c.NoCgroups = true })
	w := newWorld(t, s)
	t.Run("bombs", func(t *testing.T) { w.run(t, s, tightened(bombs)) })
}

// TestInitIsClosedByItself takes Landlock away, which guards the init as well.
func TestInitIsClosedByItself(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		s.machine.landlock = 0
		w := newWorld(t, s)
		for _, a := range reading {
			if strings.Contains(a.name, "pid 1") {
				cfg, _ := w.config(t, a)
				w.judge(t, a, launchWhole(t, s, cfg))
			}
		}
	})
}

// attackGroups are all attacks, as docs/security.md lists them.
var attackGroups = []struct {
	name    string
	attacks []attack
}{{"Reading", reading}, {"Network", network}, {"System calls", system}, {"Bombs", bombs}, {"Outliving, hiding, reaching others", lives}, {"Files", files}}

var update = flag.Bool("update", false, "write the table of attacks into docs/security.md")

// TestAttackTable compares the table in docs/security.md with the attacks that are tried.
func TestAttackTable(t *testing.T) {
	const page, begin, end = "../../../docs/security.md", "TestAttackTable -update -->\n", "<!-- end of attacks -->"
	names := map[string]bool{}
	var table strings.Builder
	for _, group := range attackGroups {
		fmt.Fprintf(&table, "\n| %s | stopped by |\n|---|---|\n", group.name)
		for _, a := range group.attacks {
			if names[a.name] || a.wall == "" || a.program == "" {
				t.Errorf("%q is there twice, or says too little", a.name)
			}
			names[a.name] = true
			fmt.Fprintf(&table, "| %s | %s |\n", a.name, a.wall)
		}
	}
	table.WriteString("\n")
	text := readFile(t, page)
	before, rest, ok := strings.Cut(text, begin)
	listed, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has lost the marks around its table", page)
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if listed != table.String() {
		t.Errorf("%s lists other attacks than are tried; run: go test ./internal/sandbox/confine -run TestAttackTable -update", page)
	}
	for _, page := range []string{page, "../../../README.md"} {
		counts := regexp.MustCompile(`(\d+) attacks`).FindAllStringSubmatch(readFile(t, page), -1)
		if len(counts) == 0 {
			t.Errorf("%s does not say how many attacks are tried", page)
		}
		for _, c := range counts {
			if c[1] != strconv.Itoa(len(names)) {
				t.Errorf("%s says %q; there are %d", page, c[0], len(names))
			}
		}
	}
}

func attackAll(t *testing.T, s *Spawner) {
	w := newWorld(t, s)
	for _, group := range []struct {
		name    string
		attacks []attack
	}{{"reading", reading}, {"network", network}, {"system", system}, {"bombs", tightened(bombs)}, {"lives", lives}, {"files", files}} {
		t.Run(group.name, func(t *testing.T) { w.run(t, s, group.attacks) })
	}
	select {
	case who := <-w.reached:
		t.Errorf("somebody reached %s", who)
	default:
	}
	select {
	case <-w.sibling.Done():
		t.Error("the sibling was killed")
	default:
	}
	w.checkHost(t)
}

func tightened(list []attack) []attack {
	out := make([]attack, len(list))
	for i, a := range list {
		out[i] = a
		out[i].change = func(c *Config) {
			tight(c)
			if a.change != nil {
				a.change(c)
			}
		}
	}
	return out
}

func (w *world) run(t *testing.T, s *Spawner, list []attack) {
	for _, a := range list {
		if a.amd64 && runtime.GOARCH != "amd64" || a.uncounted && s.machine.groups.has(ctlMemory) {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			t.Run("whole", func(t *testing.T) {
				cfg, _ := w.config(t, a)
				w.judge(t, a, launchWhole(t, s, cfg))
			})
			if a.wholeOnly {
				return
			}
			t.Run("child", func(t *testing.T) {
				cfg, script := w.config(t, a)
				w.judge(t, a, launchChild(t, s, cfg, script))
			})
		})
	}
}

func (w *world) judge(t *testing.T, a attack, r *running) {
	t.Helper()
	e := r.finish(t)
	got := strings.Join(strings.Fields(r.out.String()), " ")
	want := strings.TrimSpace(a.want)
	if !regexp.MustCompile("^(?:"+want+")$").MatchString(got) && !regexp.MustCompile("^(?:"+want+")$").MatchString(got+" ") {
		t.Errorf("got  %s\nwant %s\n%s", got, a.want, r.err)
	}
	ends := a.ends
	if ends == nil {
		ends = exited(0)
	}
	if !ends(e) {
		t.Errorf("it ended by %s (known %v)\n%s", e, e.Known, r.err)
	}
}

// checkHost looks at what the attacks have left on the host.
func (w *world) checkHost(t *testing.T) {
	t.Helper()
	owner := uint32(os.Geteuid())
	for name, text := range map[string]string{"hello": "hello", "victim": "v", "other": "o"} {
		if got := readFile(t, filepath.Join(w.workspace, name)); got != text {
			t.Errorf("%s is %q now", name, got)
		}
	}
	if got := readFile(t, w.secret); got != marker {
		t.Errorf("the secret is %q now", got)
	}
	err := filepath.Walk(w.workspace, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		if st.Uid != owner {
			t.Errorf("%s belongs to user %d", path, st.Uid)
		}
		name := filepath.Base(path)
		if info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 && name != "setuid-id" {
			t.Errorf("%s is %s", path, info.Mode())
		}
		if info.Mode()&os.ModeDevice != 0 && name != "planted-device" {
			t.Errorf("%s is a device", path)
		}
		if strings.HasPrefix(name, "core") {
			t.Errorf("a core dump: %s", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// callNumbers are what the attacks call by number.
func callNumbers() map[string]int {
	return map[string]int{
		"process_vm_readv": unix.SYS_PROCESS_VM_READV, "process_vm_writev": unix.SYS_PROCESS_VM_WRITEV, "pidfd_getfd": unix.SYS_PIDFD_GETFD,
		"syslog": unix.SYS_SYSLOG, "name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT, "open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT,
		"chroot": unix.SYS_CHROOT, "pivot_root": unix.SYS_PIVOT_ROOT, "socket": unix.SYS_SOCKET, "connect": unix.SYS_CONNECT,
		"bind": unix.SYS_BIND, "accept4": unix.SYS_ACCEPT4, "ptrace": unix.SYS_PTRACE, "mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2,
		"open_tree": unix.SYS_OPEN_TREE, "move_mount": unix.SYS_MOVE_MOUNT, "fsopen": unix.SYS_FSOPEN, "fsmount": unix.SYS_FSMOUNT,
		"fspick": unix.SYS_FSPICK, "mount_setattr": unix.SYS_MOUNT_SETATTR, "unshare": unix.SYS_UNSHARE, "clone": unix.SYS_CLONE,
		"clone3": unix.SYS_CLONE3, "setns": unix.SYS_SETNS, "bpf": unix.SYS_BPF, "keyctl": unix.SYS_KEYCTL, "add_key": unix.SYS_ADD_KEY,
		"request_key": unix.SYS_REQUEST_KEY, "io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER,
		"io_uring_register": unix.SYS_IO_URING_REGISTER, "userfaultfd": unix.SYS_USERFAULTFD, "perf_event_open": unix.SYS_PERF_EVENT_OPEN,
		"init_module": unix.SYS_INIT_MODULE, "finit_module": unix.SYS_FINIT_MODULE, "delete_module": unix.SYS_DELETE_MODULE,
		"kexec_load": unix.SYS_KEXEC_LOAD, "reboot": unix.SYS_REBOOT, "swapon": unix.SYS_SWAPON, "settimeofday": unix.SYS_SETTIMEOFDAY,
		"clock_settime": unix.SYS_CLOCK_SETTIME, "adjtimex": unix.SYS_ADJTIMEX, "clock_adjtime": unix.SYS_CLOCK_ADJTIME,
		"sethostname": unix.SYS_SETHOSTNAME, "acct": unix.SYS_ACCT, "iopl": 172, "ioperm": 173, "modify_ldt": 154,
		"capset": unix.SYS_CAPSET, "prctl": unix.SYS_PRCTL, "fchmodat": unix.SYS_FCHMODAT, "fchmodat2": unix.SYS_FCHMODAT2,
		"personality": unix.SYS_PERSONALITY, "seccomp": unix.SYS_SECCOMP, "fanotify_init": unix.SYS_FANOTIFY_INIT,
		"quotactl": unix.SYS_QUOTACTL, "kcmp": unix.SYS_KCMP, "vhangup": unix.SYS_VHANGUP, "lookup_dcookie": unix.SYS_LOOKUP_DCOOKIE,
		"mbind": unix.SYS_MBIND, "move_pages": unix.SYS_MOVE_PAGES, "process_madvise": unix.SYS_PROCESS_MADVISE,
		"landlock_create_ruleset": unix.SYS_LANDLOCK_CREATE_RULESET, "landlock_add_rule": unix.SYS_LANDLOCK_ADD_RULE, "landlock_restrict_self": unix.SYS_LANDLOCK_RESTRICT_SELF,
		"mlock": unix.SYS_MLOCK, "close_range": unix.SYS_CLOSE_RANGE, "fallocate": unix.SYS_FALLOCATE, "renameat2": unix.SYS_RENAMEAT2,
		"inotify_init1": unix.SYS_INOTIFY_INIT1, "inotify_add_watch": unix.SYS_INOTIFY_ADD_WATCH, "exit": unix.SYS_EXIT,
		"setrlimit": unix.SYS_SETRLIMIT, "setxattrat": unix.SYS_SETXATTRAT, "prlimit64": unix.SYS_PRLIMIT64,
		"msgget": unix.SYS_MSGGET, "semget": unix.SYS_SEMGET, "timer_create": unix.SYS_TIMER_CREATE, "shmget": unix.SYS_SHMGET, "mq_open": unix.SYS_MQ_OPEN,
	}
}
