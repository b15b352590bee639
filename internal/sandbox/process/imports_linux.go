package process

import "slices"

// importSet is what a zygote has imported before it forks.
type importSet string

const (
	stdlibSet importSet = "python-stdlib"
	dataSet   importSet = "python-data" // with numpy and pandas
)

// stdlibModules are what programs commonly import and what the guest library needs.
var stdlibModules = []string{
	"abc", "argparse", "array", "ast", "asyncio", "base64", "bisect", "calendar", "codecs", "collections", "concurrent.futures",
	"contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools", "glob", "gzip",
	"hashlib", "heapq", "hmac", "html", "inspect", "io", "itertools", "json", "logging", "math", "operator", "os", "pathlib", "pickle",
	"pprint", "queue", "random", "re", "secrets", "shutil", "statistics", "string", "struct", "subprocess", "tempfile", "textwrap",
	"threading", "time", "traceback", "types", "typing", "unicodedata", "urllib.parse", "uuid", "warnings", "weakref", "zlib",
	"zoneinfo", "importlib.util", "linecache",
}

// dataRoots are imports that make the set with numpy and pandas worth its memory.
var dataRoots = []string{"numpy", "pandas"}

// imports are the set's modules; needed those without which it makes no sense.
func (s importSet) imports() (all, needed []string) {
	if s == dataSet {
		return slices.Concat(stdlibModules, dataRoots), dataRoots
	}
	return stdlibModules, nil
}

// setFor chooses the import set of a program: the one with numpy and pandas if it imports one of them and the
// interpreter has both.
//
// A session has it always: what its cells import is not known yet, and must not decide what a replay of it begins with.
func setFor(python Interpreter, v *verdict, session bool) importSet {
	if python.Data && (session || slices.ContainsFunc(dataRoots, func(m string) bool { return slices.Contains(v.Imports, m) })) {
		return dataSet
	}
	return stdlibSet
}
