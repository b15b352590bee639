package assistant

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/jsonc"
)

// Uninstall is what putting everything back would change.
type Uninstall struct {
	Place    *Place
	Nothing  bool     // nothing is installed there
	Exact    bool     // the file becomes byte for byte what it was
	Restored []string // servers that the client gets back
	Notes    []string
	Orphan   bool    // the entry is there, and what install noted is gone
	Others   []Place // if Nothing: where else something is installed for this client

	old    *record
	now    content
	tools  content
	after  []byte
	remove bool // the file was not there before, and holds nothing else now
}

// Removes says that the client's file goes: install made it, and nobody has written it since.
func (u *Uninstall) Removes() bool { return u.remove }

// PlanUninstall says what would be put back. A client's file that nobody has written since becomes exactly what it
// was; else the servers are put back into what it is now. Errors: CodeConflict if a server is there again, and
// another one; CodeInvalid for a file that is not understood.
func (p *Place) PlanUninstall() (*Uninstall, error) {
	u := &Uninstall{Place: p}
	var err error
	if u.now, err = p.read(p.File); err != nil {
		return nil, err
	}
	if u.old, err = p.recorded(u.now); err != nil {
		return nil, err
	}
	if u.old == nil {
		if err := u.orphan(); err != nil || u.Orphan {
			return u, err
		}
		u.Nothing, u.Others = true, p.others()
		return u, p.mustBeThere()
	}
	if u.tools, err = p.read(p.Tools); err != nil {
		return nil, err
	}
	for _, m := range u.old.Moved {
		u.Restored = append(u.Restored, m.Name)
	}
	switch {
	case u.now.digest == u.old.Before && u.now.there == u.old.There: // it was put back by hand, or never written
		u.Exact, u.after, u.remove = true, u.now.bytes, !u.old.There
	case u.now.digest == u.old.After && !u.old.There && u.old.Original == "" && len(u.old.Moved) == 0:
		u.Exact, u.remove = true, true
	case u.original():
	default:
		err = u.merge()
	}
	if err == nil && u.tools.there && !u.ownTools() {
		if other := u.sharer(); other != "" {
			u.Notes = append(u.Notes, p.Tools+" stays: "+other+" uses it, too")
		} else {
			u.Notes = append(u.Notes, p.Tools+" was there before, or has changed since, and stays; nothing that install wrote uses it any more")
		}
	}
	return u, err
}

// orphan looks for an entry that install wrote and of which nothing else is known: its record went with AgentKernel's settings. The entry
// goes; the servers come from the tools file, if that is still there, and from nowhere if it is not.
func (u *Uninstall) orphan() (err error) {
	p := u.Place
	if !u.now.there {
		return nil
	}
	d, members, named, err := u.servers()
	if err != nil {
		return err
	}
	i := named(Entry)
	if i < 0 {
		return nil
	}
	if !p.leadsToTools(members[i].Value) {
		u.Notes = append(u.Notes, fmt.Sprintf("%s has an entry %q, which stays: install would have written one that names %s, and this one does not. If it is not wanted, remove it there",
			p.File, Entry, filepath.Base(p.Tools)))
		return nil
	}
	if err := d.Remove([]string{p.Client.Key}, Entry); err != nil {
		return p.broken(err)
	}
	if u.tools, err = p.read(p.Tools); err != nil {
		return err
	}
	u.Orphan = true
	u.Notes = append(u.Notes, "what install noted is gone ("+p.record+"), so the file cannot be put back as it was")
	if !u.tools.there {
		u.Notes = append(u.Notes, "the servers that had moved cannot be put back: "+p.Tools+" is gone, too. Add them to "+p.Client.Title+" again")
	} else if err := u.fromTools(d, named); err != nil {
		return err
	}
	u.after = d.Bytes()
	return nil
}

// fromTools puts the servers of the tools file into the client's.
func (u *Uninstall) fromTools(d *jsonc.Doc, named func(string) int) error {
	p := u.Place
	tools, err := p.parse(u.tools, p.Tools)
	var members []jsonc.Member
	if err == nil {
		members, _, err = tools.Members("mcpServers")
	}
	if err != nil { // the entry goes all the same: it starts nothing that is known
		u.Notes = append(u.Notes, fmt.Sprintf("the servers that had moved are in %s, which cannot be read (%v): put them back by hand", p.Tools, err))
		return nil
	}
	for _, m := range members {
		if named(m.Key) >= 0 {
			u.Notes = append(u.Notes, "the client has a server "+m.Key+" again, which stays as it is")
			continue
		}
		if err := d.Set([]string{p.Client.Key}, m.Key, json.RawMessage(m.Value)); err != nil {
			return p.broken(err)
		}
		u.Restored = append(u.Restored, m.Key)
	}
	u.Notes = append(u.Notes, "the servers are those of "+p.Tools+", as they stand there: \"cwd\" and \"timeout\" may not be what the client had. That file stays")
	return nil
}

// mustBeThere refuses a file that was named, is not there, and never was.
func (p *Place) mustBeThere() error {
	if c, err := p.read(p.File); err != nil || c.there || !p.named {
		return err
	}
	return p.notThere()
}

// ownTools says that the tools file is as install made it.
func (u *Uninstall) ownTools() bool {
	return u.tools.there && u.tools.digest == u.old.ToolsSum && !u.old.ToolsWas && u.sharer() == ""
}

// sharer is a client beside this one for which something is installed whose servers are in the same tools file; "": there is none.
func (u *Uninstall) sharer() string {
	for _, other := range Installed(u.Place.host) {
		if other.record != u.Place.record && other.Tools == u.Place.Tools {
			return other.Client.Title
		}
	}
	return ""
}

// original takes the backup, if the file is what install wrote, or is gone.
func (u *Uninstall) original() bool {
	if u.old.Original == "" || u.now.there && u.now.digest != u.old.After {
		return false
	}
	b, err := os.ReadFile(u.old.Original)
	if err != nil || digest(b) != u.old.Before {
		u.Notes = append(u.Notes, "the backup "+u.old.Original+" is not what it was: the servers are put back one by one")
		return false
	}
	if info, err := os.Stat(u.old.Original); err == nil && !u.now.there {
		u.now.mode = info.Mode().Perm()
	}
	u.Exact, u.after = true, b
	return true
}

// servers are those of the client's file as it is now; named gives the place of one among them, -1: it is not there.
func (u *Uninstall) servers() (d *jsonc.Doc, list []jsonc.Member, named func(string) int, err error) {
	p := u.Place
	if d, err = p.parse(u.now, p.File); err != nil {
		return nil, nil, nil, err
	}
	if list, _, err = d.Members(p.Client.Key); err != nil {
		return nil, nil, nil, p.broken(err)
	}
	return d, list, func(name string) int {
		return slices.IndexFunc(list, func(m jsonc.Member) bool { return m.Key == name })
	}, nil
}

// merge puts the servers back into what the client's file is now.
func (u *Uninstall) merge() error {
	p := u.Place
	d, members, find, err := u.servers()
	if err != nil {
		return err
	}
	path := []string{p.Client.Key}
	var twice []string
	for _, m := range u.old.Moved {
		if i := find(m.Name); i >= 0 && !same(members[i].Value, []byte(m.Text)) {
			twice = append(twice, m.Name)
		} else if i < 0 {
			if err := d.Set(path, m.Name, json.RawMessage(m.Text)); err != nil {
				return p.broken(err)
			}
		}
	}
	if len(twice) > 0 {
		return agentkernel.Errorf(agentkernel.CodeConflict, op, "%s has servers again that were moved, and they are not what they were: %s; nothing was changed",
			p.File, strings.Join(twice, ", ")).WithHint("rename or remove them there; what was moved is in %s", p.Tools)
	}
	if i := find(Entry); i >= 0 && !p.leadsToTools(members[i].Value) {
		u.Notes = append(u.Notes, "the entry \"agentkernel\" is not the one that install wrote, and stays")
	} else if err := d.Remove(path, Entry); err != nil {
		return p.broken(err)
	}
	u.after = d.Bytes()
	return nil
}

// Apply writes what was planned; the file as it is now is backed up first.
func (u *Uninstall) Apply(now time.Time) (Applied, error) {
	if u.Nothing {
		return Applied{}, nil
	}
	p := u.Place
	if err := p.asPlanned(u.now, u.tools); err != nil {
		return Applied{}, err
	}
	backup, err := p.backup(u.now, now)
	if err != nil {
		return Applied{}, err
	}
	if err := u.writeClient(); err != nil {
		return Applied{}, err
	}
	if u.Orphan {
		return Applied{Changed: true, Backup: backup}, nil
	}
	if u.ownTools() {
		if err := p.remove(p.Tools, u.tools); err != nil {
			return Applied{}, err
		}
	}
	if err := os.Remove(p.record); err != nil {
		return Applied{}, storage("removing "+p.record, err)
	}
	return Applied{Changed: true, Backup: backup}, nil
}

func (u *Uninstall) writeClient() error {
	switch {
	case u.remove && !u.now.there:
		return nil
	case u.remove:
		return u.Place.remove(u.Place.File, u.now)
	case u.now.there && digest(u.after) == u.now.digest:
		return nil
	}
	return u.Place.replace(u.Place.File, u.now, u.after)
}
