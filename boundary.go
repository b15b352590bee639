package agentkernel

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// What programs print or raise when they reach for a network or a file that a sandbox does not have: CPython, Node, git, curl and the
// shells each have words of their own.
var (
	noNetwork = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`Name or service not known|Temporary failure in name resolution|nodename nor servname|Could not resolve host|Failed to resolve|unable to resolve host|` +
			`ENOTFOUND|EAI_AGAIN|getaddrinfo|Network is unreachable|ENETUNREACH|TypeError: fetch failed|/socket\.py", line \d+, in [^\n]*\n[^\n]*\n(?:[^\n]*\n)?PermissionError`)
	})
	noFile = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`FileNotFoundError: |ENOENT: no such file|No such file or directory|Read-only file system|EROFS: `)
	})
	noCommand = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/subprocess\.py"|spawn \S+ ENOENT`) })
	undefined = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`NameError: name '(\w+)' is not defined`) })
	lacking   = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`AttributeError: module '(\w+)' has no attribute '(\w+)'`)
	})
	noPackage = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`Cannot find (?:package|module) '([^'./\n][^'\n]*)'`) })
	inside    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`'/(?:workspace|volumes|tmp|program)(?:/|')`) })
)

// NoFiles is what a backend without files answers to a program that opens one.
const NoFiles = "this sandbox has no files"

const nameFolder = "a program sees no files outside its sandbox: use a tool that reads them; or --workspace DIR names a folder, which is then its working directory"

// FilesOfSession is said of a session that writes files and has no folder.
const FilesOfSession = "what it writes lasts as long as the session; --workspace DIR names a folder, in which files last"

// NoTerminal is said to a program that asks for input where nothing is to be read.
const NoTerminal = "a program has no terminal to ask at: write values into the program, or take them from sys.argv; or --stdin FILE is what input() reads"

// noTerminalOverMCP is that for a model with the tools of docs/mcp-tools.md, whose programs have neither.
const noTerminalOverMCP = "a program has no terminal to ask at, and nothing on standard input: write the values into the code"

// importSyscall says where a name comes from that a program uses and has not imported; "": it is no system call.
func importSyscall(name string) string {
	for _, call := range Syscalls() {
		if root, _, _ := strings.Cut(call.Guest, "."); root == name {
			return name + " is a system call: from kernel import " + name
		}
	}
	return ""
}

// importedElsewhere says where a system call comes from whose name a program looked for in a module of Python's that is called the same; "":
// it is none.
func importedElsewhere(module, attribute string) string {
	for _, call := range Syscalls() {
		if call.Guest == module+"."+attribute {
			return call.Guest + " is a system call: from kernel import " + module + ", not import " + module
		}
	}
	return ""
}

// MaxLeft is how many files LeftBehind names. A backend lists one more, if there is one.
const MaxLeft = 5

// LeftBehind says that files of a program went with its sandbox, and what keeps them; "": none did.
func (p *Process) LeftBehind() string {
	if len(p.Left) == 0 {
		return ""
	}
	var names []string
	for _, name := range p.Left[:min(len(p.Left), MaxLeft)] {
		names = append(names, strconv.Quote(name))
	}
	if len(p.Left) > MaxLeft {
		names = append(names, "and more")
	}
	return "written in the sandbox, and gone with it: " + strings.Join(names, ", ") + "; --workspace DIR names a folder, in which files last"
}

// Boundary says what a program has instead of what it reached for and its sandbox does not have: a network, or files of the user. text is
// the traceback of an uncaught error, or what the program printed to stderr before it failed. "": neither is to be seen in it.
func (s *Spec) Boundary(text string) string {
	switch {
	case strings.Contains(text, string(CodeTool)+": "): // what a tool says is about the tool's own world
		return ""
	case noNetwork().MatchString(text):
		return "a program has no network of its own: use a tool, or http.fetch (" + s.importHTTP() + ") for a host that is allowed; --allow-host HOST allows one"
	case s.Program.Language == Node && noPackage().MatchString(text):
		return s.getPackage(noPackage().FindStringSubmatch(text)[1])
	case s.Stdin == "" && strings.Contains(text, "EOFError"):
		return NoTerminal
	case undefined().MatchString(text):
		return importSyscall(undefined().FindStringSubmatch(text)[1])
	case lacking().MatchString(text):
		m := lacking().FindStringSubmatch(text)
		return importedElsewhere(m[1], m[2])
	case strings.Contains(text, NoFiles) && s.Workspace == nil: // wherever it looked
		return nameFolder
	case noFile().MatchString(text) && s.seenAs(text) != "":
		return s.seenAs(text)
	case !noFile().MatchString(text) || noCommand().MatchString(text) || inside().MatchString(text):
		return ""
	case s.Workspace == nil:
		return nameFolder
	case strings.Contains(text, "'/") || strings.Contains(text, " /"):
		return "inside, the workspace is the folder /workspace; --volume NAME:DIR adds one, seen as /volumes/NAME"
	}
	return ""
}

// seenAs says under which path a program sees a file of its folders that it has named as whoever started it would; "": it has not. text is
// what says that there is no such file.
func (s *Spec) seenAs(text string) string {
	for line := range strings.Lines(text) {
		if !noFile().MatchString(line) {
			continue
		}
		if w := s.Workspace; w != nil {
			if rest, ok := named(line, w.Path+"/"); ok {
				return "the folder " + w.Path + " is /workspace inside, and the working directory: the file is '" + rest + "' there"
			}
			name := w.Path[strings.LastIndexByte(w.Path, '/')+1:]
			if rest, ok := named(line, name+"/"); ok && name != "" {
				return "the folder " + name + " is itself the working directory, /workspace: the file is '" + rest + "' there"
			}
		}
		for i := range s.Volumes {
			if v := &s.Volumes[i]; v.Path != "" {
				if rest, ok := named(line, v.Path+"/"); ok {
					return "the folder " + v.Path + " is /volumes/" + v.Name + " inside: the file is '/volumes/" + v.Name + "/" + rest + "'"
				}
			}
		}
	}
	return ""
}

// named finds the path in a message that begins so, and gives the rest of it.
func named(line, begins string) (rest string, ok bool) {
	for _, before := range []string{"'", `"`, " "} {
		if _, rest, ok = strings.Cut(line, before+begins); ok {
			if i := strings.IndexAny(rest, "'\":\n"); i >= 0 {
				rest = rest[:i]
			}
			return rest, rest != ""
		}
	}
	return "", false
}

// getPackage says where a program in Node gets a package that it does not find. A name that is meant for a module of the sandbox is never to
// be installed: such names are anyone's to register.
func (s *Spec) getPackage(name string) string {
	scope, rest, _ := strings.Cut(name, "/")
	switch root := strings.NewReplacer("@", "", "-", "", "_", "").Replace(strings.ToLower(scope)); {
	case root == "skills":
		return "skills are Python, and programs in JavaScript cannot import them"
	case strings.HasPrefix(root, "agentkernel"), slices.ContainsFunc([]string{"kernel", "tools", "agentkernel"}, func(own string) bool { return oneEdit(root, own) }):
		return `the modules "kernel" and "tools/SERVER" are built in: import { sleep } from "kernel"; import { read_text_file } from "tools/filesystem"`
	case strings.HasPrefix(scope, "@") && rest != "":
		rest, _, _ = strings.Cut(rest, "/")
		return s.installPackage(scope + "/" + rest)
	}
	return s.installPackage(scope) // npm takes a/b for a repository of GitHub
}

// oneEdit says whether two words are the same but for one letter, or two neighbours that have changed places.
func oneEdit(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a) <= 1 && len(b) <= 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}

// installPackage says where a program in Node finds packages.
func (s *Spec) installPackage(name string) string {
	if s.Program.Host == "" {
		return "packages lie in the folder node_modules beside the program, or above, and there is none: npm install " + name
	}
	return "packages lie in " + s.Program.Host + ", which lacks it: npm install " + name
}

// importHTTP is how a program of this language gets http.fetch.
func (s *Spec) importHTTP() string {
	switch s.Program.Language {
	case Node:
		return `import { http } from "kernel"`
	case Go, Script, Command:
		return `the command kernel call http.fetch --json '{"url": "https://..."}'`
	}
	return "from kernel import http"
}
