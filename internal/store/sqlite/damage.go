package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"

	"agentkernel"
	"agentkernel/internal/shellword"
	"agentkernel/internal/store/sqlite/wal"
)

// A log that lost transactions which were durable is refused before SQLite opens it: SQLite would take what is left for all
// there ever was, and processes would make calls again. What says that something is lost stands in package wal and in mark.go.

// CheckLog says whether the database, which nobody has open, has all that was durable in it: CodeCorrupt if not.
func CheckLog(ctx context.Context, cfg Config) error {
	if info, err := os.Stat(cfg.Path); err != nil || info.Size() == 0 { // there is none, and probe speaks of one that was emptied
		return nil //nolint:nilerr // nothing can be lost of it
	}
	switch d, err := wal.Check(cfg.Path); {
	case err != nil:
		return explain(cfg.Path, err)
	case d != nil:
		return errDamaged(cfg.Path, d.What, d.Good)
	}
	p, there, err := readMark(cfg.Path)
	switch {
	case err != nil:
		return explain(cfg.Path, err)
	case !there || p == place{}:
		return nil
	case p == unsettled:
		return errDamaged(cfg.Path, "a loss was about to be accepted, and that was broken off", -1)
	}
	has, err := hasPlace(ctx, cfg, p)
	if err != nil || has {
		return err
	}
	return errDamaged(cfg.Path, fmt.Sprintf("entry %d of process %d was durable and is not there: the log was removed, or the database is an older one",
		p.seq, p.pid), -1)
}

// errDamaged says what is wrong with a log. good is how many frames of it are whole, -1 if that says nothing.
func errDamaged(path, what string, good int64) error {
	if good >= 0 {
		what += fmt.Sprintf(" (%d frames before that are whole)", good)
	}
	return agentkernel.Errorf(agentkernel.CodeCorrupt, opDamaged, "the log of the database %s is damaged: %s", path, what).
		WithHint("nothing runs, since what is lost would be done again · put a backup in its place: agentkernel restore · " +
			"or continue without what is lost: agentkernel recover --accept-loss")
}

// opDamaged is the operation of the error of a damaged log.
const opDamaged = "log"

// IsDamaged says whether err is of a database whose log was damaged, so that AcceptLoss may help.
func IsDamaged(err error) bool {
	e, ok := errors.AsType[*agentkernel.Error](err)
	return ok && e.Code == agentkernel.CodeCorrupt && e.Op == opDamaged
}

// hasPlace says whether the database has an entry that was durable, or did have it when its process was pruned.
func hasPlace(ctx context.Context, cfg Config, p place) (has bool, err error) {
	r := newReads(cfg, func() (*readConn, error) { return dialReader(cfg) })
	defer func() { err = errors.Join(err, r.close()) }()
	err = r.do(ctx, func(c *conn) error {
		if version, err := c.int("PRAGMA user_version"); err != nil || version == 0 { // the tables themselves were in the log
			return err
		}
		n, err := c.int(`SELECT EXISTS (SELECT 1 FROM entries WHERE pid = ?1 AND seq >= ?2)
OR EXISTS (SELECT 1 FROM processes WHERE pid = ?1 AND `+shortLength+` >= ?2)
OR EXISTS (SELECT 1 FROM pruned WHERE ?1 BETWEEN first AND last)`, int64(p.pid), p.seq)
		has = n != 0
		return err
	})
	return has, err
}

// AcceptedLoss is what AcceptLoss found, and did.
type AcceptedLoss struct {
	What   string   `json:"what"`             // what is wrong
	Copies []string `json:"copies,omitempty"` // of the damaged files
}

// AcceptLoss makes a database whose log was damaged one that Open takes: of the log it leaves what is whole, and copies of what
// was there before, under names that end in suffix. The next Open must have Config.Lossy; with its Close the loss is accepted. Nil: there
// is no damage.
func AcceptLoss(ctx context.Context, cfg Config, suffix string) (*AcceptedLoss, error) {
	err := CheckLog(ctx, cfg)
	if !IsDamaged(err) {
		return nil, err
	}
	loss := &AcceptedLoss{What: agentkernel.AsError(err, agentkernel.CodeCorrupt, opDamaged).Message()}
	// From here on only what accepts the loss may open it, whatever breaks this off.
	m, err := openMark(cfg)
	if err == nil {
		err = errors.Join(m.write(unsettled), m.file.Sync(), m.close())
	}
	if err != nil {
		return nil, explain(cfg.Path, err)
	}
	if loss.Copies, _, err = wal.SetAside(cfg.Path, suffix); err != nil {
		return nil, explain(cfg.Path, err)
	}
	return loss, checkPages(cfg)
}

// checkPages refuses a database of which what is left does not fit together: of a damaged log, later parts may be in it already.
func checkPages(cfg Config) (err error) {
	c, err := dialReader(cfg)
	if err != nil {
		return explain(cfg.Path, err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	r, found, err := c.one("PRAGMA quick_check(1)")
	if err == nil && (!found || r.text(0) != "ok") {
		err = agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "what is left of the database %s does not fit together: %s", cfg.Path, r.text(0)).
			WithHint("restore a backup: agentkernel restore; `sqlite3 %s .recover` saves what can be read", shellword.File(cfg.Path))
	}
	return explain(cfg.Path, err)
}
