package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel/internal/usertest"
)

// TestWhatCannotBeLookedInto runs a file that may be executed and not read.
func TestWhatCannotBeLookedInto(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		sleep := filepath.Join(publicDir(t), "sleep")
		usertest.Copy(t, "/bin/sleep", sleep)
		if err := os.Chmod(sleep, 0o111); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(sleep, "3600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		dir := "/proc/" + strconv.Itoa(cmd.Process.Pid)
		hidden := os.Geteuid() != 0
		for end := time.Now().Add(patience); ; {
			_, err := openNames(dir)
			h := held{files: map[[2]uint64]bool{}, sockets: map[string]bool{}}
			if (err != nil) == hidden && (h.open(dir) != nil) == hidden {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("it is looked into by user %d: %v", os.Geteuid(), err)
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if _, err := openNames(dir); err != nil {
			t.Errorf("after its end: %v", err)
		}
	})
}

// TestHeld has programs hide files that no folder names any more. What can be measured is; where something cannot, what the
// disk has lost counts.
func TestHeld(t *testing.T) {
	const mib, hidden = 1 << 20, 1 << 40
	const kept = 32 << 10 // by ext4, where the directory had many names
	const names = `
def fill(d):
    for i in range(300): open(d + "/" + str(i) + "x" * 240, "w").close()
def empty(d):
    for name in os.listdir(d): os.unlink(d + "/" + name)
    os.rmdir(d)
`
	cases := []struct {
		name, program string
		least, most   int64
	}{
		{"none", "open('a', 'wb').write(b'x' * (3 << 20))", 0, 0},
		{"deleted", "f = open('a', 'wb', 0); os.unlink('a'); f.write(b'x' * (3 << 20))", 3 * mib, 4 * mib},
		{"shared with a child", "f = open('a', 'wb', 0); os.unlink('a'); f.write(b'x' * (3 << 20))\nif os.fork() == 0: time.sleep(3600)", 3 * mib, 4 * mib},
		{"made without a name", "fd = os.open('/volumes/v', os.O_TMPFILE | os.O_RDWR); os.write(fd, b'x' * (3 << 20))", 3 * mib, 4 * mib},
		{"a directory that was removed", names + "os.mkdir('d'); fill('d'); fd = os.open('d', os.O_RDONLY); empty('d')", kept, mib},
		{"a directory that a process is in", names + "os.mkdir('d'); fill('d'); os.chdir('d'); empty('../d')", kept, mib},
		{"a directory of the folder", names + "fill('given'); fd = os.open('given', os.O_RDONLY); empty('given')", kept, mib},
		{"a directory that is there", names + "os.mkdir('d (deleted)'); fill('d (deleted)'); fd = os.open('d (deleted)', os.O_RDONLY)", 0, 0},
		{"in /tmp", "f = open('/tmp/a', 'wb', 0); os.unlink('/tmp/a'); f.write(b'x' * (3 << 20))", 0, 0},
		{"by a thread that outlives the first", `
f = open('a', 'wb', 0); os.unlink('a'); f.write(b'x' * (3 << 20))
import threading
def last():
    while read("/proc/self/stat").rpartition(b")")[2].split()[0] != b"Z": pass
    say("up"); time.sleep(3600)
threading.Thread(target=last).start()
sys_("exit", 0)`, 3 * mib, 4 * mib},
		{"open and mapped", "import mmap\nf = open('a', 'w+b', 0); os.unlink('a'); f.write(b'x' * (3 << 20)); m = mmap.mmap(f.fileno(), 4096)", 3 * mib, 4 * mib},
		{"only mapped", `
fd = os.open('a', os.O_CREAT | os.O_RDWR); os.unlink('a'); os.write(fd, b'x' * (3 << 20))
libc.mmap(None, 4096, 1, 1, fd, 0); os.close(fd)`, hidden / 2, 2 * hidden},
		{"on its way between sockets", `
import array
a, b = socket.socketpair()
fd = os.open('a', os.O_CREAT | os.O_RDWR); os.unlink('a'); os.write(fd, b'x' * (3 << 20))
a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]); os.close(fd)`, hidden / 2, 2 * hidden},
	}
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		w := newWorld(t, s)
		volume := filepath.Join(w.dir, "volume")
		for _, dir := range []string{volume, filepath.Join(w.workspace, "given")} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		var disk unix.Statfs_t
		if err := unix.Statfs(w.dir, &disk); err != nil {
			t.Fatal(err)
		}
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				cfg, _ := w.config(t, attack{program: tc.program + "\nsay('up'); time.sleep(3600)", change: overlayWorkspace})
				cfg.Volumes = []Volume{{Name: "v", Source: volume}}
				r := launchWhole(t, s, cfg)
				r.out.await(t, "up")
				r.free += hidden // as if the disk had lost so much
				if tc.least == kept && disk.Type != unix.EXT4_SUPER_MAGIC {
					tc.least = 0
				}
				if n := r.Held(mib); n < tc.least || n > tc.most {
					t.Errorf("%d bytes; want from %d to %d\n%s", n, tc.least, tc.most, r.err)
				}
				r.Kill()
				<-r.Done()
				if n := r.Held(mib); n != 0 {
					t.Errorf("%d bytes after its end", n)
				}
			})
		}
	})
}
