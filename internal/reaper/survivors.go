package reaper

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"agentkernel"
)

// survivorPatience bounds how long KillSurvivors waits for processes to vanish.
const survivorPatience = 10 * time.Second

// KillSurvivors kills what earlier kernels recorded in dir and left behind; it returns how many processes
// that were. It returns only when they are gone; CodeConflict names one that will not go. The caller holds
// the data directory's lock, so that whatever is recorded belongs to kernels that have ended.
func KillSurvivors(dir string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), survivorPatience)
	defer cancel()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, agentkernel.Errorf(agentkernel.CodeStorage, op, "records of earlier kernels cannot be read: %w", err)
	}
	killed := 0
	for _, e := range entries {
		if !e.IsDir() || !ownerForm().MatchString(e.Name()) {
			continue
		}
		n, err := killIncarnation(ctx, filepath.Join(dir, e.Name()), e.Name())
		killed += n
		if err != nil {
			return killed, err
		}
	}
	return killed, nil
}

func killIncarnation(ctx context.Context, dir, owner string) (int, error) {
	kernel, children, err := readRecords(dir)
	if err != nil {
		return 0, agentkernel.Errorf(agentkernel.CodeStorage, op, "records of kernel %s cannot be read: %w", owner, err)
	}
	if _, lives := kernel.process(); lives && kernel.At != "" && kernel.At != numberOf(dir) { // its data directory was copied to here
		return 0, removeRecords(dir)
	}
	if err := awaitKernel(ctx, kernel); err != nil {
		return 0, err
	}
	if kernel.Boot != "" && kernel.Boot != boot() {
		children = nil // numbers of another boot or container mean nothing here; marks still do
	}
	n, err := hunt(ctx, prey{children: children, owns: ownedBy(owner)})
	if err != nil {
		return n, err
	}
	return n, removeRecords(dir)
}

// awaitKernel waits for a killed kernel to be gone for good: the lock is free a moment before that.
func awaitKernel(ctx context.Context, k kernelRecord) error {
	p, lives := k.process()
	if !lives {
		return nil
	}
	if err := awaitGone(ctx, p); err != nil {
		return agentkernel.Errorf(agentkernel.CodeConflict, op, "an earlier kernel, os process %d, is still running", k.PID).
			WithHint("end it with `agentkernel shutdown`, or kill %d if it does not answer", k.PID)
	}
	return nil
}
