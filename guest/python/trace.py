"""Tracebacks that show the user's files and lines, and no frame of this library."""
import linecache
import traceback

MARK = "<agentkernel>/"


def register(file, source):
    """Makes the source known under its file name, for tracebacks and inspect."""
    text = source if source.endswith("\n") else source + "\n"  # CPython puts carets of a line without an end a column off
    linecache.cache[file] = (len(source), None, text.splitlines(True), file)


def clean(tb):
    """The traceback without frames of this library."""
    while tb is not None and _ours(tb):
        tb = tb.tb_next
    at = tb
    while at is not None:
        following = at.tb_next
        while following is not None and _ours(following):
            following = following.tb_next
        if following is not at.tb_next:
            at.tb_next = following
        at = at.tb_next
    return tb


def _ours(tb):
    return tb.tb_frame.f_code.co_filename.startswith(MARK)


def install():
    """Has the program's own traceback.print_exc and logging.exception leave our frames out, too."""
    real = traceback.TracebackException.__init__

    def init(self, exc_type, exc_value, exc_traceback, *args, **kwargs):
        return real(self, exc_type, exc_value, clean(exc_traceback), *args, **kwargs)
    traceback.TracebackException.__init__ = init


def forking(error):
    """Whether an error came where a process was to be made."""
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    if tb is None:
        return False
    code = tb.tb_frame.f_code
    return code.co_name in ("_execute_child", "_launch") or "fork" in linecache.getline(code.co_filename, tb.tb_lineno)


MOST = 64 << 10


def text(error):
    """The whole traceback of an error, as CPython prints it."""
    shown = "".join(traceback.TracebackException(type(error), error, error.__traceback__).format())
    if len(shown) > MOST:
        shown = shown[:MOST // 2] + "\n  [...]\n" + shown[-MOST // 2:]
    return shown


def last_line(error):
    """"Type: message", as the last line of a traceback has it."""
    kind = type(error).__qualname__
    if type(error).__module__ not in ("__main__", "builtins"):
        kind = type(error).__module__ + "." + kind
    try:
        message = str(error)
    except Exception:
        message = "<exception str() failed>"
    return kind + ": " + message if message else kind


def stack(frame):
    """Where a program is, as a traceback."""
    lines = ["Traceback (most recent call last):\n"]
    frames = [s for s in traceback.extract_stack(frame) if not s.filename.startswith(MARK) and s.filename != "<string>"]
    return "".join(lines + traceback.StackSummary.from_list(frames).format())
