package process

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/guest"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/lazy"
	"agentkernel/internal/sandbox/confine"
)

// Places of a program in Node. Its own packages lie nearest, so that `kernel` and `tools` are always ours; packages
// of the host's node_modules are found one directory above.
const (
	nodeAppDir  = programDir + "/app"
	nodeOwnDir  = nodeAppDir + "/node_modules"
	nodeHostDir = programDir + "/node_modules"
	nodeLibDir  = "/agentkernel/node"
	oldestNode  = 18
)

// nodejs finds Node.js on the machine and asks it once for its version.
type nodejs struct {
	launch Launcher
	path   string

	mu     sync.Mutex
	file   string // empty until it was found
	inside string // where sandboxes have it
}

// find gives Node.js as it is to be executed in a sandbox, with what has to be shown for it. One that is missing now
// may have been installed at the next call.
func (n *nodejs) find() (inside string, mounts []confine.Mount, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file == "" {
		if err := n.look(); err != nil {
			return "", nil, err
		}
	}
	if n.inside != n.file {
		mounts = []confine.Mount{{Source: n.file, Target: n.inside}}
	}
	return n.inside, mounts, nil
}

func noNode(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "node", format, args...).
		WithHint("install Node.js %d or later (apt install nodejs, or nodejs.org), so that `node` is on the PATH", oldestNode)
}

func (n *nodejs) look() error {
	found, err := exec.LookPath(cmp.Or(n.path, "node"))
	if err != nil {
		return noNode("%w, and the program is in JavaScript", agentkernel.NotOnPath(cmp.Or(n.path, "node")))
	}
	// The word may be a script of a version manager: the process itself knows.
	version, err := probe(n.launch, found, "-e", "process.stdout.write(process.version + ' ' + process.execPath)")
	if err != nil {
		return noNode("%s does not %w", found, err)
	}
	number, file, _ := strings.Cut(version, " ")
	major, err := strconv.Atoi(strings.TrimPrefix(strings.SplitN(number, ".", 2)[0], "v"))
	if err != nil || !filepath.IsAbs(file) {
		return noNode("%s does not answer as Node.js does: %.60q", found, version)
	}
	if major < oldestNode {
		return noNode("%s is Node.js %s, which is too old", found, number)
	}
	if file, err = filepath.EvalSymlinks(file); err != nil {
		return noNode("%s: %w", found, err)
	}
	n.file, n.inside = file, file
	if !confine.InSystem(file) {
		n.inside = commandDir + "/node"
	}
	return nil
}

// nodeRecipe runs a program in JavaScript, with the guest library loaded before it.
func (b *Backend) nodeRecipe(p agentkernel.Program, tools []agentkernel.Tool, l agentkernel.Limits) (*recipe, error) {
	node, mounts, err := b.node.find()
	if err != nil {
		return nil, err
	}
	r := &recipe{profile: confine.ProfileNode, stream: true, mounts: mounts}
	main := nodeMain(p)
	if err := r.addSources(nodeAppDir, main, p); err != nil {
		return nil, err
	}
	if p.Host != "" {
		if st, err := os.Stat(p.Host); err != nil || !st.IsDir() {
			return nil, agentkernel.Errorf(agentkernel.CodeNotFound, "check", "%s is no directory with packages", p.Host)
		}
		r.mounts = append(r.mounts, confine.Mount{Source: p.Host, Target: nodeHostDir})
	}
	r.files = append(r.files, nodeLibrary()...)
	r.files = append(r.files, nodeToolModules(tools)...)
	heap := max(l.Memory>>20*4/5, 16) // the rest is for what is not JavaScript's heap
	r.program = confine.Program{Path: node, Env: environment("NODE_REPL_HISTORY=", "NO_UPDATE_NOTIFIER=1"),
		Args: append([]string{"node", fmt.Sprint("--max-old-space-size=", heap), "--require", nodeLibDir + "/core.cjs", nodeAppDir + "/" + main}, p.Args...)}
	return r, nil
}

// nodeMain is the file name of a program: its ending tells Node which kind of module it is.
func nodeMain(p agentkernel.Program) string {
	name := baseName(p, "program.mjs")
	if ext := path.Ext(name); ext != ".js" && ext != ".cjs" && ext != ".mjs" {
		name += ".mjs"
	}
	return name
}

// addSources puts a program and what travels with it into a directory.
func (r *recipe) addSources(dir, main string, p agentkernel.Program) error {
	total := len(p.Source)
	r.files = append(r.files, confine.File{Path: dir + "/" + main, Data: []byte(p.Source)})
	for name, source := range p.Modules {
		if !filepath.IsLocal(name) || path.Clean(name) != name || name == main || strings.HasPrefix(name, "node_modules/") {
			return agentkernel.Errorf(agentkernel.CodeInvalid, "check", "%q is no path for a file of the program", name)
		}
		total += len(source)
		r.files = append(r.files, confine.File{Path: dir + "/" + name, Data: []byte(source)})
	}
	if total > maxSources {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "check", "the program's files have %s; the limit is %s", bytesize.InMiB(int64(total)), bytesize.InMiB(maxSources)).
			WithHint("data belongs in a workspace, packages into node_modules")
	}
	return nil
}

// maxSources bounds the text of a program: it lies in memory that belongs to nobody's limit.
const maxSources = 512 << 10

// nodeLibrary are the files of the guest library, and the package `kernel`.
var nodeLibrary = sync.OnceValue(func() (files []confine.File) {
	entries, err := fs.ReadDir(guest.Node, "node")
	if err != nil {
		panic(err) // the files are part of the binary
	}
	for _, e := range entries {
		text, err := fs.ReadFile(guest.Node, "node/"+e.Name())
		if err != nil {
			panic(err)
		}
		files = append(files, confine.File{Path: nodeLibDir + "/" + e.Name(), Data: text})
	}
	type call struct {
		Name   string   `json:"name"`
		Guest  string   `json:"guest"`
		Params []string `json:"params"`
		Bare   bool     `json:"bare,omitempty"`
	}
	var table []call
	names := []string{"call", "result", "KernelError", "ToolError", "PermissionError", "LimitError", "OutcomeUnknown", "SessionLost", "KernelInterrupt", "TimeoutError"}
	for _, s := range agentkernel.Syscalls() {
		if s.Guest == "" {
			continue
		}
		c := call{s.Name, s.Guest, []string{}, s.Bare}
		for _, p := range s.Args {
			c.Params = append(c.Params, p.Name)
		}
		table = append(table, c)
		root, _, _ := strings.Cut(s.Guest, ".")
		for _, name := range []string{root, camelCase(root)} {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	text, err := json.Marshal(table)
	if err != nil {
		panic(err) // strings
	}
	cjs := fmt.Sprintf("module.exports = require(%q).syscalls(%s);\n", nodeLibDir+"/core.cjs", text)
	mjs := fmt.Sprintf("import kernel from \"./index.cjs\";\nexport default kernel;\nexport const { %s } = kernel;\n", strings.Join(names, ", "))
	return append(files, nodePackage("kernel", "index", cjs, mjs)...)
})

// nodePackage is a package with one module.
func nodePackage(name, module, cjs, mjs string) []confine.File {
	dir := nodeOwnDir + "/" + name
	return []confine.File{
		{Path: dir + "/package.json", Data: fmt.Appendf(nil, `{"name":%q,"exports":{".":{"import":"./index.mjs","require":"./index.cjs"},"./*":{"import":"./*.mjs","require":"./*.cjs"}}}`, name)},
		{Path: dir + "/" + module + ".cjs", Data: []byte(cjs)},
		{Path: dir + "/" + module + ".mjs", Data: []byte(mjs)},
	}
}

// nodeToolModules are the modules tools/<server> of the tools that a program imports.
func nodeToolModules(tools []agentkernel.Tool) (files []confine.File) {
	var servers []string
	byServer := map[string][]agentkernel.Tool{}
	for _, t := range tools {
		if !slices.Contains(servers, t.PythonServer) {
			servers = append(servers, t.PythonServer)
		}
		byServer[t.PythonServer] = append(byServer[t.PythonServer], t)
	}
	for _, server := range servers {
		cjs, mjs := nodeToolModule(server, byServer[server])
		made := nodePackage("tools", server, cjs, mjs)
		if len(files) > 0 {
			made = made[1:] // package.json is there
		}
		files = append(files, made...)
	}
	return files
}

// nodeToolModule writes one such module. A tool has the name that Python programs know it by, and the same as
// JavaScript writes it, unless another tool has that already.
func nodeToolModule(server string, tools []agentkernel.Tool) (cjs, mjs string) {
	taken := map[string]bool{}
	for _, t := range tools {
		taken[t.PythonName] = true
	}
	var object, consts, exports strings.Builder
	for i, t := range tools {
		params := []string{}
		for _, p := range t.Params {
			params = append(params, p.Name)
		}
		fmt.Fprintf(&object, "  %s: core.tool(%s, %s, %s),\n", quoted(t.PythonName), quoted(t.Server), quoted(t.Name), quoted(params))
		fmt.Fprintf(&consts, "const _%d = all[%s];\n", i, quoted(t.PythonName))
		fmt.Fprintf(&exports, "export { _%d as %s };\n", i, quoted(t.PythonName))
		if camel := camelCase(t.PythonName); !taken[camel] {
			taken[camel] = true
			fmt.Fprintf(&exports, "export { _%d as %s };\n", i, quoted(camel))
			fmt.Fprintf(&object, "  get %s() { return this[%s]; },\n", quoted(camel), quoted(t.PythonName))
		}
	}
	cjs = fmt.Sprintf("const core = require(%q);\nmodule.exports = {\n%s};\n", nodeLibDir+"/core.cjs", object.String())
	mjs = fmt.Sprintf("import all from %s;\nexport default all;\n%s%s", quoted("./"+server+".cjs"), consts.String(), exports.String())
	return cjs, mjs
}

// quoted is a text, or a list of them, as JavaScript reads it.
func quoted(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return `""` // strings always marshal
	}
	return string(b)
}

// camelCase is a name as JavaScript writes it: search_issues is searchIssues.
func camelCase(name string) string {
	parts := strings.Split(strings.Trim(name, "_"), "_")
	for i, p := range parts[1:] {
		if first, n := utf8.DecodeRuneInString(p); n > 0 {
			parts[i+1] = string(unicode.ToUpper(first)) + p[n:]
		}
	}
	return strings.Join(parts, "")
}

var nodeImport = lazy.Regexp(`["']tools/([A-Za-z_][A-Za-z0-9_]*)["']`)

// nodeTools finds the servers whose tools a program may import. What only looks like an import costs a look at the
// server's list.
func nodeTools(p agentkernel.Program) (refs []agentkernel.ToolRef) {
	if p.Language != agentkernel.Node {
		return nil
	}
	seen := map[string]bool{}
	find := func(source string, main bool) {
		for n, line := range strings.Split(source, "\n") {
			if !strings.Contains(line, "tools/") || !strings.Contains(line, "import") && !strings.Contains(line, "require") && !strings.Contains(line, "from") {
				continue
			}
			for _, m := range nodeImport().FindAllStringSubmatch(line, -1) {
				if seen[m[1]] {
					continue
				}
				seen[m[1]] = true
				ref := agentkernel.ToolRef{Server: m[1], Name: "*"}
				if main {
					ref.Line = n + 1
				}
				refs = append(refs, ref)
			}
		}
	}
	find(p.Source, true)
	for _, source := range p.Modules {
		find(source, false)
	}
	return refs
}
