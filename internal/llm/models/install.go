package models

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"agentkernel"
)

// Change is a price that is another than before.
type Change struct {
	Model string               `json:"model"`
	Class string               `json:"class"`
	From  *agentkernel.NanoUSD `json:"from"` // nil: there was none
	To    *agentkernel.NanoUSD `json:"to"`   // nil: there is none any more
}

// Changes are the prices that a table has and another has not, and those of which both say something else. before are the tables that
// were in force, the first first; what is not in t any more, and was in the first of them, is gone.
func (t *Table) Changes(before ...*Table) (all []Change) {
	names := slices.Collect(maps.Keys(t.Models))
	if len(before) > 0 && before[0].File != "" {
		for name := range before[0].Models {
			if t.Models[name] == nil {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		var was, is map[string]agentkernel.NanoUSD
		for _, b := range before {
			if p := b.Models[name]; p != nil {
				was = p.Classes()
				break
			}
		}
		p := t.Models[name]
		if p == nil { // another table may have it
			p = Shipped().Models[name]
		}
		if p != nil {
			is = p.Classes()
		}
		for _, class := range Classes() {
			from, had := was[class]
			to, has := is[class]
			c := Change{Model: name, Class: class}
			if had {
				c.From = &from
			}
			if has {
				c.To = &to
			}
			if had != has || from != to {
				all = append(all, c)
			}
		}
	}
	return all
}

// Classes are the classes of tokens that have prices, in the order in which they are shown.
func Classes() []string {
	return []string{"input", "cache_read", "cache_write", "cache_write_1h", "output", "reasoning"}
}

// What a million tokens of a model cost is hardly less than cheapest, if it costs anything, and hardly more than most; and no price
// is so many times what it was.
const (
	cheapest = agentkernel.USD / 1000
	most     = 5000 * agentkernel.USD
	leap     = 1000
)

// Suspect says which price of a table looks as if it were in another unit; nil: none does. before are the tables that were in force.
func (t *Table) Suspect(before ...*Table) *agentkernel.Error {
	for _, name := range slices.Sorted(maps.Keys(t.Models)) {
		all := t.Models[name].Classes()
		for _, class := range Classes() {
			n, was := all[class], agentkernel.NanoUSD(0)
			for _, b := range before {
				if p := b.Models[name]; p != nil {
					was = p.Classes()[class]
					break
				}
			}
			if n == 0 {
				continue
			}
			why, small := "", n < cheapest
			switch {
			case was >= cheapest && was <= most && (n > was*leap || n < was/leap):
				why, small = fmt.Sprintf(", and was $%s", was), n < was
			case n < cheapest || n > most:
			default:
				continue
			}
			e := tableError(t.File, t.line("models", name, class), "%s: %s is $%s for a million tokens%s: it looks as if it were in another unit", name, class, n, why)
			if small {
				return e.WithHint("if the prices are for one token each, multiply them by 1,000,000; if they are right: --force")
			}
			return e.WithHint("if the prices are in millionths of a dollar, divide them by 1,000,000; if they are right: --force")
		}
	}
	return nil
}

// Install puts the table into a directory in one step, in place of the one that is there, which is kept beside it. kept says where; "":
// there was none.
func (t *Table) Install(dir string) (kept string, err error) {
	failed := func(err error) error {
		return agentkernel.Errorf(agentkernel.CodeStorage, "prices", "the table of prices cannot be written: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", failed(err)
	}
	old, err := os.ReadFile(Installed(dir))
	switch {
	case err == nil:
		kept = Before(dir)
		if err := replace(kept, old); err != nil {
			return "", failed(err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", failed(err)
	}
	if err := replace(Installed(dir), t.data); err != nil {
		return "", failed(err)
	}
	return kept, nil
}

// replace writes a file so that it is there as it was or as it is to be, whatever happens meanwhile.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it has another name if all went well
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
