package frontend

import (
	"slices"
	"strings"

	"agentkernel"
)

// value gives the expression for "from module import name" in hidden code, and the module of the engine
// that has the name itself, if the import can stay as it is. Unknown names are reported at token tok.
func (b *binder) value(f *file, module, name string, tok int32) (expr string, stays bool) {
	root, rest, _ := strings.Cut(module, ".")
	switch root {
	case "kernel":
		return b.kernelValue(f, module, name), false
	case "tools":
		return b.toolValue(f, module, rest, name, tok), false
	case "skills":
		if m := b.a.byKey[module]; m != nil {
			return b.object(module).variable + "." + name, false
		}
		return b.module(f, module+"."+name), false
	}
	if u := b.override(f, module, name); u != nil {
		return b.define(u), false
	}
	if knownModule(module + "." + name) {
		return b.module(f, module+"."+name), false
	}
	return "", true
}

// override gives the shim's definition of a name if the engine lacks the name or cannot do what this
// file wants of it.
func (b *binder) override(f *file, module, name string) *unit {
	sh := shimOf(module)
	if sh == nil || !sh.exports(name) {
		return nil
	}
	if !natives()[module][name] || f.wantsShim(module, name) {
		return sh.units[f.variant(module, name)]
	}
	return nil
}

// variant picks the form of a definition that this file needs: readers that count lines and know their
// fields are ten times slower than a plain iterator.
func (f *file) variant(module, name string) string {
	if module == "csv" && (f.attrs["line_num"] || f.attrs["fieldnames"] || f.attrs["dialect"]) {
		switch name {
		case "reader":
			return "_counting_reader"
		case "DictReader":
			return "_CountingDictReader"
		}
	}
	return name
}

// wantsShim says whether a file uses a name of the engine's in a way that only the shim can answer.
func (f *file) wantsShim(module, name string) bool {
	switch module + "." + name {
	case "json.dumps":
		return f.keywords["default"] || f.keywords["cls"] || f.keywords["object_hook"]
	case "json.loads":
		return f.keywords["object_hook"] || f.keywords["parse_float"] || f.keywords["object_pairs_hook"]
	case "asyncio.gather":
		return f.keywords["return_exceptions"]
	case "dataclasses.dataclass":
		return f.words["field"] || f.attrs["field"] || f.words["__post_init__"] || f.words["asdict"] || f.attrs["asdict"]
	case "re.sub":
		return f.callableSub
	}
	return true
}

func (b *binder) kernelValue(f *file, module, name string) string {
	if base := agentkernel.GuestBase(name); base != "" && module == "kernel" {
		return base
	}
	if full := module + "." + name; b.a.isModule(full) {
		return b.module(f, full)
	}
	switch module + "." + name { // whose results have methods
	case "kernel.http.fetch":
		return b.builtin("_fetch")
	case "kernel.aio.http.fetch":
		return b.builtin("_fetch_later")
	case "kernel.llm.stream":
		return b.builtin("_stream_now")
	case "kernel.aio.llm.stream":
		return b.builtin("_stream_later")
	}
	return b.function(module + "." + name)
}

func (b *binder) toolValue(f *file, module, rest, name string, tok int32) string {
	server, aio := strings.CutSuffix(rest, ".aio")
	switch {
	case server == "": // from tools import fs
		return b.module(f, "tools."+name)
	case name == "aio" && !aio:
		return b.module(f, module+".aio")
	}
	if key := "tools." + server + "." + name; b.a.byKey[key] != nil {
		expr := b.object(key).variable + "." + name
		if aio {
			return b.define(shimOf(builtinsShim).units["_awaitable"]) + "(" + expr + ")"
		}
		return expr
	}
	if b.a.byKey[module] != nil { // from tools.report.monthly import part
		return b.object(module).variable + "." + name
	}
	if _, ok := b.tools[server][name]; !ok {
		b.unknownTool(f, server, name, tok)
		return "None"
	}
	return b.function(module + "." + name)
}

// unknownTool reports a tool that is not there, with the nearest names. The kernel has usually done so.
func (b *binder) unknownTool(f *file, server, name string, tok int32) {
	var servers, names []string
	for s := range b.tools {
		servers = append(servers, s)
	}
	for n := range b.tools[server] {
		names = append(names, n)
	}
	slices.Sort(names)
	slices.Sort(servers)
	if len(names) == 0 {
		b.a.report(f.source, tok, agentkernel.CodeNotFound, didYouMean(server, servers), "there is no tool server %q", server)
		return
	}
	b.a.report(f.source, tok, agentkernel.CodeNotFound, didYouMean(name, names), "server %q has no tool %q", server, name)
}

// define feeds one unit of a shim, and what it needs, and gives its hidden variable.
func (b *binder) define(u *unit) string {
	if v, ok := b.shimmed[u]; ok {
		return v
	}
	if u.from != "" {
		v := b.imported(u)
		b.shimmed[u] = v
		return v
	}
	v := b.prefix + hiddenPart(u.module) + "_" + u.name
	b.shimmed[u] = v
	names := map[string]string{u.name: v}
	for _, need := range u.needs() {
		names[need] = b.define(shimOf(u.module).units[need])
	}
	var text strings.Builder
	for _, p := range u.pieces {
		text.WriteString(p.text)
		if p.ref != "" {
			text.WriteString(names[p.ref])
		}
	}
	code := strings.Trim(text.String(), "\n")
	if u.class {
		b.line("def ", v, "():\n ", strings.ReplaceAll(code, "\n", "\n "), "\n return ", u.name, "\n", v, "=", v, "()")
	} else {
		b.line(code)
	}
	return v
}

// imported gives the expression for a name that a shim imports.
func (b *binder) imported(u *unit) string {
	root := firstPart(u.from)
	switch {
	case root == "kernel" || root == "intrinsic" || root == "output":
		return b.function(u.from + "." + u.attr)
	case root == "engine": // the engine's own, where the shim defines the same name
		return u.attr
	case root == "program":
		return b.programValue(u.attr)
	case u.attr == "":
		return b.native(u.from)
	}
	if sh := shimOf(u.from); sh != nil && sh.units[u.attr] != nil && u.from != u.module {
		return b.define(sh.units[u.attr])
	}
	return b.native(u.from) + "." + u.attr
}

// programValue gives what a shim may know of the program itself.
func (b *binder) programValue(name string) string {
	switch name {
	case "argv":
		items := []string{quote(b.a.files[len(b.a.files)-1].file)}
		for _, arg := range b.a.program.Args {
			items = append(items, quote(arg))
		}
		return "[" + strings.Join(items, ",") + "]"
	case "functions":
		return b.documented()
	}
	return "None"
}

// documented lists (function, documentation) of the tools that the program imports, for help().
func (b *binder) documented() string {
	var out strings.Builder
	out.WriteByte('[')
	for _, f := range b.list {
		server, name, ok := strings.Cut(strings.TrimPrefix(f.Name, "tools."), ".")
		if !ok || !strings.HasPrefix(f.Name, "tools.") {
			continue
		}
		t := b.tools[server][strings.TrimPrefix(name, "aio.")]
		out.WriteString("(" + f.Input + "," + quote(t.Signature+"\n\n"+t.Doc) + "),")
	}
	out.WriteByte(']')
	return out.String()
}

// quote writes a Python string literal.
func quote(s string) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	b.WriteByte('\'')
	for _, r := range s {
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r < ' ' || r == 0x7f:
			b.WriteString(`\x`)
			b.WriteByte(hex[r>>4&15])
			b.WriteByte(hex[r&15])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('\'')
	return b.String()
}
