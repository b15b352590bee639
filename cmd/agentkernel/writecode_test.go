package main

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"agentkernel"
)

// A file that the user named and that cannot be written has one exit code, whatever the command: 77 where permission is missing, 74 where
// the disk is to blame, and else 2.
func TestOneExitCodeForAFileThatCannotBeWritten(t *testing.T) {
	for err, want := range map[syscall.Errno]int{
		syscall.EACCES: agentkernel.ExitDenied, syscall.EPERM: agentkernel.ExitDenied,
		syscall.ENOSPC: agentkernel.ExitStorage, syscall.EROFS: agentkernel.ExitStorage, syscall.EIO: agentkernel.ExitStorage,
		syscall.ENOENT: agentkernel.ExitUsage, syscall.ENOTDIR: agentkernel.ExitUsage, syscall.EISDIR: agentkernel.ExitUsage,
	} {
		cause := &fs.PathError{Op: "open", Path: "x", Err: err}
		for name, failed := range map[string]error{
			"backup": notWritten("x", cause),
			"get":    copyError("x", cause),
			"any":    agentkernel.Errorf(writeCode(cause), "man", "%s: %w", "x", unwrapPath(cause)),
		} {
			if got := exitFor(asError(failed)); got != want {
				t.Errorf("%s, %v: exit code %d, want %d", name, err, got, want)
			}
		}
	}
	if err := writeNew("export", filepath.Join(t.TempDir(), "none", "x"), nil); exitFor(asError(err)) != agentkernel.ExitUsage {
		t.Errorf("no folder: %v", err)
	}
	for _, code := range []agentkernel.Code{agentkernel.CodeInvalid, agentkernel.CodeStorage} {
		if got := exitFor(agentkernel.Errorf(code, "init", "x: %w", syscall.EACCES)); got != agentkernel.ExitDenied {
			t.Errorf("%s for want of permission: exit code %d", code, got)
		}
	}
}
