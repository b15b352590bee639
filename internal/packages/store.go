package packages

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/clip"
)

// Environment is one that is there.
type Environment struct {
	ID        string    `json:"id"`   // of what is in it
	Path      string    `json:"path"` // of the virtual environment
	Python    string    `json:"python"`
	Requested []string  `json:"requested"`       // by whoever had it built
	Packages  []string  `json:"packages"`        // "polars==1.2.3"
	Built     bool      `json:"built,omitempty"` // packages may have been built from source
	Created   time.Time `json:"created"`
	Used      time.Time `json:"used"`
	Bytes     int64     `json:"bytes"` // on disk
}

// Config says where environments are, and what they are built with.
type Config struct {
	Dir    string   // of environments; made when one is built
	Python string   // interpreter, path or name; "" means python3
	Env    []string // of pip: the user's
	// Progress is told what is going on, in few words; nil: nobody is.
	Progress func(string)
	Now      func() time.Time
}

// Store keeps environments in a directory. Several processes may use it at once.
type Store struct{ cfg Config }

// New opens the store; nothing is made or read.
func New(cfg Config) *Store {
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Store{cfg: cfg}
}

// The directory holds an environment under its ID, with manifest in it; what one asked for under requests/<key>, with
// the ID as content; locks/<key>; and, while it is being built or removed, a directory whose name begins with staging.
const (
	manifest    = "agentkernel.json"
	requestsDir = "requests"
	locksDir    = "locks"
	staging     = "staging-"
)

// List gives the environments, those used last in front.
func (s *Store) List() ([]Environment, error) {
	entries, err := os.ReadDir(s.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, storage(err)
	}
	var out []Environment
	for _, e := range entries {
		if env, err := s.read(e.Name()); err == nil {
			out = append(out, env)
		}
	}
	slices.SortFunc(out, func(a, b Environment) int { return b.Used.Compare(a.Used) })
	return out, nil
}

func storage(err error) error {
	return agentkernel.Errorf(agentkernel.CodeStorage, op, "environments cannot be kept: %w", err)
}

// read gives one that is whole.
func (s *Store) read(id string) (Environment, error) {
	var env Environment
	path := filepath.Join(s.cfg.Dir, id)
	file := filepath.Join(path, manifest)
	if strings.HasPrefix(id, staging) {
		return env, fs.ErrNotExist
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return env, err
	}
	if err := json.Unmarshal(b, &env); err != nil {
		return env, err
	}
	env.ID, env.Path = id, path
	if st, err := os.Stat(file); err == nil {
		env.Used = st.ModTime()
	}
	return env, nil
}

// Find gives the environment whose ID begins with prefix.
func (s *Store) Find(prefix string) (Environment, error) {
	all, err := s.List()
	if err != nil {
		return Environment{}, err
	}
	var found []Environment
	for _, e := range all {
		if strings.HasPrefix(e.ID, prefix) {
			found = append(found, e)
		}
	}
	switch {
	case prefix == "" || len(found) == 0:
		return Environment{}, agentkernel.Errorf(agentkernel.CodeNotFound, op, "there is no environment %q", clip.Short(prefix)).WithHint("agentkernel env ls")
	case len(found) > 1:
		return Environment{}, invalid("%q is the beginning of %d environments", clip.Short(prefix), len(found)).WithHint("give more of it: agentkernel env ls")
	}
	return found[0], nil
}

// Remove deletes an environment. It goes in one step; no program may be using it.
func (s *Store) Remove(env Environment) error {
	gone, err := os.MkdirTemp(s.cfg.Dir, staging)
	if err != nil {
		return storage(err)
	}
	if err := os.Rename(env.Path, filepath.Join(gone, "env")); err != nil {
		return errors.Join(storage(err), os.Remove(gone))
	}
	s.forget(env.ID)
	if err := os.RemoveAll(gone); err != nil {
		return storage(err)
	}
	return nil
}

// forget drops the requests that led to an environment. One that stays leads nowhere, and is answered anew.
func (s *Store) forget(id string) {
	requests, _ := filepath.Glob(filepath.Join(s.cfg.Dir, requestsDir, "*"))
	for _, file := range requests {
		if led, err := os.ReadFile(file); err == nil && string(led) == id {
			_ = os.Remove(file)
		}
	}
}

// known gives the environment that a request led to before.
func (s *Store) known(key string) (Environment, bool) {
	id, err := os.ReadFile(filepath.Join(s.cfg.Dir, requestsDir, key))
	if err != nil {
		return Environment{}, false
	}
	env, err := s.read(string(id))
	if err != nil {
		return Environment{}, false
	}
	now := s.cfg.Now()
	_ = os.Chtimes(filepath.Join(env.Path, manifest), now, now) // when it was used last is for `env ls` only
	return env, true
}

// lock waits until nobody else answers the same request. What dead builders left is cleared away.
func (s *Store) lock(ctx context.Context, key string) (unlock func(), err error) {
	for _, d := range []string{s.cfg.Dir, filepath.Join(s.cfg.Dir, requestsDir), filepath.Join(s.cfg.Dir, locksDir)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, storage(err)
		}
	}
	f, err := os.OpenFile(filepath.Join(s.cfg.Dir, locksDir, key), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, storage(err)
	}
	waiting := false
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(storage(err), f.Close())
		}
		if !waiting {
			s.cfg.Progress("waiting for the same environment, which another command builds")
			waiting = true
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-time.After(lockPause):
		}
	}
}

const lockPause = 50 * time.Millisecond

// sweep removes what a builder of this request that was killed left behind; the request's lock is held.
func (s *Store) sweep(key string) {
	left, _ := filepath.Glob(filepath.Join(s.cfg.Dir, staging+key+"-*")) // the pattern is well-formed
	for _, dir := range left {
		_ = os.RemoveAll(dir) // what stays is swept by the next
	}
}
