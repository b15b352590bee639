package workspace

import (
	"path"
	"strings"

	"agentkernel/internal/lazy"
)

// A command of a config names files by its words, and some that are none of its words: make reads a Makefile, and python -m a
// module. What a shell makes of $ and backquotes is not known, so there the files of a name count in every directory.

const maxBases = 32 // directories in which the files of one command may lie

// needs are the files that a program reads beside those that its command names; % stands for each word of the command.
var needs = func() map[string][]string {
	makefiles := []string{"Makefile", "GNUmakefile"}
	node := []string{"package.json", "node_modules/.bin/%", "node_modules/%/package.json"}
	m := map[string][]string{
		"python": {"%/__main__.py"}, "pypy": {"%/__main__.py"}, "node": {"%.js", "%/index.js", "%/package.json"}, "ruby": {"%.rb"},
		"make": makefiles, "gmake": makefiles, "just": {"justfile", ".justfile"}, "task": {"Taskfile.yml", "Taskfile.yaml"}, "rake": {"Rakefile", "Rakefile.rb"}, "ninja": {"build.ninja"},
	}
	for program := range strings.FieldsSeq("npm npx pnpm pnpx yarn bun bunx") {
		m[program] = node
	}
	return m
}()

// shadowed are modules of Python that it takes from the directory in which it runs a module, if one lies there.
var shadowed = strings.Fields(`abc aifc argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb binascii bisect bz2 cProfile calendar cgi cgitb chunk cmath cmd code codecs codeop
	collections colorsys compileall concurrent configparser contextlib contextvars copy copyreg crypt csv ctypes curses dataclasses datetime dbm decimal difflib dis distutils
	doctest email encodings ensurepip enum errno faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools genericpath getopt getpass gettext glob graphlib grp
	gzip hashlib heapq hmac html http imaplib imghdr imp importlib inspect io ipaddress itertools json keyword linecache locale logging lzma mailbox mailcap math mimetypes
	mmap modulefinder multiprocessing netrc nis nntplib nturl2path numbers opcode operator optparse os ossaudiodev pathlib pdb pickle pickletools pipes pkgutil platform
	plistlib poplib posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri random re readline reprlib resource rlcompleter runpy
	sched secrets select selectors shelve shlex shutil signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat
	statistics string stringprep struct subprocess sunau symtable sysconfig syslog tabnanny tarfile telnetlib tempfile termios textwrap threading timeit tkinter token
	tokenize tomllib trace traceback tracemalloc tty turtle types typing unicodedata unittest urllib uu uuid venv warnings wave weakref webbrowser wsgiref xdrlib xml xmlrpc
	zipapp zipfile zipimport zlib zoneinfo`)

var (
	// pythonModule is the module that Python is told to run: -m x.y, -mx, -Im x.
	pythonModule = lazy.Regexp(`(?:^|[\s"'])-[A-Za-z]*?m\s*["']?([A-Za-z_][\w.]*)`)
	// goesTo is a directory in which a command, or what it starts, finds files: cd x, -C x, PYTHONPATH=x.
	goesTo = lazy.Regexp(`(?:(?:^|[\s;&|({"'!])(?:cd|pushd|-C|-I|--prefix|--cwd|--directory)[\s=]+(?:--\s+)?|\b[A-Za-z_]\w*=|\s-[CI])(?:"([^"]+)"|'([^']+)'|([^\s;&|()<>"']+))`)
)

// command notes what a command may run. A word with a slash may be a directory, where other words name the files; one without
// is taken for a file alone, since "test" and "build" are words of many commands.
func (g *gitNames) command(text string, bases []string, key string) {
	bases = g.goes(text, bases)
	words := commandWords(text)
	unclear := strings.ContainsAny(text, "$`")
	for word := range words {
		g.word(word, bases, key)
		if unclear {
			g.anywhere(word, key)
		}
		for _, file := range needs[strings.TrimRight(path.Base(word), "0123456789.")] {
			if !strings.Contains(file, "%") {
				g.file(file, bases, unclear, key)
				continue
			}
			for other := range words {
				g.file(strings.ReplaceAll(file, "%", other), bases, unclear && strings.ContainsAny(other, "/."), key)
			}
		}
	}
	if low := strings.ToLower(text); strings.Contains(low, "py") || unclear {
		for _, m := range pythonModule().FindAllStringSubmatch(text, -1) {
			g.module(m[1], bases, unclear, key)
		}
	}
}

// goes adds the directories to which a command goes to those in which it begins.
func (g *gitNames) goes(text string, bases []string) []string {
	all := bases[:len(bases):len(bases)]
	for _, m := range goesTo().FindAllStringSubmatch(text, -1) {
		for to := range strings.SplitSeq(m[1]+m[2]+m[3], ":") {
			if i := strings.LastIndexAny(to, ")}`"); i >= 0 { // $(git rev-parse --show-toplevel)/x
				to = strings.TrimLeft(to[i+1:], "/")
			} else if strings.HasPrefix(to, "$") {
				_, to, _ = strings.Cut(to, "/")
			}
			if to == "" {
				continue
			}
			for _, base := range all {
				if len(all) < maxBases {
					all = append(all, absolute(base, g.expand(to)))
				}
			}
		}
	}
	return all
}

// word notes what a word of a command may name.
func (g *gitNames) word(word string, bases []string, key string) {
	if strings.Trim(word, "./") == "" {
		return
	}
	if len(word) > 2 && word[0] == '-' && strings.ContainsAny(word[2:], "/.") { // -r./x
		g.word(word[2:], bases, key)
	}
	if i := strings.IndexAny(word, "*?["); i >= 0 {
		if word, _ = path.Split(word[:i]); strings.Trim(word, "./") == "" {
			return
		}
	}
	to := g.files
	if strings.Contains(word, "/") {
		to = g.below
	}
	for _, base := range bases {
		if p := absolute(base, g.expand(word)); p != base {
			g.add(to, p, key)
		}
		// $(git rev-parse --show-toplevel)/x, $GIT_DIR/../x
		if _, rest, ok := strings.Cut(word, "/"); ok && rest != "" && (word[0] == '/' || word[0] == '$') {
			if p := path.Join(base, rest); p != base {
				g.add(to, p, key)
			}
		}
	}
}

func (g *gitNames) file(name string, bases []string, anywhere bool, key string) {
	for _, base := range bases {
		g.add(g.files, absolute(base, name), key)
	}
	if anywhere && strings.HasPrefix(name, "$") {
		g.anywhere(name, key)
	} else if anywhere {
		g.anywhere("/"+name, key)
	}
}

// module notes what Python runs as a module, and what it imports before: a module of its own library is taken from the same directory.
func (g *gitNames) module(name string, bases []string, anywhere bool, key string) {
	p := strings.ReplaceAll(strings.Trim(name, "."), ".", "/")
	for _, base := range bases {
		g.add(g.below, path.Join(base, p), key)
		for _, m := range shadowed {
			g.add(g.files, path.Join(base, m+".py"), key)
			g.add(g.files, path.Join(base, m, "__init__.py"), key)
		}
	}
	for at := path.Dir(p); at != "."; at = path.Dir(at) {
		g.file(at+"/__init__.py", bases, anywhere, key)
	}
	for _, file := range []string{p + ".py", p + "/__init__.py", p + "/__main__.py"} {
		g.file(file, bases, anywhere, key)
	}
}

// anywhere notes a word of a command in which not all is known, if it looks like a file, for every directory.
func (g *gitNames) anywhere(word, key string) {
	if strings.HasPrefix(word, "$") {
		_, word, _ = strings.Cut(word, "/")
		word = "/" + word
	}
	if !strings.ContainsAny(word, "/.") || word[0] == '-' || strings.ContainsAny(word, "*?[$") {
		return
	}
	if p := fold(strings.TrimLeft(path.Clean("/"+word), "/")); p != "" {
		g.ends[path.Base(p)] = append(g.ends[path.Base(p)], gitEnd{"/" + p, key})
	}
}

// gitEnd is how the path of a file ends, with a slash before it, and the setting that names it.
type gitEnd struct{ path, key string }

// endsIn says which setting names the end of a file's path; "": none.
func (g *gitNames) endsIn(p string) string {
	for _, end := range g.ends[path.Base(p)] {
		if strings.HasSuffix("/"+p, end.path) && !strings.Contains("/"+p, "/.git/") { // there it is known what git runs
			return end.key
		}
	}
	return ""
}

// commandWords are the words that a shell could see in a text: between spaces and other signs that part them, and
// between quotes.
func commandWords(text string) map[string]bool {
	words := map[string]bool{}
	for _, quote := range []string{`"`, `'`} {
		for i, part := range strings.Split(text, quote) {
			if i%2 == 1 {
				words[part] = true
			}
		}
	}
	for _, word := range strings.FieldsFunc(strings.ReplaceAll(text, `\ `, "\x00"), func(r rune) bool { return strings.ContainsRune(" \t\n'\"`;&|<>(){}=:,!", r) }) {
		words[strings.ReplaceAll(word, "\x00", " ")] = true
	}
	delete(words, "")
	return words
}
