package assistant

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/jsonc"
)

// shared is the mode of a project's file that is made.
const shared = 0o644

// Options are the user's wishes.
type Options struct {
	Keep  []string // servers that stay with the client
	Allow []string // patterns of calls that may change things
	Full  bool     // all tools of AgentKernel's server, not execute_code and search_tools alone
	Home  string   // data directory; "": the default
}

// Install is what an installation would change. Nothing is written before Apply.
type Install struct {
	Place   *Place
	Servers []Server // of the client's file
	Notes   []string

	options Options
	before  content // of the client's file
	tools   content // of the tools file
	old     *record
}

// Plan reads the client's file and says what would become of it. Errors: CodeInvalid for a file that is not
// understood, CodeConflict for an entry "agentkernel" that install did not make.
func (p *Place) Plan(o Options) (*Install, error) {
	in := &Install{Place: p, options: o}
	var err error
	if in.before, err = p.read(p.File); err != nil {
		return nil, err
	}
	if p.named && !in.before.there {
		e := p.notThere()
		return nil, e.WithHint("%s; for a new file, write {} into it first", e.Hint)
	}
	if in.old, err = p.recorded(in.before); err != nil {
		return nil, err
	}
	if in.tools, err = p.read(p.Tools); err != nil {
		return nil, err
	}
	if in.old != nil && in.before.digest == in.old.Before {
		in.old = nil // it was cut off before the client's file was written, or undone by hand
	}
	if p.Scope == Project && !in.before.there {
		in.before.mode = shared
	}
	d, err := in.client()
	if err != nil {
		return nil, err
	}
	if in.Servers, err = p.survey(d, o.Keep); err != nil {
		return nil, err
	}
	if _, err := in.entry(d); err != nil {
		return nil, err
	}
	in.noteLocal(d)
	if !in.before.there && p.Scope == User {
		in.Notes = append(in.Notes, p.noteNew())
	}
	_, err = in.ToolsFile()
	return in, err
}

// noteNew says that the client's file is not there, and where nothing of the client is.
func (p *Place) noteNew() string {
	if dir := p.Client.home(p.host); !isDir(dir) {
		return p.Client.Title + " does not seem to be installed: " + dir + " is not there. " + p.File + " is made for it, since you named it"
	}
	return p.File + " is not there yet: " + p.Client.Title + " makes it when it starts for the first time"
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// notThere refuses a file that was named and is not there: it is misspelt more often than it is to be made.
func (p *Place) notThere() *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeNotFound, op, "there is no file %s; nothing was changed", p.File).
		WithHint("leave --file out for the usual configuration of %s", p.Client.Title)
}

// client is the client's file, or an empty one.
func (in *Install) client() (*jsonc.Doc, error) { return in.Place.parse(in.before, in.Place.File) }

func (p *Place) parse(c content, file string) (*jsonc.Doc, error) {
	text := c.bytes
	if !c.there || len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	d, err := jsonc.Parse(text)
	if err != nil && file != p.File {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, op, "%s, %v; nothing was changed", file, err).WithHint("mend the file")
	}
	if err != nil {
		return nil, p.broken(err)
	}
	return d, nil
}

// noteLocal tells of servers that Claude Code has for this folder alone, in the same file.
func (in *Install) noteLocal(d *jsonc.Doc) {
	p := in.Place
	if p.Client.Name != "claude" || p.Scope != User {
		return
	}
	if members, ok, err := d.Members("projects", p.host.Dir, p.Client.Key); err == nil && ok && len(members) > 0 {
		in.Notes = append(in.Notes, "servers that Claude Code has for this folder alone (its scope \"local\") stay as they are")
	}
}

// Stay leaves a server with the client after all.
func (in *Install) Stay(name, why string) {
	for i := range in.Servers {
		if in.Servers[i].Name == name {
			in.Servers[i].Kept = why
		}
	}
}

// moving are the servers that leave the client's file.
func (in *Install) moving() []Server {
	return slices.DeleteFunc(slices.Clone(in.Servers), func(s Server) bool { return s.Kept != "" })
}

// StartIn is the folder in which servers that move start from now on, since they name none; "": there are no such. A client would start
// some of them in the folder that it is opened in, which a server of AgentKernel's, shared by all, does not know.
func (in *Install) StartIn() string {
	if in.Place.Scope == User && slices.ContainsFunc(in.moving(), func(s Server) bool { return s.placed }) {
		return in.Place.Folder
	}
	return ""
}

// ToolsFile is AgentKernel's tools file as it would be: what it holds, and the servers that move.
func (in *Install) ToolsFile() ([]byte, error) {
	d, err := in.Place.parse(in.tools, in.Place.Tools)
	if err != nil {
		return nil, err
	}
	const key = "mcpServers" // whatever the client calls it
	if _, ok, err := d.Members(key); err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, op, "%s, %v; nothing was changed", in.Place.Tools, err)
	} else if !ok {
		err = d.Set(nil, key, json.RawMessage("{}"))
		if err != nil {
			return nil, err
		}
	}
	for _, s := range in.moving() {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, s.config, "    ", "  "); err != nil {
			return nil, in.Place.broken(err)
		}
		if err := d.Set([]string{key}, s.Name, pretty.Bytes()); err != nil {
			return nil, err
		}
	}
	return d.Bytes(), nil
}

// entry is AgentKernel's entry for the client's file. What an earlier installation was told, and this one is not, stays. So does an
// entry that the user has changed by hand, as long as it still leads to the tools file and no option says otherwise.
func (in *Install) entry(d *jsonc.Doc) (json.RawMessage, error) {
	members, _, err := d.Members(in.Place.Client.Key)
	if err != nil {
		return nil, in.Place.broken(err)
	}
	i := slices.IndexFunc(members, func(m jsonc.Member) bool { return m.Key == Entry })
	if i < 0 {
		return d.Format(in.Place.entry(in.options), 2)
	}
	theirs := members[i].Value
	ours := in.old != nil && in.Place.leadsToTools(theirs)
	options := in.options
	if ours {
		options = options.after(argsOf(theirs))
	}
	made, err := d.Format(in.Place.entry(options), 2)
	switch {
	case err != nil:
		return nil, err
	case same(theirs, made) || ours && (in.options.Full || len(in.options.Allow) > 0 || same(theirs, []byte(in.old.Entry))):
		return made, nil
	case ours:
		return theirs, nil
	}
	return nil, agentkernel.Errorf(agentkernel.CodeConflict, op, "%s has an entry %q that this command did not write", in.Place.File, Entry).
		WithHint("remove it there, or rename it, then do this again")
}

// made gives the client's file as it was, and the entry that it would have.
func (in *Install) made() (*jsonc.Doc, json.RawMessage, error) {
	d, err := in.client()
	if err != nil {
		return nil, nil, err
	}
	entry, err := in.entry(d)
	return d, entry, err
}

// Allow are the patterns that the entry has, those of the installation before included.
func (in *Install) Allow() ([]string, error) {
	_, entry, err := in.made()
	if err != nil {
		return nil, err
	}
	return Options{}.after(argsOf(entry)).Allow, nil
}

// after adds to the options of an installation those of the one before it, as the entry that it wrote has them.
func (o Options) after(args []string) Options {
	var allow []string
	for i, arg := range args {
		switch {
		case i+1 < len(args) && arg == "--allow":
			allow = append(allow, args[i+1])
		case i+1 < len(args) && arg == "--home" && o.Home == "":
			o.Home = args[i+1]
		}
	}
	if len(o.Allow) == 0 {
		o.Allow = allow
	}
	o.Full = o.Full || !slices.Contains(args, "--minimal")
	return o
}

// argsOf are the arguments of an entry of the client's file.
func argsOf(entry []byte) []string {
	var e struct{ Args []string }
	if json.Unmarshal(jsonc.Plain(entry), &e) != nil {
		return nil
	}
	return e.Args
}

// leadsToTools says whether an entry of the client's file starts AgentKernel with the tools file of this place.
func (p *Place) leadsToTools(entry []byte) bool {
	return slices.ContainsFunc(argsOf(entry), func(a string) bool {
		if flag, value, ok := strings.Cut(a, "="); ok && strings.HasPrefix(flag, "--") {
			a = value
		}
		return a == p.Tools || a == p.earlier && a != "" || p.Scope == Project && filepath.Base(a) == filepath.Base(p.Tools)
	})
}

// same says whether two texts mean the same JSON value.
func same(a, b []byte) bool {
	decode := func(src []byte) (v any, ok bool) {
		dec := json.NewDecoder(bytes.NewReader(jsonc.Plain(src)))
		dec.UseNumber()
		return v, dec.Decode(&v) == nil
	}
	x, okX := decode(a)
	y, okY := decode(b)
	return okX && okY && reflect.DeepEqual(x, y)
}

// ClientFile is the client's file as it would be.
func (in *Install) ClientFile() ([]byte, error) {
	d, entry, err := in.made()
	if err != nil {
		return nil, err
	}
	path := []string{in.Place.Client.Key}
	if members, _, merr := d.Members(path...); merr == nil {
		for _, m := range members { // unchanged: not a byte is touched
			if m.Key == Entry && same(m.Value, entry) {
				entry = m.Value
			}
		}
	}
	if err := d.Set(path, Entry, entry); err != nil {
		return nil, in.Place.broken(err)
	}
	for _, s := range in.moving() {
		if err := d.Remove(path, s.Name); err != nil {
			return nil, in.Place.broken(err)
		}
	}
	return d.Bytes(), nil
}

// Applied says what was written.
type Applied struct {
	Changed bool
	Backup  string // of the client's file; "" if it was not there, or did not change
}

// Apply writes: the backup, the record, the tools file, and last the client's file, so that whatever cuts it off leaves
// a client that works and an uninstall that knows.
func (in *Install) Apply(now time.Time) (Applied, error) {
	after, err := in.ClientFile()
	if err != nil {
		return Applied{}, err
	}
	tools, err := in.ToolsFile()
	if err != nil {
		return Applied{}, err
	}
	if in.old != nil && bytes.Equal(after, in.before.bytes) && bytes.Equal(tools, in.tools.bytes) {
		return Applied{}, nil
	}
	p := in.Place
	if err := p.asPlanned(in.before, in.tools); err != nil {
		return Applied{}, err
	}
	backup, err := p.backup(in.before, now)
	if err != nil {
		return Applied{}, err
	}
	if _, err := p.backup(in.tools, now); err != nil {
		return Applied{}, err
	}
	if err := in.newRecord(backup, after, tools, now).save(p.record); err != nil {
		return Applied{}, err
	}
	if err := p.replace(p.Tools, in.tools, tools); err != nil {
		return Applied{}, err
	}
	return Applied{Changed: true, Backup: backup}, p.replace(p.File, in.before, after)
}

func (in *Install) newRecord(backup string, after, tools []byte, now time.Time) *record {
	p := in.Place
	r := &record{Version: recordVersion, Client: p.Client.Name, Scope: p.Scope, File: p.File, Tools: p.Tools, Installed: now.UTC(),
		There: in.before.there, Original: backup, Before: in.before.digest, ToolsWas: in.tools.there}
	if in.old != nil {
		r.There, r.Before, r.Moved, r.ToolsWas = in.old.There, in.old.Before, in.old.Moved, in.old.ToolsWas
		r.Original = ""
		if in.before.digest == in.old.After { // nobody has written it since: the first original is the original
			r.Original = in.old.Original
		}
	}
	r.After, r.ToolsSum = digest(after), digest(tools)
	if d, err := jsonc.Parse(after); err == nil {
		members, _, _ := d.Members(p.Client.Key)
		for _, m := range members {
			if m.Key == Entry {
				r.Entry = string(m.Value)
			}
		}
	}
	var list []moved
	for _, s := range in.moving() {
		list = append(list, moved{s.Name, string(s.raw)})
	}
	r.add(list)
	return r
}

// Already are the servers that the tools file has without this installation.
func (in *Install) Already() []string {
	d, err := in.Place.parse(in.tools, in.Place.Tools)
	if err != nil {
		return nil
	}
	var names []string
	members, _, _ := d.Members("mcpServers") // Plan has seen that it can be read
	for _, m := range members {
		names = append(names, m.Key)
	}
	return names
}

// Source is a file from which servers come.
type Source struct {
	File    string
	Content []byte // as it was read
}

// Shared are the files of a project whose servers are started behind the entry. Others may have written them.
func (in *Install) Shared() []Source {
	var list []Source
	p := in.Place
	if p.Scope != Project {
		return nil
	}
	if !p.named && len(in.moving()) > 0 {
		list = append(list, Source{p.File, in.before.bytes})
	}
	if len(in.Already()) > 0 {
		list = append(list, Source{p.Tools, in.tools.bytes})
	}
	return list
}

// AsIfThere is a tools file of this place for another folder: its servers start where they would start if it lay where
// it belongs.
func (p *Place) AsIfThere(tools []byte) ([]byte, error) {
	d, err := jsonc.Parse(tools)
	if err != nil {
		return nil, err
	}
	folder := filepath.Dir(p.Tools)
	path := []string{"mcpServers"}
	members, _, err := d.Members(path...)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		var e map[string]json.RawMessage
		var known struct{ Cwd, Command string }
		if json.Unmarshal(m.Plain(), &e) != nil || json.Unmarshal(m.Plain(), &known) != nil || known.Command == "" {
			continue
		}
		if known.Cwd == "" || !filepath.IsAbs(known.Cwd) && !strings.HasPrefix(known.Cwd, "~") && !strings.HasPrefix(known.Cwd, "$") {
			known.Cwd = filepath.Join(folder, known.Cwd)
		}
		if e["cwd"], err = json.Marshal(known.Cwd); err != nil {
			return nil, err
		}
		text, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		if err := d.Set(path, m.Key, text); err != nil {
			return nil, err
		}
	}
	quoted, err := json.Marshal(folder)
	if err != nil {
		return nil, err
	}
	inside := string(quoted[1 : len(quoted)-1])
	return []byte(strings.NewReplacer("${workspaceFolder}", inside, "${workspaceRoot}", inside).Replace(string(d.Bytes()))), nil
}
