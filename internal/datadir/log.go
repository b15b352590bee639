package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// The bounds of a log where nothing is set.
const (
	DefaultLogSize = 10 << 20 // bytes of one file
	DefaultLogKeep = 3        // older files
)

// LogConfig says where a log is and how large it may become.
type LogConfig struct {
	Path string
	Size int64 // bytes at which a new file is begun; 0: DefaultLogSize
	Keep int   // how many older ones are kept: PATH.1, the newest of them, to PATH.<Keep>; 0: DefaultLogKeep
	// Standard points standard output and standard error at the file, also after each change: what the runtime writes
	// when the program dies belongs in the log, too.
	Standard bool
}

// Log is a file of lines. It is made by the first of them, and when it has grown large its name passes to a new one.
// Several processes may write to it. Each Write is one line, which is never cut in two. Whatever is killed at whatever
// moment, no line is lost that was written; at worst a number is missing among the older files. Safe for concurrent use.
type Log struct {
	cfg LogConfig
	mu  sync.Mutex
	f   *os.File
}

// NewLog names a log; nothing is opened.
func NewLog(cfg LogConfig) *Log {
	if cfg.Size <= 0 {
		cfg.Size = DefaultLogSize
	}
	if cfg.Keep <= 0 {
		cfg.Keep = DefaultLogKeep
	}
	return &Log{cfg: cfg}
}

// Path is where the newest lines are.
func (l *Log) Path() string { return l.cfg.Path }

// Write appends a line.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(int64(len(line))); err != nil {
		return 0, err
	}
	return l.f.Write(line)
}

// Open opens the file, for a process that is to inherit it. It stays the log's own.
func (l *Log) Open() (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(0); err != nil {
		return nil, err
	}
	return l.f, nil
}

// Close closes the file. A later line opens it again.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}

// ready makes l.f the file that has the name now, with room for a line.
func (l *Log) ready(line int64) error {
	for {
		if l.f != nil && !l.current() { // another process has begun a new one, or somebody removed it
			_ = l.f.Close() // nothing of it is buffered
			l.f = nil
		}
		if l.f == nil {
			if err := l.open(); err != nil {
				return err
			}
		}
		info, err := l.f.Stat()
		if err != nil {
			return logError(l.cfg.Path, err)
		}
		if size := info.Size(); size == 0 || size+line <= l.cfg.Size {
			return nil
		}
		passed, err := l.rotate()
		if err != nil || !passed {
			return err
		}
	}
}

func (l *Log) current() bool {
	mine, err1 := l.f.Stat()
	there, err2 := os.Stat(l.cfg.Path)
	return err1 == nil && err2 == nil && os.SameFile(mine, there)
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.cfg.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return logError(l.cfg.Path, err)
	}
	if l.cfg.Standard {
		if err := errors.Join(redirect(f, os.Stdout), redirect(f, os.Stderr)); err != nil {
			return errors.Join(logError(l.cfg.Path, err), f.Close())
		}
	}
	l.f = f
	return nil
}

// rotate passes the name on. The lock on the file that loses it is a process's permission to do so: of several only
// one renames, and the others find another file under the name. It says no if somebody else is at it; the line then
// goes where there is little room, rather than nowhere.
func (l *Log) rotate() (passed bool, err error) {
	if err := flock(l.f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return false, nil
	}
	defer func() { err = errors.Join(err, flock(l.f, unix.LOCK_UN)) }()
	if !l.current() {
		return true, nil
	}
	for n := l.cfg.Keep - 1; n >= 0; n-- {
		if err := os.Rename(numbered(l.cfg.Path, n), numbered(l.cfg.Path, n+1)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, logError(l.cfg.Path, err)
		}
	}
	return true, nil
}

func numbered(path string, n int) string {
	if n == 0 {
		return path
	}
	return path + "." + strconv.Itoa(n)
}

func logError(path string, err error) error {
	return agentkernel.Errorf(agentkernel.CodeStorage, "log", "the kernel's log %s cannot be written: %w", path, err).
		WithHint("agentkernel doctor checks the data directory; the setting log.path names another file in a directory that you may write to")
}

// Check says what is wrong with a log's settings.
func (c LogConfig) Check() error {
	if info, err := os.Stat(c.Path); err == nil && info.IsDir() {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "log", "log.path is a directory: %s", c.Path).
			WithHint("name a file: %s", filepath.Join(c.Path, logFile))
	}
	return nil
}
