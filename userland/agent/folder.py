# Where the task has a folder, or programs share their variables, they run in the process of the task: CPython, one after another. A tool
# that is not allowed is asked about, as in any program. A program that hits a limit ends the task with it.
import ast
import contextlib
import io
import linecache
import os
import stat
import traceback

HERE = "\n" + ("A program's working directory is the user's folder: it may read and write files there. " if setup["folder"] else "A program has no files of the user. ")
HERE += "Variables of an earlier program are there, too.\n" if setup["keeps"] else "Variables of an earlier program are gone, files stay.\n"
variables = {}  # of the programs, where they share them
FOLDER = os.getcwd()


def run_program(code, number):
    """Runs a program to its end: a dict with stdout, error, exit_code and result."""
    name, out = "program-" + str(number) + ".py", io.StringIO()
    end = {"stdout": "", "error": None, "exit_code": 0, "result": None}
    names = variables if setup["keeps"] else {}
    tell_program(code, number)
    names.update({"__name__": "__main__", "__file__": name})
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    try:
        with contextlib.redirect_stdout(out):
            tree = ast.parse(code, name)
            last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, name, "exec"), names)
            value = eval(compile(last, name, "eval"), names) if last is not None else None
        end["result"] = as_shown(value)
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


def read_file(name):
    """A file of the folder: [its bytes, MOST + 1 at most, None], or [None, why it is not shown]. No link is followed on the way to it, so
    that it is in the folder, whatever programs make of names meanwhile."""
    name = os.path.normpath(name.removeprefix(FOLDER + "/"))
    at = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in name.split("/"):
            if part in ["", ".", ".."]:
                return [None, "it is not in the folder"]
            inside = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
            os.close(at)
            at = inside
        if not stat.S_ISREG(os.fstat(at).st_mode):
            return [None, "it is no file"]
        with os.fdopen(at, "rb", closefd=False) as f:
            return [f.read(MOST + 1), None]
    except (OSError, ValueError) as e:
        return [None, "it cannot be read, and links are not followed: " + str(e)]
    finally:
        os.close(at)
