package confine

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestZygoteSendsWhileDescriptorsAreHoarded has a child put as many descriptors on their way between sockets as it can: others
// of the same user still start.
func TestZygoteSendsWhileDescriptorsAreHoarded(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		program := `
import array, os, signal, socket
keep = []
try:
    while True:
        a, b = socket.socketpair(); keep += (a, b)
        for i in range(4): a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 250))])
except OSError as e: print(os.strerror(e.errno), flush=True)
signal.pause()`
		launchChild(t, s, pythonConfig(t, program), program).out.await(t, "references")
		program = "print('started')"
		r := launchChild(t, s, pythonConfig(t, program), program)
		if e := r.finish(t); r.out.String() != "started\n" {
			t.Errorf("%s: %s", e, r.out)
		}
	})
}

// TestSomethingIsLeftToTheUser has sandboxes take what Linux counts for each user, of a user who may have little.
func TestSomethingIsLeftToTheUser(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		if os.Geteuid() == 0 {
			return // its sandboxes are other users
		}
		for _, tc := range []struct {
			name     string
			resource int
			program  string
		}{
			{"timers", unix.RLIMIT_SIGPENDING, `
import ctypes, signal
libc, n, timer = ctypes.CDLL(None), 0, ctypes.c_void_p()
while libc.timer_create(1, None, ctypes.byref(timer)) == 0: n += 1
print(n, "up", flush=True)
signal.pause()`},
		} {
			t.Run(tc.name, func(t *testing.T) {
				var before unix.Rlimit
				if err := unix.Getrlimit(tc.resource, &before); err != nil {
					t.Fatal(err)
				}
				few := before
				few.Cur = 400
				if err := unix.Setrlimit(tc.resource, &few); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = unix.Setrlimit(tc.resource, &before) }()
				s := newSpawner(t)
				sum := 0
				for range 3 {
					r := launchWhole(t, s, pythonConfig(t, tc.program))
					r.out.await(t, "up")
					n := 0
					for _, c := range r.out.String() {
						if c < '0' || c > '9' {
							break
						}
						n = 10*n + int(c-'0')
					}
					sum += n
				}
				if sum > int(few.Cur/2) {
					t.Errorf("they have taken %d of %d", sum, few.Cur)
				}
			})
		}
	})
}
