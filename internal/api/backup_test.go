package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/api"
)

// backupText is longer than any buffer on the way.
var backupText = strings.Repeat("a backup ", 100_000)

func (k *double) Backup(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, backupText)
	return err
}

// cutBackup is a kernel whose backup fails after some bytes.
type cutBackup struct {
	*double
	after int
	err   error
}

func (k *cutBackup) Backup(_ context.Context, w io.Writer) error {
	if _, err := io.WriteString(w, backupText[:k.after]); k.after > 0 && err != nil {
		return err
	}
	return k.err
}

func TestBackupsComeWholeOrWithAnError(t *testing.T) {
	var b bytes.Buffer
	if err := serve(t, api.Config{Kernel: newDouble()}).dial(t).Backup(t.Context(), &b); err != nil || b.String() != backupText {
		t.Errorf("%d bytes of %d, %v", b.Len(), len(backupText), err)
	}
	full := agentkernel.Errorf(agentkernel.CodeStorage, "backup", "the disk\nis \"full\" ✗").WithHint("make room")
	for _, after := range []int{0, 1, 5000, len(backupText)} {
		b.Reset()
		err := serve(t, api.Config{Kernel: &cutBackup{newDouble(), after, full}}).dial(t).Backup(t.Context(), &b)
		e := agentkernel.AsError(err, "", "")
		if e == nil || e.Code != full.Code || e.Message() != full.Message() || e.Hint != full.Hint || b.Len() != after {
			t.Errorf("after %d bytes: %d bytes came, and the error is %#v", after, b.Len(), e)
		}
	}
	mine := errors.New("the disk of the caller")
	err := serve(t, api.Config{Kernel: newDouble()}).dial(t).Backup(t.Context(), failingWriter{mine})
	if !errors.Is(err, mine) {
		t.Errorf("the caller's own error became %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := serve(t, api.Config{Kernel: newDouble()}).dial(t).Backup(ctx, io.Discard); agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
		t.Errorf("canceled: %v", err)
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }
