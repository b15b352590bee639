package frontend

import (
	"slices"
	"strings"
	"sync"
)

// nativeNames lists, for each module that the engine has itself, the names in it. TestNativeTables holds
// the list against the real engine.
var nativeNames = map[string]string{
	"__future__": "annotations absolute_import division generators nested_scopes print_function unicode_literals with_statement generator_stop",
	"asyncio":    "gather run",
	"base64": "MAXBINSIZE MAXLINESIZE a85decode a85encode b16decode b16encode b32decode b32encode b32hexdecode b32hexencode " +
		"b64decode b64encode b85decode b85encode decodebytes encodebytes standard_b64decode standard_b64encode " +
		"urlsafe_b64decode urlsafe_b64encode",
	"binascii":    "Error a2b_base64 a2b_hex b2a_base64 b2a_hex crc32 hexlify unhexlify",
	"collections": "Counter defaultdict deque namedtuple",
	"dataclasses": "FrozenInstanceError dataclass is_dataclass",
	"datetime":    "date datetime time timedelta timezone",
	"functools":   "partial reduce",
	"itertools": "accumulate batched chain compress count cycle dropwhile filterfalse islice pairwise repeat starmap " +
		"takewhile zip_longest",
	"json": "JSONDecodeError dumps loads",
	"math": "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees e erf erfc exp exp2 expm1 " +
		"fabs factorial floor fmod frexp gamma gcd inf isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 " +
		"log1p log2 modf nan nextafter perm pi pow radians remainder sin sinh sqrt tan tanh tau trunc ulp",
	"os": "altsep curdir devnull environ extsep fspath getenv linesep listdir makedirs mkdir name pardir remove rename " +
		"replace rmdir sep stat unlink",
	"pathlib": "Path",
	"re": "A ASCII DOTALL I IGNORECASE M MULTILINE Match NOFLAG Pattern S compile error escape findall finditer " +
		"fullmatch match search split sub",
	"sys": "platform stderr stdout version version_info",
	"typing": "Annotated Any Callable ClassVar Dict Final FrozenSet Generator Generic Iterable Iterator List Literal " +
		"Mapping Never NoReturn Optional Protocol Self Sequence Set TYPE_CHECKING Tuple Type TypeVar Union",
	"unicodedata": "category combining is_normalized lookup name normalize unidata_version",
}

// stdlib are the modules of CPython's standard library that exist on Linux, native and shimmed ones included.
const stdlib = "abc argparse array ast asyncio atexit audioop base64 bdb binascii bisect builtins bz2 cProfile calendar cmath cmd " +
	"code codecs codeop collections colorsys compileall concurrent configparser contextlib contextvars copy copyreg csv " +
	"ctypes curses dataclasses datetime dbm decimal difflib dis doctest email encodings ensurepip enum errno faulthandler " +
	"fcntl filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass gettext glob graphlib grp " +
	"gzip hashlib heapq hmac html http imaplib importlib inspect io ipaddress itertools json keyword linecache locale " +
	"logging lzma mailbox marshal math mimetypes mmap modulefinder multiprocessing netrc ntpath numbers opcode operator " +
	"optparse os pathlib pdb pickle pickletools pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty " +
	"pwd py_compile pyclbr pydoc queue quopri random re readline reprlib resource rlcompleter runpy sched secrets select " +
	"selectors shelve shlex shutil signal site smtplib socket socketserver sqlite3 ssl stat statistics string stringprep " +
	"struct subprocess symtable sys sysconfig syslog tabnanny tarfile tempfile termios textwrap threading time timeit " +
	"tkinter token tokenize tomllib trace traceback tracemalloc tty turtle types typing unicodedata unittest urllib uuid " +
	"venv warnings wave weakref webbrowser wsgiref xml xmlrpc zipapp zipfile zipimport zlib zoneinfo"

// advice says what to use in place of a module that a sandbox cannot have; {m} is the module.
var advice = map[string]string{
	"requests": adviceHTTP, "httpx": adviceHTTP, "aiohttp": adviceHTTP, "urllib3": adviceHTTP, "socket": adviceHTTP,
	"ssl": adviceHTTP, "http": adviceHTTP, "smtplib": adviceTool, "ftplib": adviceTool, "imaplib": adviceTool,
	"websockets": adviceHTTP, "subprocess": adviceTool, "sqlite3": adviceTool, "boto3": adviceTool,
	"threading":       "use asyncio.gather over the awaitable forms (from tools.<server>.aio import <tool>), or kernel.spawn",
	"multiprocessing": "use kernel.spawn for another process, or asyncio.gather over the awaitable forms of tools",
	"concurrent":      "use asyncio.gather over the awaitable forms (from tools.<server>.aio import <tool>)",
	"glob":            "use os.listdir, or a tool that lists files",
	"shutil":          "use os and open, or a tool of a file server",
	"tempfile":        "use open with a name of your own; the workspace is private to the process",
	"pickle":          "use json",
	"argparse":        "read sys.argv yourself",
	"inspect":         "help(f) prints the signature and documentation of a tool",
}

const adviceHTTP = "use a tool, or http.fetch (from kernel import http) for a host that is allowed; --allow-host HOST allows one"

const adviceTool = "programs reach the outside through tools only: import one (from tools.<server> import <tool>); agentkernel tools list shows them"

// names is a set of native names, made once per module and then only read.
type names map[string]bool

var natives = sync.OnceValue(func() map[string]names {
	all := make(map[string]names, len(nativeNames))
	for module, list := range nativeNames {
		set := names{}
		for name := range strings.FieldsSeq(list) {
			set[name] = true
		}
		all[module] = set
	}
	return all
})

// isStdlib says whether CPython has the module itself.
func isStdlib(module string) bool {
	return slices.Contains(strings.Fields(stdlib), firstPart(module))
}

// knownModule says whether programs may import the module here: native, shimmed or both.
func knownModule(module string) bool {
	if _, ok := natives()[module]; ok {
		return true
	}
	return shims()[module] != nil
}

// hasName says whether a known module has the name, natively or from its shim.
func hasName(module, name string) bool {
	if natives()[module][name] {
		return true
	}
	if sh := shimOf(module); sh != nil && sh.exports(name) {
		return true
	}
	return knownModule(module + "." + name)
}

// moduleNames lists what a known module has, sorted.
func moduleNames(module string) []string {
	var out []string
	for n := range natives()[module] {
		out = append(out, n)
	}
	if sh := shimOf(module); sh != nil {
		out = append(out, sh.exported()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// importable lists all modules that programs may import, sorted.
func importable() []string {
	var out []string
	for m := range natives() {
		out = append(out, m)
	}
	for m := range shims() {
		if m != builtinsShim {
			out = append(out, m)
		}
	}
	out = append(out, "kernel", "kernel.aio")
	slices.Sort(out)
	return slices.Compact(out)
}
