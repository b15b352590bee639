"""A session: a program that does not end after its last statement. It keeps its variables and asks the kernel for more,
cell by cell, until the kernel has none."""
import resource
import sys

from _agentkernel import exact, modules, output, program, scan, trace, values, wire

MOST = wire.MAX_FRAME - 4096  # bytes of a result in one message


def run(channel, request, names):
    """Runs the cells of a session, of which the program that it was started with is the first."""
    cell, last = request, "null"
    known = request.get("modules") or {}
    seeded, left = False, None
    while True:
        if not seeded and "numpy.random" in sys.modules:
            seeded = exact.begin(_imports(cell))
        limit = resource.getrlimit(resource.RLIMIT_DATA)
        try:
            names["__file__"] = cell["name"]
            result = program.execute(*_compiled(cell), names)
            last = _result_text(result)
            del result  # what a cell gave last is not kept alive
            said = '"result":' + last
        except SystemExit as e:
            left = e
            break
        except BaseException as e:
            last, said = "null", '"failure":' + values.encode(program.failure(e))
            resource.setrlimit(resource.RLIMIT_DATA, limit)
        output.flush()
        answer = channel.next_cell(said)
        if answer.get("end"):
            break
        cell = answer["piece"]
        known = {**known, **(cell.get("modules") or {})}
        modules.install(answer.get("tools") or (), known)
    try:
        program.finish()
    except BaseException as e:
        end = program.failure(e)
        output.flush()
        channel.send_json(values.encode(end))
        return
    if left is not None:
        program.leave(channel, left)
        return
    output.flush()
    channel.send_json('{"type":"exit","code":0,"result":%s}' % last)


def _compiled(cell):
    """The code of a cell. One that does not compile was refused before it came here, unless it needs too much for that."""
    trace.register(cell["name"], cell["source"])
    return scan.compiled(cell["name"], cell["source"])


def _imports(cell):
    """The roots of what a cell imports."""
    found = scan.check({"name": cell["name"], "source": cell["source"], "modules": cell.get("modules")})
    return found.get("imports") or ()


def _result_text(value):
    text = program.result_text(value)
    if len(text.encode()) > MOST:
        return program.result_text(values.Text("<no result: %d bytes are more than one message to the kernel may have>" % len(text)))
    return text
