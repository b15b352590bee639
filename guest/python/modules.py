"""What a program can import beyond the standard library: kernel, tools, skills, and modules that travel with it."""
import importlib.machinery
import importlib.util
import sys
import types

from _agentkernel import calls, scan, trace


class _Package(types.ModuleType):
    """A package that stands for no file: tools, skills, tools.<server>. Local tools are found when they are asked for."""

    def __init__(self, name, finder, doc=None):
        super().__init__(name, doc)
        self.__path__ = []
        self.__package__ = name
        self.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        self.__dict__["__finder__"] = finder  # no tool has a name with two underscores in front

    def __getattr__(self, name):
        if name[:2] == "__":
            raise AttributeError("module %r has no attribute %r" % (self.__name__, name))
        return self.__dict__["__finder__"].member(self, name)

    def __dir__(self):
        prefix = self.__name__ + "."
        local = {m[len(prefix):].split(".")[0] for m in self.__dict__["__finder__"].modules if m.startswith(prefix)}
        return sorted(local | {n for n in self.__dict__ if n[:1] != "_"})


class Finder:
    """Finds the program's own modules (sys.meta_path)."""

    def __init__(self):
        self.modules = {}

    def find_spec(self, name, path=None, target=None):
        if name in self.modules:
            return importlib.machinery.ModuleSpec(name, self, origin=scan.file_of(name), is_package=self._below(name))
        root = name.partition(".")[0]
        if root not in ("tools", "skills"):
            return None
        if self._below(name) or name in ("tools", "skills") or name.endswith(".aio") and self._below(name[:-4]):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        raise ModuleNotFoundError(self._unknown(name), name=name)

    def _unknown(self, name):
        near = self._near(name)
        if near:
            return "No module named %r: did you mean %s?" % (name, near)
        if name.startswith("tools.") and name.count(".") == 1:
            return "no tool server %r: a program imports its tools by name, from tools.%s import <tool>" % (name[6:], name[6:])
        return "No module named %r" % name

    def _near(self, name):
        """The module of the program that a misspelt one may mean."""
        import difflib
        depth = name.count(".") + 1
        there = {".".join(m.split(".")[:depth]) for m in self.modules if m.count(".") >= depth - 1}
        parent, _, word = name.rpartition(".")
        beside = {m.rpartition(".")[2] for m in there if m.rpartition(".")[0] == parent}
        near = difflib.get_close_matches(word, sorted(beside), 1)
        return parent + "." + near[0] if near else ""

    def _below(self, name):
        prefix = name + "."
        return any(m.startswith(prefix) for m in self.modules)

    def create_module(self, spec):
        if spec.name in self.modules:
            return None
        return _Package(spec.name, self)

    def exec_module(self, module):
        source = self.modules.get(module.__name__)
        if source is None:
            return
        module.__file__ = file = scan.file_of(module.__name__)
        trace.register(file, source)
        exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)

    def member(self, package, name):
        """An attribute of a package that is not there yet: a local tool or a module."""
        base, aio = package.__name__, False
        if base.endswith(".aio"):
            base, aio = base[:-4], True
        full = base + "." + name
        if full in self.modules or self._below(full) or name == "aio" and base.startswith("tools."):
            module = importlib.import_module(full)
            value = getattr(module, name, None) if base.startswith("tools.") and full in self.modules else None
            if value is None:
                return module
            value = _later(value) if aio else value
            setattr(package, name, value)
            return value
        raise AttributeError("module %r has no attribute %r" % (package.__name__, name))


def _later(function):
    """The awaitable form of a local tool."""
    def call(*args, **kwargs):
        async def later():
            return function(*args, **kwargs)
        return later()
    call.__name__ = call.__qualname__ = getattr(function, "__name__", "call")
    call.__doc__ = getattr(function, "__doc__", None)
    return call


_finder = Finder()


def prepare():
    """Makes `kernel` and an empty `tools` importable, in the zygote."""
    kernel = calls.kernel_module()
    sys.modules["kernel"], sys.modules["kernel.aio"] = kernel, kernel.aio
    sys.modules["tools"] = _Package("tools", _finder, "The tools that this program imports.")
    sys.meta_path.insert(0, _finder)


def install(tools, modules):
    """Makes a program's own imports work. tools are those that the kernel bound for it."""
    _finder.modules = modules
    root = sys.modules["tools"]
    for tool in tools:
        server = tool["python_server"]
        name = "tools." + server
        package = sys.modules.get(name)
        if package is None:
            package = sys.modules[name] = _Package(name, _finder)
            aio = sys.modules[name + ".aio"] = _Package(name + ".aio", _finder)
            setattr(root, server, package)
            package.aio = aio
        setattr(package, tool["python_name"], calls.tool_function(tool, False))
        setattr(package.aio, tool["python_name"], calls.tool_function(tool, True))
