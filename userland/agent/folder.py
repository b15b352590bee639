# Where the task has a folder, or programs share their variables, they run in the process of the task: CPython, one after another. A tool
# that is not allowed is asked about, as in any program. A program that hits a limit ends the task with it.
import ast
import contextlib
import io
import linecache
import traceback

HERE = "\n" + ("A program's working directory is the user's folder: it may read and write files there. " if setup["folder"] else "A program has no files of the user. ")
HERE += "Variables of an earlier program are there, too.\n" if setup["keeps"] else "Variables of an earlier program are gone, files stay.\n"
variables = {}  # of the programs, where they share them


def run_program(code, name):
    """Runs a program to its end: a dict with stdout, error, exit_code and result."""
    out = io.StringIO()
    end = {"stdout": "", "error": None, "exit_code": 0, "result": None}
    names = variables if setup["keeps"] else {}
    names.update({"__name__": "__main__", "__file__": name})
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    try:
        with contextlib.redirect_stdout(out):
            tree = ast.parse(code, name)
            last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, name, "exec"), names)
            value = eval(compile(last, name, "eval"), names) if last is not None else None
        end["result"] = json.loads(json.dumps(value, default=repr))
    except SystemExit as e:
        end["exit_code"] = e.code if isinstance(e.code, int) else int(e.code is not None)
    except KeyboardInterrupt:
        raise
    except BaseException as e:
        own = [f for f in traceback.extract_tb(e.__traceback__) if f.filename == name]
        where = " (line " + str(own[-1].lineno) + ": " + (own[-1].line or "") + ")" if own else ""
        end["error"], end["exit_code"] = type(e).__name__ + ": " + str(e) + where, 1
    end["stdout"] = out.getvalue()
    return end
