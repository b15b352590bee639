package frontend

import (
	"strings"

	"agentkernel"
)

// missingBuiltins are names of CPython that the engine does not have and that no shim stands in for.
var missingBuiltins = map[string]string{
	"eval": "", "exec": "", "compile": "", "globals": "", "locals": "", "vars": "", "dir": "", "breakpoint": "",
	"super": "", "classmethod": "", "staticmethod": "", "property": "", "aiter": "", "anext": "", "delattr": "",
	"issubclass": "", "__import__": "", "__builtins__": "", "__file__": "", "memoryview": "", "complex": "", "bytearray": "",
	"input": agentkernel.NoTerminal,
}

// missingAttributes are methods and attributes that exist in CPython on builtin types and on no type of
// the engine.
var missingAttributes = func() map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq("format_map maketrans translate difference_update intersection_update " +
		"symmetric_difference_update as_integer_ratio bit_count bit_length from_bytes to_bytes fromhex_float is_integer " +
		"fromtimestamp fromordinal toordinal fromisocalendar isocalendar timetuple utctimetuple utcfromtimestamp utcnow utcoffset " +
		"with_traceback add_note __cause__ __context__ __traceback__ __dict__ __bases__ __mro__ __subclasses__ __code__ " +
		"__globals__ __closure__ __wrapped__ __module__ __qualname__") {
		set[w] = true
	}
	return set
}()

// checkNames refuses builtins and attributes that the engine lacks, where the program uses them.
func (a *analysis) checkNames(f *file) {
	for i := range f.stmts {
		st := &f.stmts[i]
		if st.kw == "import" || st.kw == "from" || st.kw == "@" && st.parent >= 0 && f.stmts[st.parent].kw == "class" {
			continue
		}
		for t := st.first; t < st.last; t++ {
			if f.tok[t].kind == tokName {
				a.checkName(f, st, t)
			}
		}
	}
}

func (a *analysis) checkName(f *file, st *stmt, t int32) {
	word := f.str(t)
	if f.is(t-1, ".") {
		if missingAttributes[word] && !f.defines(word) {
			if u, _ := f.member(t); u != nil {
				return
			}
			a.refuse(f.source, t, "'.%s' is not available on the monty backend; %s", word, elsewhere)
		}
		return
	}
	hint, missing := missingBuiltins[word]
	if exception := missingException(word); !missing && !exception || f.defines(word) || f.keywordArgument(t) {
		return
	}
	if missing {
		if f.typeOnly(t) {
			return
		}
		a.found = append(a.found, problem{file: f.source, line: f.line(t), code: "unsupported", hint: hint,
			text: "'" + word + "' is not available on the monty backend; " + elsewhere})
		return
	}
	if st.kw != "except" && !f.is(t-1, "->") {
		a.refuse(f.source, t, "exception '%s' is not available on the monty backend; %s", word, elsewhere)
	}
}

// typeOnly says whether a name is mentioned as a type only, where an empty class stands in for it:
// "isinstance(x, (bytes, bytearray))".
func (s *source) typeOnly(t int32) bool {
	switch s.str(t) {
	case "memoryview", "complex", "bytearray":
		return !s.is(t+1, "(") && !s.is(t+1, ".")
	}
	return false
}

// missingException says whether CPython has a builtin exception that the engine lacks.
func missingException(word string) bool {
	switch word {
	case "BaseExceptionGroup", "BlockingIOError", "BrokenPipeError", "BufferError", "ChildProcessError",
		"ConnectionAbortedError", "ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "EOFError",
		"ExceptionGroup", "FloatingPointError", "GeneratorExit", "IndentationError", "InterruptedError",
		"ProcessLookupError", "ReferenceError", "StopAsyncIteration", "SystemError", "TabError", "UnicodeError",
		"UnicodeTranslateError":
		return true
	}
	return false
}
