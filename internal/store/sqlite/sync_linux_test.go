package sqlite

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/store/blob"
)

// A commit that is acknowledged was synced to the disk. What counts is not what the pragmas say but that the system call is made:
// in a process in which it fails, every commit must.

const envNoSync = "AGENTKERNEL_TEST_NOSYNC"

func TestACommitIsSynced(t *testing.T) {
	if dir := os.Getenv(envNoSync); dir != "" {
		commitWithoutSync(t, dir)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestACommitIsSynced$", "-test.v")
	cmd.Env = append(os.Environ(), envNoSync+"="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "SKIP") {
		t.Skip("this system has no seccomp filters")
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestACommitIsSynced") {
		t.Errorf("%v\n%s", err, out)
	}
}

func commitWithoutSync(t *testing.T, dir string) {
	cfg := testConfig(dir)
	opened := func(cfg Config) *Store {
		t.Helper()
		s, err := Open(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := appendFlush(s, note(1, 1, 10)); err != nil {
			t.Fatalf("as long as it can be synced: %v", err)
		}
		return s
	}
	flushed, staged, led := opened(cfg), opened(testConfig(t.TempDir())), opened(testConfig(t.TempDir()))
	blobs := blob.NewDir(cfg.Blobs, 0)
	if _, err := blobs.Put(context.Background(), []byte("before")); err != nil {
		t.Fatal(err)
	}
	if err := failSyncs(); err != nil {
		t.Skipf("no seccomp filter: %v", err)
	}

	if err := appendFlush(flushed, note(1, 2, 10)); agentkernel.CodeOf(err) != agentkernel.CodeStorage {
		t.Errorf("a commit whose sync fails is acknowledged: %v", err)
	}
	pos, err := staged.Append(note(1, 2, 10))
	if err != nil {
		t.Fatal(err)
	}
	staged.Stage()
	if err := staged.Flush(context.Background(), pos); agentkernel.CodeOf(err) != agentkernel.CodeStorage {
		t.Errorf("a commit that was staged, and whose sync fails, is acknowledged: %v", err)
	}
	if _, err := led.Append(note(1, 2, 10)); err != nil {
		t.Fatal(err)
	}
	if err := led.Close(); agentkernel.CodeOf(err) != agentkernel.CodeStorage { // committed by the writer's goroutine
		t.Errorf("the last commit's sync fails, and closing says %v", err)
	}
	if _, err := blobs.Put(context.Background(), []byte("after")); agentkernel.CodeOf(err) != agentkernel.CodeStorage {
		t.Errorf("a blob whose sync fails is kept: %v", err)
	}
}

// failSyncs lets every later attempt of this process to sync a file fail with an I/O error.
func failSyncs() error {
	const errno = unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)
	calls := []uint32{unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC_FILE_RANGE, unix.SYS_SYNCFS}
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // the number of the call
	for i, nr := range calls {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jt: uint8(len(calls) - i)})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: errno})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return e
	}
	return nil
}
