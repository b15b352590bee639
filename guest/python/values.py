"""Values as JSON, in both directions, as docs/values.md defines it."""
import base64
import collections
import dataclasses
import datetime
import enum
import json
import pathlib
import re
import sys
import types

MAX_DEPTH = 200
MAX_INT_BITS = (64 << 10) * 8

_dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_quote = json.encoder.encode_basestring
_SCALARS = {str, int, float, bool, type(None)}
_STR = {str}


class Text(str):
    """Text that stands for a value which JSON cannot hold."""


def encode(value):
    """The JSON text of any value. ValueError for what cannot leave the program."""
    if _plain(value, 0):
        try:
            return _checked(_dumps(value))
        except ValueError:
            pass  # NaN, or an int of thousands of digits
    out = []
    _Encoder(out.append).put(value, 0)
    return _checked("".join(out))


def _checked(text):
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("invalid_argument: a text holds half of a surrogate pair and is not UTF-8") from None
    return text


def _plain(v, depth):
    """Says whether the json module writes v without loss: most arguments are so, and it is written in C."""
    kind = type(v)
    if kind in _SCALARS:
        return True
    if depth > 50:
        return False
    if kind is list:
        if set(map(type, v)) <= _SCALARS:
            return True
        for item in v:
            if not _plain(item, depth + 1):
                return False
        return True
    if kind is dict:
        if not set(map(type, v)) <= _STR:
            return False
        for key, item in v.items():
            if key[:1] == "$" or not _plain(item, depth + 1):
                return False
        return True
    return False


class _Encoder:
    """Writes values that need care. `put` calls itself; _around holds the containers that it is inside."""

    def __init__(self, write):
        self.write = write
        self._around = set()

    def put(self, v, depth):
        if depth > MAX_DEPTH:
            raise ValueError("invalid_argument: a value is nested deeper than %d levels" % MAX_DEPTH)
        text = _simple(v)
        if text is not None:
            self.write(text)
            return
        if id(v) in self._around:
            self.write('{"$repr":"..."}')
            return
        self._around.add(id(v))
        try:
            self._compound(v, depth)
        finally:
            self._around.discard(id(v))

    def _compound(self, v, depth):
        if isinstance(v, list):
            self._items(v, depth, "", "")
        elif isinstance(v, dict):
            self._mapping(v, depth)
        elif isinstance(v, tuple):
            fields = getattr(type(v), "_fields", None)
            if isinstance(fields, tuple) and len(fields) == len(v) and all(type(f) is str for f in fields):
                self.write('{"$namedtuple":{"type":%s,"fields":%s,"values":' % (_quote(type(v).__name__), _dumps(list(fields))))
                self._items(v, depth + 1, "", "}}")
            else:
                self._items(v, depth, '{"$tuple":', "}")
        elif isinstance(v, (set, frozenset)):
            self._set(v, depth)
        elif type(v).__module__ == "numpy" and hasattr(v, "tolist"):
            self.put(v.tolist(), depth)
        else:
            self._object(v, depth)

    def _items(self, items, depth, before, after):
        self.write(before + "[")
        for i, item in enumerate(items):
            if i:
                self.write(",")
            self.put(item, depth + 1)
        self.write("]" + after)

    def _mapping(self, v, depth):
        if all(isinstance(k, str) and k[:1] != "$" for k in v):
            self.write("{")
            for i, (key, item) in enumerate(v.items()):
                self.write(("," if i else "") + _quote(str(key)) + ":")
                self.put(item, depth + 1)
            self.write("}")
            return
        self.write('{"$dict":[')
        for i, (key, item) in enumerate(v.items()):
            self.write(",[" if i else "[")
            self.put(key, depth + 3)
            self.write(",")
            self.put(item, depth + 3)
            self.write("]")
        self.write("]}")

    def _set(self, v, depth):
        texts = []
        for item in v:
            out = []
            inner = _Encoder(out.append)
            inner._around = self._around
            inner.put(item, depth + 2)
            texts.append("".join(out))
        tag = "$set" if isinstance(v, set) else "$frozenset"
        self.write('{"%s":[%s]}' % (tag, ",".join(sorted(texts))))

    def _object(self, v, depth):
        if isinstance(v, BaseException):
            arg = None
            if v.args:
                arg = v.args[0] if len(v.args) == 1 and isinstance(v.args[0], str) else str(v)
            self.write('{"$exception":{"type":%s,"arg":%s}}' % (_quote(type(v).__name__), "null" if arg is None else _quote(arg)))
            return
        fields = _fields(v)
        if fields is None:
            self.write('{"$repr":%s}' % _quote(text_of(v)))
            return
        self.write('{"$object":{"type":%s,"fields":' % _quote(type(v).__name__))
        self._mapping(fields, depth)
        self.write("}}")


def _fields(v):
    """The fields of an instance of one of the program's own classes; None for anything else."""
    if isinstance(v, (type, types.FunctionType, types.ModuleType)):
        return None
    if isinstance(v, enum.Enum):
        return {"name": v.name, "value": v.value}
    if dataclasses.is_dataclass(v):
        return {f.name: getattr(v, f.name, None) for f in dataclasses.fields(v)}
    module = type(v).__module__
    own = module == "__main__" or isinstance(module, str) and module.split(".")[0] in ("tools", "skills")
    return dict(vars(v)) if own and hasattr(v, "__dict__") else None


_address = re.compile(r" at 0x[0-9a-fA-F]+")


def text_of(v):
    """What stands for a value that JSON cannot hold. Addresses are left out: no two runs share them."""
    if isinstance(v, type):
        return "<class '%s'>" % v.__name__
    if isinstance(v, (types.FunctionType, types.MethodType)):
        return "<function %s>" % v.__name__
    try:
        return _address.sub("", repr(v)).encode("utf-8", "backslashreplace").decode("utf-8")
    except Exception as e:
        return "<%s object, whose repr raises %s>" % (type(v).__name__, type(e).__name__)


def _simple(v):
    """The text of a value without parts; None if it has some, or is of no known type."""
    if v is None:
        return "null"
    if isinstance(v, str):
        return '{"$repr":%s}' % _quote(str.__str__(v)) if type(v) is Text else _quote(str.__str__(v))
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, int):
        return _int(v)
    if isinstance(v, float):
        return _float(v)
    if isinstance(v, (bytes, bytearray)):
        return '{"$bytes":"%s"}' % base64.b64encode(v).decode()
    if isinstance(v, datetime.datetime):
        return '{"$datetime":"%s"}' % v.isoformat() if v == v else "null"  # pandas' NaT differs from itself
    if isinstance(v, datetime.date):
        return '{"$date":"%s"}' % v.isoformat()
    if isinstance(v, datetime.time):
        return '{"$time":"%s"}' % v.isoformat()
    if isinstance(v, datetime.timedelta):
        return '{"$timedelta":[%d,%d,%d]}' % (v.days, v.seconds, v.microseconds)
    if isinstance(v, datetime.timezone):
        args = v.__getinitargs__()
        name = _quote(args[1]) if len(args) > 1 else "null"
        return '{"$timezone":[%d,%s]}' % (args[0].total_seconds(), name)
    if isinstance(v, pathlib.PurePath):
        return '{"$path":%s}' % _quote(str(v))
    return None


def _int(v):
    v = int(v)
    if v.bit_length() > MAX_INT_BITS:
        raise ValueError("invalid_argument: an int is larger than %d bytes" % (MAX_INT_BITS // 8))
    return _without_limit(lambda: int.__repr__(v))


def _float(v):
    if v != v:
        return '{"$float":"nan"}'
    if v in (float("inf"), float("-inf")):
        return '{"$float":"%s"}' % ("inf" if v > 0 else "-inf")
    return float.__repr__(float(v))


def _without_limit(convert):
    """Converts between int and text whatever the program's own limit of digits is (Python 3.10.7 and later)."""
    if not hasattr(sys, "set_int_max_str_digits"):
        return convert()
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return convert()
    finally:
        sys.set_int_max_str_digits(limit)


# reading


def decode(text):
    """The value of a JSON text that the kernel sent."""
    loads = json.loads if '"$' not in text else _loads
    try:
        return loads(text)
    except ValueError:  # an int of thousands of digits
        return _without_limit(lambda: loads(text))


def _loads(text):
    return json.loads(text, object_hook=_hook)


def _hook(d):
    if len(d) != 1:
        return d
    (tag, content), = d.items()
    read = _readers.get(tag)
    if read is None:
        return d
    try:
        return read(content)
    except (TypeError, ValueError, KeyError, AttributeError):
        return d  # it only looks like one of ours


def _iso(kind):
    def read(text):
        if text[-1:] == "Z":
            text = text[:-1] + "+00:00"
        return kind.fromisoformat(text)
    return read


def _timezone(content):
    offset, name = content
    offset = datetime.timedelta(seconds=offset)
    return datetime.timezone(offset) if name is None else datetime.timezone(offset, name)


_named = {}


def _namedtuple(content):
    key = content["type"], tuple(content["fields"])
    kind = _named.get(key)
    if kind is None:
        try:
            kind = collections.namedtuple(*key, module="__main__")
        except ValueError:  # names that Python does not allow
            return tuple(content["values"])
        _named[key] = kind
    return kind(*content["values"])


def _exception(content):
    from _agentkernel import errors
    kind = errors.find(content["type"]) or RuntimeError
    return kind() if content["arg"] is None else kind(content["arg"])


_readers = {
    "$float": float,
    "$bytes": base64.b64decode,
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$dict": lambda pairs: {k: v for k, v in pairs},
    "$date": _iso(datetime.date),
    "$time": _iso(datetime.time),
    "$datetime": _iso(datetime.datetime),
    "$timedelta": lambda v: datetime.timedelta(*v),
    "$timezone": _timezone,
    "$path": pathlib.Path,
    "$namedtuple": _namedtuple,
    "$exception": _exception,
    "$object": lambda v: v["fields"],
    "$repr": str,
}
