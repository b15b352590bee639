// Package config gathers the settings of the agentkernel command from four places: flags, environment
// variables AGENTKERNEL_<KEY>, the project file agentkernel.toml and the user file config.toml, in this
// order of precedence. Each value remembers where it came from, so that an error can say so.
//
// A project file comes with somebody's repository and is therefore not trusted: it can neither grant
// permissions, raise limits or name a namespace, nor choose the data directory or the engine. The package must never read the files that a
// setting names, never start anything and never write.
package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/internal/nearest"
)

// Values are the settings. A zero field was set nowhere; the kernel's own default applies.
type Values struct {
	Home      string        // data directory, absolute
	Engine    string        // the Monty executable: absolute path, or a name to be found in PATH
	Python    string        // the interpreter of the process backend: absolute path, or a name to be found in PATH
	Workers   int           // Monty workers at most
	IdleAfter time.Duration // a background kernel without work ends after this time
	Log       Log
	// Embeddings is where tool search finds vectors.
	Embeddings Embeddings
	Models     []string // declarations of language models
	Prices     []string // files with what they cost, absolute
	// ModelShares are parts of their limits that namespaces have.
	ModelShares []string

	Quota      int64         // bytes of journals and blobs beyond which no process starts
	Keep       time.Duration // processes are pruned so long after their end
	KeepFailed string        // "yes": but only those that ended well

	Tools      []string // MCP configuration files, absolute
	Allow      []string // patterns of calls that may change things
	AllowHosts []string // hosts that http.fetch reaches
	Shares     []string // weights of namespaces
	Allowances []string // what namespaces may spend in a day or a month
	Secrets    []string // what http.fetch may fill in: where it is, and where it may go
	Deny       []string // capabilities taken away
	Namespace  string
	Backend    string
	Isolation  agentkernel.Isolation
	// IsolationNone is "never" where the kernel is to run nothing without a boundary, even if that is asked for.
	IsolationNone string
	Priority      int
	OnUnknown     agentkernel.OnUnknown
	Durability    agentkernel.Durability
	Restart       agentkernel.Restart
	Limits        agentkernel.Limits
}

// Log says where a kernel writes its log and how.
type Log struct {
	Path   string // absolute
	Level  string // debug, info, warn or error: what is less is left out
	Format string // text or json
	Size   int64  // bytes at which a new file is begun
	Keep   int    // older files
}

// Embeddings names an endpoint of the form of OpenAI's: URL/embeddings.
type Embeddings struct {
	URL   string
	Model string
	Key   string // where the key is: env:VARIABLE or file:PATH
}

// Kind is the place that a value came from. A greater Kind wins.
type Kind int

// The places, weakest first.
const (
	Default Kind = iota
	User
	Project
	Env
	Flag
)

func (k Kind) String() string {
	return [...]string{"default", "user file", "project file", "environment", "flag"}[k]
}

// Origin is where a value came from: a file and line, a variable or a flag.
type Origin struct {
	Kind Kind
	Name string // path, variable or flag
	Line int    // files only
	base string // relative paths in the value start here
}

func (o Origin) String() string {
	switch {
	case o.Kind == Default:
		return "default"
	case o.Line > 0:
		return fmt.Sprintf("%s:%d", o.Name, o.Line)
	}
	return o.Name
}

// Config is the outcome of Load: the values, and where each was set.
type Config struct {
	Values
	// UserFile and ProjectFile are the files that were read; "" where there is none.
	UserFile, ProjectFile string

	dir     string
	home    string
	origins map[string]Origin
	notes   []uncounted
}

// Options say where Load looks.
type Options struct {
	Dir      string   // working directory, absolute; the project file is sought from here upwards
	Env      []string // environment as in os.Environ
	UserHome string   // the user's home directory, for ~ and the default user file; "" if unknown
	// Broken is told of a file that cannot be used, and what it sets from the fault on is left out. It is for callers that start no program,
	// since a limit may be among that. Nil: such a file is an error of Load.
	Broken func(kind Kind, err error)
}

// Load reads user file, project file and environment; Set lays the flags over them. Files that do not
// exist are no error. Errors are CodeInvalid and name file and line.
func Load(o Options) (*Config, error) {
	env := environment(o.Env)
	c := &Config{dir: o.Dir, home: o.UserHome, origins: map[string]Origin{}}
	if path := userFile(env, o.UserHome); path != "" {
		found, err := c.loadFile(path, User)
		if err = o.broken(User, err); err != nil {
			return nil, err
		}
		if found {
			c.UserFile = path
		}
	}
	if path := c.findProjectFile(); path != "" {
		_, err := c.loadFile(path, Project)
		if err = o.broken(Project, err); err != nil {
			return nil, err
		}
		c.ProjectFile = path
	}
	if err := c.loadEnv(env); err != nil {
		return nil, err
	}
	return c, nil
}

// broken is what becomes of the error of a file.
func (o *Options) broken(kind Kind, err error) error {
	if err != nil && o.Broken != nil {
		o.Broken(kind, err)
		return nil
	}
	return err
}

// SetFlag lays the value of a flag over everything else. A list replaces the list below it.
func (c *Config) SetFlag(key, flag string, values ...string) error {
	return c.set(key, Origin{Kind: Flag, Name: flag, base: c.dir}, values)
}

// Origin says where a key was set.
func (c *Config) Origin(key string) Origin { return c.origins[key] }

func (c *Config) set(name string, o Origin, values []string) error {
	k, ok := findKey(name)
	if !ok {
		return unknownKey(name, o)
	}
	if o.Kind == Project {
		return c.setByProject(&k, o, values)
	}
	if err := k.setValue(c, o, values); err != nil {
		return err
	}
	c.origins[name] = o
	return nil
}

func (k *key) setValue(c *Config, o Origin, values []string) error {
	if !k.list && len(values) != 1 {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "config", "%s: %s is one value, not a list", o, k.name)
	}
	err := k.value.set(c, o, values)
	if name, why := c.Limits.Problem(); err == nil && "limits."+name == k.name && o.Kind != Default {
		err = errors.New(why)
	}
	if err != nil {
		where := o.String()
		if o.Kind != Env && !strings.HasPrefix(o.Name, "--") { // which say the key themselves
			where += ": " + k.name
		}
		if e := (*agentkernel.Error)(nil); errors.As(err, &e) { // of whoever reads the value later
			return agentkernel.Errorf(e.Code, "config", "%s: %s", where, e.Message()).WithHint("%s", e.Hint)
		}
		return agentkernel.Errorf(agentkernel.CodeInvalid, "config", "%s: %w", where, err)
	}
	return nil
}

func unknownKey(name string, o Origin) error {
	e := agentkernel.Errorf(agentkernel.CodeInvalid, "config", "%s: unknown key %q", o, name)
	if table, last, below := cutLast(name); below {
		if k, known := findKey(last); known && o.Kind == Project && k.project == Never {
			return e.WithHint("%s is not one of [%s], and a project file cannot set it: write it into your own config.toml, above the first line in brackets", last, table)
		} else if known { // TOML has no other way back to the top
			return e.WithHint("%s is not one of [%s]: write its line above the first line in brackets", last, table)
		}
	}
	if near := nearest.One(name, keyNames()); near != "" {
		return e.WithHint("did you mean %q?", near)
	}
	return e.WithHint("docs/config.md lists the keys")
}

// cutLast cuts a name at its last dot.
func cutLast(name string) (table, last string, found bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", name, false
	}
	return name[:i], name[i+1:], true
}

func userFile(env map[string]string, home string) string {
	dir := userDir(env, home)
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "config.toml")
}

// UserDir is the folder of the user's own files; "" if there is no home directory.
func UserDir(env []string, home string) string { return userDir(environment(env), home) }

func userDir(env map[string]string, home string) string {
	if dir := env["XDG_CONFIG_HOME"]; filepath.IsAbs(dir) {
		return filepath.Join(dir, "agentkernel")
	}
	if home == "" {
		return ""
	}
	return filepath.Join(home, ".config", "agentkernel")
}

// ProjectFileName is the file that Load seeks from the working directory upwards.
const ProjectFileName = "agentkernel.toml"

func (c *Config) findProjectFile() string {
	if c.dir == "" {
		return ""
	}
	for dir := c.dir; ; {
		path := filepath.Join(dir, ProjectFileName)
		fi, err := os.Stat(path)
		switch {
		case err != nil:
		case !fi.Mode().IsRegular():
			what := "it is no file"
			if fi.IsDir() {
				what = "it is a directory"
			}
			c.notes = append(c.notes, uncounted{text: fmt.Sprintf("%s does not count: %s; settings of a folder are in a file of that name, which agentkernel init makes where there is none", path, what)})
		case trusted(path, fi):
			return path
		default:
			c.notes = append(c.notes, uncounted{text: fmt.Sprintf("%s does not count: it belongs to another user; copy it, or chown it, if you trust it", path)})
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// trusted says whether a file, and the link that leads to it, belong to this user or to root: in a folder like /tmp anybody
// can plant one above the working directory.
func trusted(path string, file os.FileInfo) bool {
	link, err := os.Lstat(path)
	return err == nil && owned(file) && owned(link)
}

func owned(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

// path makes a path of a value absolute: ~ is the user's home, anything relative starts at the file that
// holds the value, or at the working directory.
func (c *Config) path(o Origin, p string) (string, error) {
	if p == "" {
		return "", fmt.Errorf("the path is empty")
	}
	if p == "~" || len(p) > 1 && p[:2] == "~/" {
		if c.home == "" {
			return "", fmt.Errorf("%q: the home directory is not known", p)
		}
		return filepath.Join(c.home, p[1:]), nil
	}
	if filepath.IsAbs(p) {
		return filepath.Clean(p), nil
	}
	return filepath.Join(o.base, p), nil
}
