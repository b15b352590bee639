"""A session: a program that does not end after its last statement. It keeps its variables and asks the kernel for more,
piece by piece, until the kernel has none."""
import resource
import sys

from _agentkernel import exact, modules, output, program, scan, trace, values, wire

MOST = wire.MAX_FRAME - 4096  # bytes of a result in one message


def run(channel, request, names):
    """Runs the pieces of a session, of which the program that it was started with is the first."""
    piece, last = request, "null"
    known = request.get("modules") or {}
    seeded, left = False, None
    while True:
        if not seeded and "numpy.random" in sys.modules:
            seeded = exact.begin(_imports(piece))
        limit = resource.getrlimit(resource.RLIMIT_DATA)
        try:
            names["__file__"] = piece["name"]
            result = program.execute(*_compiled(piece), names)
            last = _result_text(result)
            del result  # what a piece gave last is not kept alive
            said = '"result":' + last
        except SystemExit as e:
            left = e
            break
        except BaseException as e:
            last, said = "null", '"failure":' + values.encode(program.failure(e))
            resource.setrlimit(resource.RLIMIT_DATA, limit)
        output.flush()
        answer = channel.next_piece(said)
        if answer.get("end"):
            break
        piece = answer["piece"]
        known = {**known, **(piece.get("modules") or {})}
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


def _compiled(piece):
    """The code of a piece. One that does not compile was refused before it came here, unless it needs too much for that."""
    trace.register(piece["name"], piece["source"])
    return scan.compiled(piece["name"], piece["source"])


def _imports(piece):
    """The roots of what a piece imports."""
    found = scan.check({"name": piece["name"], "source": piece["source"], "modules": piece.get("modules")})
    return found.get("imports") or ()


def _result_text(value):
    text = program.result_text(value)
    if len(text.encode()) > MOST:
        return program.result_text(values.Text("<no result: %d bytes are more than one message to the kernel may have>" % len(text)))
    return text
