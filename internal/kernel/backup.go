package kernel

import (
	"context"
	"io"

	"agentkernel"
)

// Backup writes a backup while processes go on.
func (k *Kernel) Backup(ctx context.Context, w io.Writer) error {
	if k.cfg.Backup == nil {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "backup", "this kernel's store cannot be backed up while it runs")
	}
	if err := k.table.Refuses(); err != nil {
		return err
	}
	if err := k.flushAll(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	err := k.cfg.Backup(ctx, w)
	if err != nil && k.ctx.Err() != nil {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "backup", "the kernel ended before the backup was complete")
	}
	return err
}
