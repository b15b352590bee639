package frontend

import (
	"slices"
	"strconv"
	"strings"

	"agentkernel"
)

// ModuleFrame is the name that the engine gives to the top level of a module of the program in
// tracebacks; it is shown as <module>.
const ModuleFrame = "_ak_module"

// Bind makes a program that Check accepted ready for the engine. tools are those that Check said it needs.
// Errors: CodeNotFound with the nearest names for tools that are not among tools, and those of parsing.
func Bind(p agentkernel.Program, tools []agentkernel.Tool) (*Bundle, error) {
	defer alone(sizeOf(&p))()
	a, err := analyze(p)
	if err != nil {
		return nil, err
	}
	b := &binder{a: a, tools: map[string]map[string]agentkernel.Tool{}, functions: map[string]string{},
		objects: map[string]*object{}, shimmed: map[*unit]string{}, natives: map[string]string{}}
	for _, t := range tools {
		if b.tools[t.PythonServer] == nil {
			b.tools[t.PythonServer] = map[string]agentkernel.Tool{}
		}
		b.tools[t.PythonServer][t.PythonName] = t
	}
	b.choosePrefix()
	for _, f := range a.files {
		b.feed(f)
	}
	if err := a.err(); err != nil {
		return nil, err
	}
	return &Bundle{Functions: b.list, Feeds: b.feeds, Plain: a.plain()}, nil
}

// binder turns the files of a program into feeds.
type binder struct {
	a         *analysis
	tools     map[string]map[string]agentkernel.Tool // by Python server and name
	prefix    string                                 // of every hidden name
	list      []Function
	functions map[string]string  // host function -> hidden variable
	objects   map[string]*object // module -> its object
	shimmed   map[*unit]string   // units of shims that are defined -> hidden variable
	natives   map[string]string  // engine modules that are bound -> hidden variable
	settles   bool               // the coroutine of awaitable is defined
	hidden    strings.Builder    // code that runs before the next file
	feeds     []Feed
}

// object is a module as the program holds it: an instance with the module's functions as attributes.
type object struct {
	variable string
	attrs    map[string]bool
}

// prefixesEach is how many prefixes each cell of a session may try, so that no two cells have the same.
const prefixesEach = 1000

// choosePrefix finds a beginning for hidden names that no file uses.
func (b *binder) choosePrefix() {
	for n := b.a.program.Cells * prefixesEach; ; n++ {
		b.prefix = "_k_"
		if n > 0 {
			b.prefix = "_k" + strconv.Itoa(n) + "_"
		}
		if !slices.ContainsFunc(b.a.files, func(f *file) bool { return strings.Contains(f.text, b.prefix) }) {
			return
		}
	}
}

// line adds a line of hidden code.
func (b *binder) line(parts ...string) {
	for _, p := range parts {
		b.hidden.WriteString(p)
	}
	b.hidden.WriteByte('\n')
}

// flush makes a feed of the hidden code collected so far.
func (b *binder) flush() {
	if b.hidden.Len() == 0 {
		return
	}
	b.feeds = append(b.feeds, Feed{File: "<agentkernel>", Code: b.hidden.String(), Hidden: true})
	b.hidden.Reset()
}

// feed rewrites one file and adds it, behind the hidden code that it relies on.
func (b *binder) feed(f *file) {
	ed := &editor{file: f, b: b}
	ed.rewrite()
	if f.key == "" {
		text := ed.apply()
		b.flush()
		b.feeds = append(b.feeds, Feed{File: f.file, Code: text, LineOffset: f.shift})
		return
	}
	b.feedModule(ed)
}

// function gives the hidden variable of a host function. The awaitable forms issue their call when they
// are called; what the host answers later is wrapped (package monty: settled), so that an error can be
// raised where the program awaits it.
func (b *binder) function(name string) string {
	if v, ok := b.functions[name]; ok {
		return v
	}
	if strings.Contains(name, ".aio.") {
		wrap := b.builtin("_later")
		v := b.prefix + "a" + strconv.Itoa(len(b.list))
		b.functions[name] = v
		b.line(v, "=", wrap, "(", b.prefix, strconv.Itoa(len(b.list)), ")")
		b.list = append(b.list, Function{Input: b.prefix + strconv.Itoa(len(b.list)), Name: name})
		return v
	}
	v := b.prefix + strconv.Itoa(len(b.list))
	b.list = append(b.list, Function{Input: v, Name: name})
	if strings.Contains(name, ".aio.") {
		v = b.awaitable(v)
	}
	b.functions[name] = v
	return v
}

// awaitable wraps an async host function. The call is issued when the function is called; what is awaited
// is a coroutine that takes the result apart: (value,) or an exception to raise. The engine could raise
// the error of an awaited future itself, but raises it in a gather that waits for it rather than in the
// coroutine that does, so that the program could not catch it there.
func (b *binder) awaitable(host string) string {
	settle := b.prefix + "settle"
	if !b.settles {
		b.settles = true
		b.line("async def ", settle, "(f):\n r=await f\n if type(r) is tuple:return r[0]\n raise r")
	}
	v := host + "a"
	b.line("def ", v, "(*a,**k):return ", settle, "(", host, "(*a,**k))")
	return v
}

// object gives the hidden variable of a module's object, which it makes if needed.
func (b *binder) object(module string) *object {
	if o := b.objects[module]; o != nil {
		return o
	}
	if len(b.objects) == 0 {
		b.line("class ", b.prefix, "ns:pass")
	}
	o := &object{variable: b.prefix + "m" + strconv.Itoa(len(b.objects)), attrs: map[string]bool{}}
	b.objects[module] = o
	b.line(o.variable, "=", b.prefix, "ns()")
	return o
}

// set gives a module's object an attribute, once.
func (b *binder) set(o *object, name, value string) {
	if !o.attrs[name] && value != "" {
		o.attrs[name] = true
		b.line(o.variable, ".", name, "=", value)
	}
}

// native binds a module that the engine has itself to a hidden variable.
func (b *binder) native(module string) string {
	if v, ok := b.natives[module]; ok {
		return v
	}
	v := b.prefix + "n_" + hiddenPart(module)
	b.natives[module] = v
	b.line("import ", module, " as ", v)
	return v
}

// hiddenPart makes a module's name part of a hidden one.
func hiddenPart(module string) string {
	if !strings.ContainsAny(module, "._") {
		return module
	}
	return strings.ReplaceAll(strings.ReplaceAll(module, ".", ""), "_", "")
}

// Clean takes the hidden names of shims out of a message of the engine: "_k_random_randint() missing 1
// required positional argument" becomes "randint() missing ...".
func Clean(message string) string {
	const mark = "_k"
	for from := 0; ; {
		i := strings.Index(message[from:], mark)
		if i < 0 {
			return message
		}
		i += from
		end := i + len(mark)
		for end < len(message) && isDigit(message[end]) {
			end++
		}
		word := end + 1
		for word < len(message) && message[word] != '_' && isNamePart(message[word]) {
			word++
		}
		begins := i == 0 || !isNamePart(message[i-1])
		if !begins || end >= len(message) || message[end] != '_' || word+1 >= len(message) || message[word] != '_' ||
			!hiddenModule(message[end+1:word]) {
			from = end
			continue
		}
		message = message[:i] + message[word+1:]
		from = i
	}
}

func hiddenModule(part string) bool {
	for m := range shims() {
		if hiddenPart(m) == part {
			return true
		}
	}
	return false
}
