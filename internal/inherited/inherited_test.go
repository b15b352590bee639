package inherited

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary plays a process that inherits files when this variable says what it does about them.
const envDoes = "INHERITED_TEST_DOES"

func TestMain(m *testing.M) {
	switch os.Getenv(envDoes) {
	case "":
		os.Exit(m.Run())
	case "keep":
		Keep()
	case "keep one by one": // as where the system cannot mark all at once
		each(firstOther, unix.CloseOnExec)
	case "close":
		CloseFrom(5)
	}
	fmt.Println("itself:", open())
	out, err := exec.Command("sh", "-c", `for fd in 3 4 5 6; do if true 2>/dev/null <&$fd; then echo $fd; fi; done`).Output()
	fmt.Println("below:", strings.Fields(string(out)), err)
}

// open lists which of the descriptors that the test hands over are open.
func open() (fds []int) {
	for fd := 3; fd <= 6; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds
}

func TestWhatIsInherited(t *testing.T) {
	for does, want := range map[string]string{
		"nothing":         "itself: [3 4 5 6]\nbelow: [3 4 5 6] <nil>\n",
		"keep":            "itself: [3 4 5 6]\nbelow: [] <nil>\n",
		"keep one by one": "itself: [3 4 5 6]\nbelow: [] <nil>\n",
		"close":           "itself: [3 4]\nbelow: [3 4] <nil>\n",
	} {
		t.Run(does, func(t *testing.T) {
			null, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = null.Close() }()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), envDoes+"="+does)
			cmd.ExtraFiles = []*os.File{null, null, null, null}
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
				t.Errorf("%v, %q, not %q", err, out, want)
			}
		})
	}
}

// What the process has opened itself is none of it: it works as before.
func TestOwnFilesStay(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	CloseFrom(firstOther)
	if _, err := w.WriteString("here"); err != nil {
		t.Error(err)
	}
	_ = w.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != "here" {
		t.Errorf("%q, %v", b, err)
	}
}
