package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// Discard throws the changes of a process away. CodeConflict: there is nothing left to throw away. An Apply that was cut
// off behind its decision is finished first, which leaves nothing; where it cannot be, the rest is thrown away, and
// Changes says what is in the folder.
func (s *Store) Discard(ctx context.Context, pid agentkernel.PID) error {
	if err := s.take(pid); err != nil {
		return err
	}
	defer s.release(pid)
	h, err := s.open(pid)
	if err != nil {
		return err
	}
	defer h.Close()
	if h.rec.State == agentkernel.LayerImported {
		h.rec.State = agentkernel.LayerDiscarded
		return h.saveWithout([]string{importedDir})
	}
	if err := h.kept(pid); err != nil {
		return err
	}
	free, err := s.alone(ctx, h)
	if err != nil {
		return err
	}
	defer free()
	a := &applying{s: s, h: h, pid: pid, out: &agentkernel.Applied{}}
	if h.rec.Decided == nil {
		if err := a.undo(); err != nil {
			s.cfg.Logger.Warn("files that were not put in place may still be in the folder", "pid", pid, "err", err)
		}
		return h.drop()
	}
	_, err = a.finish(ctx, &h.rec.Decided.Options)
	switch {
	case err == nil && h.rec.State == agentkernel.LayerApplied:
		return conflict("an apply of process %d was cut off while it changed %s, and is finished now: %s; there is nothing left to throw away",
			pid, h.where(), h.inFolder()).WithPID(pid).WithHint("agentkernel diff %d lists what is new", pid)
	case err != nil:
		if agentkernel.CodeOf(err) == agentkernel.CodeCanceled {
			return err
		}
		if e := a.giveUp(); e != nil {
			return errors.Join(err, e)
		}
	}
	return h.drop()
}

// undo removes what an Apply has left that was cut off before its decision: nothing else of it is in the folders.
func (a *applying) undo() error {
	defer a.closePlans()
	if err := a.look(); err != nil {
		return err
	}
	return a.sweep()
}

// giveUp notes what of an Apply that was cut off is in the folders, where it will not be finished.
func (a *applying) giveUp() error {
	a.plans = nil
	defer a.closePlans()
	err := a.planDecided()
	if away(err) { // what is in it is where it has gone to
		return nil
	}
	if err == nil {
		err = a.sweep()
	}
	if err != nil {
		return err
	}
	for _, w := range a.plans {
		for i := range w.items {
			it := &w.items[i]
			if !it.goes() || it.implied {
				continue
			}
			st, err := w.root.look(it.path)
			if err != nil {
				return storage(err)
			}
			if it.kind == agentkernel.FileDeleted && st == nil || st != nil && w.inPlace(it, st) {
				a.h.rec.Changes = append(a.h.rec.Changes, done{Change: w.change(w.f, it)})
			}
		}
	}
	return nil
}

const shownNew = 10

// inFolder names what was applied.
func (h *home) inFolder() string {
	var list []string
	for _, d := range h.rec.Changes {
		if d.LeftOut != "" {
			continue
		}
		if len(list) == shownNew {
			list = append(list, "and more")
			break
		}
		list = append(list, d.Name()+" "+string(d.Kind))
	}
	return strings.Join(list, ", ")
}

// removeAll is os.RemoveAll for what programs may have shut: directories that not even their owner may change.
func removeAll(p string) error {
	for {
		err := os.RemoveAll(p)
		if !errors.Is(err, fs.ErrPermission) || !openUp(p) {
			return err
		}
	}
}

// openUp lets the owner into the directories below p that it can find, and says whether there were any. It follows no
// link, also if a program that still runs puts one in place of a directory.
func openUp(p string) (any bool) {
	root, err := openRoot(p, false)
	if err != nil {
		return false
	}
	defer root.Close()
	const deeper = 1 << 14 // than in what is applied
	_ = root.walkFrom("", -deeper, func(in dir, at string, st *unix.Stat_t) (bool, error) {
		if typeOf(st.Mode) != agentkernel.TypeDir || st.Mode&0o700 == 0o700 {
			return true, nil
		}
		f, err := in.open(path.Base(at), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return true, nil //nolint:nilerr // it has gone
		}
		defer f.Close()
		_, err = unlock(f, 0o700)
		any = any || err == nil
		return true, nil
	})
	return any
}
