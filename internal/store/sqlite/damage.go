package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"agentkernel"
	"agentkernel/internal/shellword"
	"agentkernel/internal/store/sqlite/wal"
)

// A log that lost transactions which were durable is refused before SQLite opens it: SQLite would take what is left for all
// there ever was, and processes would make calls again. What says that something is lost stands in package wal and in mark.go.

// CheckLog says whether the database, which nobody has open, has all that was durable in it: CodeCorrupt if not.
func CheckLog(ctx context.Context, cfg Config) error {
	if what := vanished(cfg.Path); what != "" {
		return checkVanished(cfg.Path, what)
	}
	switch d, err := wal.Check(cfg.Path); {
	case err != nil:
		return explain(cfg.Path, err)
	case d != nil:
		if logMissing(cfg.Path) != "" { // there are no frames to speak of
			d.Good = -1
		}
		return errDamaged(cfg.Path, d.What, d.Good)
	}
	p, there, err := readMark(cfg.Path)
	switch {
	case err != nil:
		return explain(cfg.Path, err)
	case !there:
		return checkFounded(cfg.Path)
	case p == place{}:
		return nil
	case p == unsettled:
		return errDamaged(cfg.Path, brokenOff, -1)
	}
	has, err := hasPlace(ctx, cfg, p)
	if err != nil || has {
		return err
	}
	if missing := logMissing(cfg.Path); missing != "" {
		return errDamaged(cfg.Path, fmt.Sprintf("%s, and %s", missing, p), -1)
	}
	return errDamaged(cfg.Path, fmt.Sprintf("%s and is not there: the log was cut, or the database is an older one", p), -1)
}

const brokenOff = "a loss was about to be accepted, and that was broken off"

// checkFounded refuses a database without tables, without a log and without a mark: a kernel that dies before it has made the tables
// leaves its mark, and one that ends in order leaves the tables.
func checkFounded(path string) error {
	missing := logMissing(path)
	if _, marked, err := readMark(path); err != nil || marked || missing == "" {
		return explain(path, err)
	}
	if h, ok := readHeader(path); ok && h.foundedOnly() {
		return errDamaged(path, missing+", and the tables were in it", -1)
	}
	return nil // SQLite says what is wrong with it
}

// logMissing says that a database has no log, "" if it has one.
func logMissing(path string) string {
	switch info, err := os.Stat(wal.Path(path)); {
	case errors.Is(err, fs.ErrNotExist):
		return "the log is missing"
	case err == nil && info.Size() == 0:
		return "the log is empty"
	}
	return ""
}

// vanished says what became of a database that is not there or has no bytes, "" if it has some. It may be none that ever was: what is
// beside it tells.
func vanished(path string) string {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return "removed: it is not there"
	case err == nil && info.Mode().IsRegular() && info.Size() == 0:
		return "emptied: it has no bytes"
	}
	return ""
}

// checkVanished refuses a database that has vanished, and whose log or mark is still there: a new one in its place would overwrite
// the log, and everything would be done again.
func checkVanished(path, what string) error {
	if err := errLogAlone(path, what); err != nil {
		return err
	}
	p, _, err := readMark(path)
	switch {
	case err != nil:
		return explain(path, err)
	case p == unsettled:
		return errDamaged(path, brokenOff, -1)
	case p != place{}:
		return errVanished(path, fmt.Sprintf("%s, and %s (%s)", what, p, MarkPath(path)))
	}
	d, err := wal.Check(path)
	if err != nil {
		return explain(path, err)
	}
	if d != nil {
		return errVanished(path, what+", and "+d.What)
	}
	return nil
}

// errLogAlone is of a database that has vanished, and whose log is there; nil: it is not.
func errLogAlone(path, what string) error {
	if log, err := os.Stat(wal.Path(path)); err == nil && log.Size() > 0 {
		return errVanished(path, fmt.Sprintf("%s, its log %s has %d", what, wal.Path(path), log.Size()))
	}
	return nil
}

func errVanished(path, what string) error {
	return agentkernel.Errorf(agentkernel.CodeCorrupt, opDamaged, "the database %s was %s", path, what).
		WithHint("nothing runs, since what is lost would be done again · put a backup in its place: agentkernel restore FILE --force · " +
			"or begin a new one, and keep a copy of what is left: agentkernel recover --accept-loss")
}

// errDamaged says what is wrong with a log. good is how many frames of it are whole, -1 if that says nothing.
func errDamaged(path, what string, good int64) error {
	if good >= 0 {
		what += fmt.Sprintf(" (%d frames before that are whole)", good)
	}
	return agentkernel.Errorf(agentkernel.CodeCorrupt, opDamaged, "the log of the database %s is damaged: %s", path, what).
		WithHint("nothing runs, since what is lost would be done again · put a backup in its place: agentkernel restore FILE --force · " +
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
	cfg = cfg.alone()
	r := newReads(cfg, func() (*readConn, error) { return dialReader(cfg) })
	defer func() { err = errors.Join(err, r.close()) }()
	err = r.do(ctx, func(c *conn) error {
		version, err := c.int("PRAGMA user_version")
		if err == nil && version == 0 { // the tables themselves were in the log, or the header is damaged
			_, err = inspect(c, cfg.Path, len(steps()))
		}
		if has = version != 0 && p == founded; has || err != nil || version == 0 {
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
	What   string          `json:"what"`             // what is wrong
	Copies []string        `json:"copies,omitempty"` // of the damaged files
	PID    agentkernel.PID `json:"-"`                // one that was given out, if anything tells of one
}

// AcceptLoss makes a database whose log was damaged one that Open takes: of the log it leaves what is whole, and copies of what
// was there before, under names that end in suffix; of a database that has vanished it leaves nothing but those. The next Open must have Config.Lossy; with its Close the loss is accepted. Nil: there
// is no damage.
func AcceptLoss(ctx context.Context, cfg Config, suffix string) (*AcceptedLoss, error) {
	err := CheckLog(ctx, cfg)
	if !IsDamaged(err) {
		return nil, err
	}
	loss := &AcceptedLoss{What: agentkernel.AsError(err, agentkernel.CodeCorrupt, opDamaged).Message()}
	gone := vanished(cfg.Path) != ""
	if p, _, err := readMark(cfg.Path); err == nil && p != unsettled {
		loss.PID = p.pid
	}
	// From here on only what accepts the loss may open it, whatever breaks this off.
	m, err := openMark(cfg)
	if err == nil {
		err = errors.Join(m.write(unsettled), m.file.Sync(), m.close())
	}
	if err != nil {
		return nil, explain(cfg.Path, err)
	}
	if gone { // a log without its database is of no use
		loss.Copies, err = wal.PutAway(cfg.Path, suffix)
		return loss, explain(cfg.Path, err)
	}
	if loss.Copies, _, err = wal.SetAside(cfg.Path, suffix); err != nil {
		return nil, explain(cfg.Path, err)
	}
	return loss, checkPages(cfg)
}

// checkPages refuses a database of which what is left does not fit together: of a damaged log, later parts may be in it already.
func checkPages(cfg Config) (err error) {
	c, err := dialReader(cfg.alone())
	if err != nil {
		return explain(cfg.Path, err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	r, found, err := c.one("PRAGMA quick_check(1)")
	if err == nil && (!found || r.text(0) != "ok") {
		err = agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "what is left of the database %s does not fit together: %s", cfg.Path, r.text(0)).
			WithHint("restore a backup: agentkernel restore FILE --force; `sqlite3 %s .recover` saves what can be read", shellword.File(cfg.Path))
	}
	return explain(cfg.Path, err)
}
