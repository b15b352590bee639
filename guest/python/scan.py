"""The static pass over a program: does it compile, and what does it import."""
import ast
import binascii
import importlib.util
import marshal
import sys
import warnings

from _agentkernel import trace

FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # await may stand outside of functions, as on every backend


def file_of(module):
    """The file name of a module that travels with the program."""
    return module.replace(".", "/") + ".py"


def parse(name, source, top):
    """The tree of a source. A module that is imported may not await at its top."""
    return compile(source, name, "exec", ast.PyCF_ONLY_AST | (FLAGS if top else 0), dont_inherit=True)


def compiled(name, source):
    """The code of a program, and that of its last statement if it is an expression: its value is the result."""
    tree = parse(name, source, True)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = compile(ast.Expression(tree.body.pop().value), name, "eval", FLAGS, dont_inherit=True)
    return compile(tree, name, "exec", FLAGS, dont_inherit=True), last


MOST_CODE = 256 << 10  # of what is kept for a program's next run


def coded(name, source):
    """What `compiled` gives as text, for the same interpreter; "" if it is not to be kept."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        code = compiled(name, source)
    if said:
        return ""  # each run of the program says it again
    text = marshal.dumps(code)
    return binascii.b2a_base64(text, newline=False).decode() if len(text) <= MOST_CODE else ""


def check(program):
    """What the program needs: {"tools": [...], "skills": [...], "imports": [...], "compiled": ...}; or, if it does not
    compile, {"error": ...} with the traceback; or, if a module is not installed, {"missing": ...}."""
    pass_ = _Pass(program.get("modules") or {})
    try:
        pass_.file(program["name"], program["source"], True)
        code = coded(program["name"], program["source"])
        while pass_.queue:
            module = pass_.queue.pop(0)
            pass_.file(file_of(module), pass_.modules[module], False)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        return {"error": {"exception": type(e).__name__, "message": trace.last_line(e),
                          "traceback": trace.text(e) if isinstance(e, SyntaxError) else ""}}
    return {"tools": pass_.tools, "skills": pass_.skills, "imports": sorted(pass_.imports), "missing": pass_.missing,
            "compiled": code}


class _Pass:
    def __init__(self, modules):
        self.modules = modules
        self.seen = set()
        self.queue = []
        self.tools, self.skills, self.imports, self.missing = [], [], set(), []

    def file(self, name, source, top):
        tree = parse(name, source, top)
        if not top:  # the program itself is compiled by `coded`
            compile(tree, name, "exec", 0, dont_inherit=True)
        self.own_path = "sys.path" in source
        self.name = name
        self.body(tree.body, True)

    def body(self, nodes, plain):
        """plain: these statements run whatever happens, and nobody catches an ImportError."""
        stack = [(n, plain) for n in reversed(nodes)]
        while stack:
            node, plain = stack.pop()
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.module(alias.name, None, node.lineno, plain)
            elif isinstance(node, ast.ImportFrom):
                if node.level == 0 and node.module:
                    self.module(node.module, [a.name for a in node.names], node.lineno, plain)
            elif isinstance(node, ast.If) and _never(node.test):
                stack += [(n, plain) for n in reversed(node.orelse)]
            else:
                inner = plain and isinstance(node, (ast.Expr, ast.Assign, ast.With))
                stack += [(n, inner) for n in reversed(list(ast.iter_child_nodes(node)))]

    def module(self, name, members, line, plain):
        parts = name.split(".")
        root = parts[0]
        if root == "tools":
            self.tool(parts[1:], members, line)
        elif root == "skills":
            self.skill(parts[1:], members)
        elif root != "kernel":
            self.imports.add(root)
            if plain and not self.own_path and root not in self.modules and not _installed(root):
                self.missing.append({"file": self.name, "line": line, "module": root})

    def tool(self, parts, members, line):
        if not parts:  # from tools import fs; `import tools` alone names no server
            for server in members or ():
                self.need(server, "*", line)
            return
        server = parts[0]
        if len(parts) > 1 and parts[1] != "aio":  # import tools.report.monthly, or from it
            self.reach("tools." + ".".join(parts[:2]))
            return
        for member in members or ("*",):
            if member == "aio" and len(parts) == 1:
                self.need(server, "*", line)
            elif not self.reach("tools.%s.%s" % (server, member)):
                self.need(server, member, line)

    def need(self, server, name, line):
        prefix = "tools.%s." % server
        local = [m for m in self.modules if m.startswith(prefix)]
        for m in sorted(local):
            self.reach(m)
        if name == "*" and local:
            return
        if not any(t["server"] == server and t["name"] == name for t in self.tools):
            self.tools.append({"server": server, "name": name, "line": line})

    def skill(self, parts, members):
        for name in ([".".join(parts)] if parts else members or ()):
            if name != "*" and not self.reach("skills." + name) and name not in self.skills:
                self.skills.append(name)

    def reach(self, module):
        """Notes a module that travels with the program; says whether there is one of this name."""
        if module not in self.modules:
            return False
        if module not in self.seen:
            self.seen.add(module)
            self.queue.append(module)
        return True


def _never(test):
    """Says whether a condition is one that is false when the program runs."""
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING" or isinstance(test, ast.Constant) and not test.value


def _installed(root):
    if root in sys.modules or root in sys.builtin_module_names:
        return True
    try:
        return importlib.util.find_spec(root) is not None
    except (ImportError, ValueError, AttributeError):
        return True  # it is odd: let the program find out
