package embedded

import (
	"context"
	"errors"
	"os"
	"time"

	"agentkernel"
	"agentkernel/internal/backup"
	"agentkernel/internal/datadir"
	"agentkernel/internal/store/sqlite"
)

// AcceptedLoss says what AcceptLoss did.
type AcceptedLoss struct {
	What   string   // what is wrong with the log
	Copies []string // of the damaged files
	Paused int      // processes that may have lost the end of their journals
}

// AcceptLoss makes a data directory usable whose log was damaged, or whose database was removed, so that [Open] refuses it. What is whole of the log stays, copies
// of what was there are kept. Unfinished processes are paused: what they did after the damage is not known, and to
// resume them does it again. Nil: there is no damage. version is that of the calling program. Errors: CodeConflict, a kernel
// runs; CodeCorrupt, what is left cannot be used.
func AcceptLoss(ctx context.Context, home, version string) (loss *AcceptedLoss, err error) {
	if home, err = datadir.Resolve(home); err != nil {
		return nil, err
	}
	dir, err := datadir.Open(home)
	if err != nil {
		return nil, err
	}
	lock, err := dir.Lock(datadir.Holder{OSPID: os.Getpid(), Version: version, Mode: "recover", Started: time.Now()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	key, err := dir.Key()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	cfg := sqlite.Config{Path: dir.Database(), Blobs: dir.Blobs(), Key: key}
	found, err := sqlite.AcceptLoss(ctx, cfg, ".damaged-"+now.UTC().Format("20060102T150405.000Z"))
	if err != nil || found == nil {
		return nil, err
	}
	cfg.Lossy = true
	store, err := sqlite.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	loss = &AcceptedLoss{What: found.What, Copies: found.Copies}
	loss.Paused, err = backup.PauseEach(ctx, store, now, "the log of the database was damaged, and the end of this journal may be lost: "+
		"what the process did after it is not known; when it goes on, it does that again")
	last, pidErr := store.NewPID(ctx)
	if err = errors.Join(err, pidErr); err == nil {
		// PIDs of processes that are lost without a trace were given out, and so were the keys of their calls.
		err = sqlite.Renew(cfg.Path, last-1, lostPIDs+max(0, found.PID-last))
	}
	return loss, errors.Join(err, store.Close()) // with Close the loss is accepted
}

// damageOf says that durable entries are lost from a database that no kernel has open; nil: as far as can be told they are not.
func damageOf(ctx context.Context, dir *datadir.Dir) *agentkernel.Error {
	if _, held := dir.Held(); held { // a log that is being written is its kernel's
		return nil
	}
	err := sqlite.CheckLog(ctx, sqlite.Config{Path: dir.Database(), Blobs: dir.Blobs()})
	if !sqlite.IsDamaged(err) {
		return nil
	}
	return agentkernel.AsError(err, agentkernel.CodeCorrupt, "store")
}

// readError is why a database cannot be read: what was lost of it tells more.
func readError(err error, damage *agentkernel.Error) error {
	if code := agentkernel.CodeOf(err); damage != nil && (code == agentkernel.CodeNotFound || code == agentkernel.CodeVersion || code == agentkernel.CodeCorrupt) {
		return damage
	}
	return err
}

// lostPIDs is how many PIDs are left out after a loss: nothing says how many processes were in what is lost, but each of them took
// a commit, and a log is moved to the database after some thousand pages.
const lostPIDs = 10_000
