package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentkernel"
)

// A server's list of tools is kept in a file beside its record, so that a search is answered before any server has
// been started. It counts for a search alone: what a program imports is asked of the server itself, and whenever a
// server runs its own list is the one that counts.

// Fingerprinter is the ability of a tool source to say how a server is configured.
type Fingerprinter interface {
	// Fingerprint is a hash of everything that decides what the server is; "" for one that may not be started, or
	// is not there.
	Fingerprint(server string) string
}

// Releaser is the ability of a tool source to say which release of a server was started last.
type Releaser interface {
	// Release is what the server called itself; "" if it was not started yet, or does not say.
	Release(server string) string
}

// freshFor is how long a list is taken for the server's own without asking it: a server may have been replaced by
// its next version where nothing in its configuration says so ("npx -y").
const freshFor = 24 * time.Hour

// listForm is the form of the files that this version writes.
const listForm = 1

// provenance says where a list is from.
type provenance struct {
	print   string    // fingerprint of the server that gave it
	release string    // hash of what that server called itself; "": not known
	at      time.Time // when
	live    bool      // just now
}

// keptList is the file.
type keptList struct {
	Form        int                `json:"form"`
	Server      string             `json:"server"`
	Source      string             `json:"source"` // the file that configures it
	Fingerprint string             `json:"fingerprint"`
	Release     string             `json:"release,omitempty"`
	Listed      time.Time          `json:"listed"`
	Tools       []agentkernel.Tool `json:"tools"`
}

func (c *Catalog) listPath(server, file string) string {
	if c.cfg.Dir == "" {
		return ""
	}
	return filepath.Join(c.cfg.Dir, fileName(server)+"-"+hash([]byte(server + "\x00" + file))[:12]+".tools.json")
}

func (s *source) fingerprint(server string) string {
	if f, ok := s.ToolSource.(Fingerprinter); ok {
		return f.Fingerprint(server)
	}
	return ""
}

// release is a hash, since the text is the server's and may have any length.
func (s *source) release(server string) string {
	if r, ok := s.ToolSource.(Releaser); ok {
		if said := r.Release(server); said != "" {
			return hash([]byte(said))
		}
	}
	return ""
}

// readList gives the list of a server as it was when somebody asked last; nil: there is none for the server as it is
// configured now.
func (s *source) readList(srv *agentkernel.ToolServer, print string) *keptList {
	path := s.catalog.listPath(srv.Name, srv.Source)
	if path == "" {
		return nil
	}
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var raw []byte
	if err == nil && st.Size() > maxRecord {
		err = errors.New("it is too large")
	}
	if err == nil {
		raw, err = os.ReadFile(path)
	}
	var kept keptList
	if err == nil {
		err = json.Unmarshal(raw, &kept)
	}
	switch {
	case err != nil:
		s.catalog.cfg.Logger.Warn("the list of a server's tools cannot be read; the server will be asked", "file", path, "err", err)
		return nil
	case kept.Form != listForm || kept.Server != srv.Name || kept.Source != srv.Source || kept.Fingerprint != print || len(kept.Tools) == 0:
		return nil
	}
	for i := range kept.Tools {
		kept.Tools[i].PythonServer = srv.PythonName // another set may know the server under another name
	}
	return &kept
}

// keepList writes a list that a server has just given.
func (s *source) keepList(server, file string, tools []agentkernel.Tool, from provenance) {
	path := s.catalog.listPath(server, file)
	if path == "" || from.print == "" {
		return
	}
	kept := keptList{Form: listForm, Server: server, Source: file, Fingerprint: from.print, Release: from.release, Listed: from.at,
		Tools: slices.Clone(tools)}
	for i := range kept.Tools {
		kept.Tools[i].Observed, kept.Tools[i].Changed = nil, nil // they are in the record
	}
	raw, err := json.Marshal(kept)
	if err == nil && len(raw) > maxRecord {
		err = errors.New("it is too large to be kept")
	}
	if err == nil {
		err = replaceFile(path, raw)
	}
	if err != nil {
		s.catalog.cfg.Logger.Warn("the list of a server's tools cannot be written; the next kernel will ask the server", "file", path, "err", err)
	}
}

// known is a server's list as it was last, and where that is from: in memory, else in its file; nil: there is none for
// the server as it is configured.
func (s *source) known(ctx context.Context, srv *agentkernel.ToolServer) (*listing, provenance) {
	print := s.fingerprint(srv.Name)
	if print == "" {
		return nil, provenance{}
	}
	s.shelf.mu.Lock()
	l := s.shelf.servers[srv.Name]
	if l != nil && l.print == print {
		defer s.shelf.mu.Unlock()
		return l, l.provenance
	}
	s.shelf.mu.Unlock()
	kept := s.readList(srv, print)
	if kept == nil {
		return nil, provenance{}
	}
	from := provenance{print: print, release: kept.Release, at: kept.Listed}
	return s.note(ctx, kept.Tools, from), from
}

// fresh says whether a list is taken for the server's own: it is not old, and the server that was started last, if one
// was, is still the release that gave it.
func (s *source) fresh(server string, from provenance) bool {
	now := s.release(server)
	return s.catalog.cfg.Now().Sub(from.at) < freshFor && (now == "" || now == from.release)
}

// listed gives the tools of one server for a search: its own list if it runs, what is known if that is fresh, else what
// the server says once it has been started. Of one that cannot be asked it is what is known, whatever its age;
// the error is what was wrong with the server.
func (s *source) listed(ctx context.Context, srv *agentkernel.ToolServer) ([]agentkernel.Tool, error) {
	known, from := s.known(ctx, srv)
	if !srv.Running && srv.Problem == "" && known != nil && s.fresh(srv.Name, from) {
		return known.described(), nil
	}
	tools, err := s.Tools(ctx, srv.Name)
	if err == nil || known == nil || errors.Is(ctx.Err(), context.Canceled) {
		return tools, err
	}
	return known.described(), fmt.Errorf("%w (what it had on %s is shown)", err, from.at.Format(time.DateOnly))
}

// described are the tools of a list with what is known of them.
func (l *listing) described() []agentkernel.Tool {
	out := slices.Clone(l.tools)
	l.record.describe(out)
	return out
}
