"""Builtins that the engine lacks, or has only in part. The front end names them where a program uses
them in a way that the engine does not know."""
from engine import bytes as _bytes, print as _print, round as _round, sum as _sum
from json import loads as _json_loads
from kernel.http import fetch as _http_fetch
from kernel.aio.http import fetch as _http_fetch_later
from kernel.llm import stream as _stream_open
from kernel.aio.llm import stream as _stream_open_later
from kernel.stream import next as _stream_next, close as _stream_close
from kernel.aio.stream import next as _stream_next_later
from program import functions as _functions


def print(*values, sep=' ', end='\n', file=None, flush=False):
    if sep is None:
        sep = ' '
    if end is None:
        end = '\n'
    if file is None:
        _print(*values, sep=sep, end=end)
    else:
        file.write(sep.join([str(v) for v in values]) + end)


def sum(iterable, start=0):
    items = iterable if type(iterable) is list else list(iterable)
    try:
        return _sum(items, start)
    except TypeError:
        return _sum([int(x) if x is True or x is False else x for x in items], int(start) if start is True else start)


def round(number, ndigits=None):
    if ndigits is None or type(number) is not float or ndigits < 0 or number != number or abs(number) > 1e16:
        return _round(number, ndigits)
    return float(('{:.' + str(ndigits) + 'f}').format(number))


def format(value, spec=''):
    return ('{:' + spec + '}').format(value)


def callable(value):
    kind = type(value).__name__
    return kind in ('function', 'builtin_function_or_method', 'type', 'method', 'builtin_function')


def ascii(value):
    out = ''
    for c in repr(value):
        n = ord(c)
        if n < 128:
            out += c
        elif n < 256:
            out += '\\x' + '{:02x}'.format(n)
        elif n < 65536:
            out += '\\u' + '{:04x}'.format(n)
        else:
            out += '\\U' + '{:08x}'.format(n)
    return out


def bytes(source=b'', encoding=None, errors='strict'):
    kind = type(source)
    if encoding is not None:
        return source.encode(encoding, errors)
    if kind is int or kind is _bytes:
        return _bytes(source)
    if kind is str:
        raise TypeError('string argument without an encoding')
    out = ''
    for n in source:
        if n < 0 or n > 255:
            raise ValueError('bytes must be in range(0, 256)')
        out += '{:02x}'.format(n)
    return _bytes.fromhex(out)


def help(value=None):
    for function, text in _functions:
        if function is value:
            _print(text)
            return
    _print('help: only imported tools have documentation here')


class _never:
    """Stands for types that no value has here: isinstance(x, bytearray) is False."""


def _message(*args):
    if len(args) != 1:
        return str(args) if args else ''
    return args[0] if type(args[0]) is str else str(args[0])


def _awaitable(function):
    def call(*args, **kwargs):
        async def later():
            return function(*args, **kwargs)
        return later()
    return call


def _later(function):
    def call(*args, **kwargs):
        future = function(*args, **kwargs)

        async def result():
            answer = await future
            if type(answer) is tuple:
                return answer[0]
            raise answer
        return result()
    return call


def _response_class():
    class Response:
        def __init__(self, answer):
            self.status = answer['status']
            self.url = answer['url']
            self.headers = answer['headers']
            self.text = answer.get('text')
            self._body = answer.get('body')

        def bytes(self):
            return self._body if self._body is not None else self.text.encode()

        def json(self):
            if self.text is None:
                raise ValueError('the body is not text')
            return _json_loads(self.text)

        def __repr__(self):
            return '<Response ' + str(self.status) + '>'
    return Response


_response = _response_class()


def _fetch(*args, **kwargs):
    return _response(_http_fetch(*args, **kwargs))


def _fetch_later(*args, **kwargs):
    future = _http_fetch_later(*args, **kwargs)

    async def result():
        return _response(await future)
    return result()


def _stream_class():
    class Stream:
        def __init__(self, handle):
            self.handle = handle
            self._open = True

        def next(self):
            items = []
            if self._open:
                try:
                    items = _stream_next(self.handle)
                except BaseException:
                    self.close()
                    raise
                if not items:
                    self._open = False
            return items

        def close(self):
            if self._open:
                self._open = False
                _stream_close(self.handle)

        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            self.close()

        def __iter__(self):
            raise NotImplementedError('a loop over a stream is not available on the monty backend; `while pieces := stream.next():` is')

        def __next__(self):
            raise NotImplementedError('a loop over a stream is not available on the monty backend; `while pieces := stream.next():` is')
    return Stream


_stream = _stream_class()


def _stream_now(*args, **kwargs):
    return _stream(_stream_open(*args, **kwargs))


def _async_stream_class():
    class AsyncStream:
        def __init__(self, handle):
            self.handle = handle
            self._open = True

        async def next(self):
            items = []
            if self._open:
                try:
                    items = await _stream_next_later(self.handle)
                except BaseException:
                    self.close()
                    raise
                if not items:
                    self._open = False
            return items

        def close(self):
            if self._open:
                self._open = False
                _stream_close(self.handle)
    return AsyncStream


_async_stream = _async_stream_class()


def _stream_later(*args, **kwargs):
    future = _stream_open_later(*args, **kwargs)

    async def result():
        return _async_stream(await future)
    return result()


def _setslice(target, start, stop, items):
    size = len(target)
    start = 0 if start is None else max(start + size, 0) if start < 0 else min(start, size)
    stop = size if stop is None else max(stop + size, 0) if stop < 0 else min(stop, size)
    tail = target[max(start, stop):]
    items = list(items)
    while len(target) > start:
        target.pop()
    target.extend(items)
    target.extend(tail)


def _percent(template, args):
    out = ''
    single = type(args) is not tuple
    mapping = args if single and type(args) is dict else None
    items = [args] if single else list(args)
    at = 0
    i = 0
    end = len(template)
    while i < end:
        j = template.find('%', i)
        if j < 0:
            out += template[i:]
            break
        out += template[i:j]
        i = j + 1
        if i < end and template[i] == '%':
            out += '%'
            i += 1
            continue
        key = None
        if i < end and template[i] == '(':
            close = template.find(')', i)
            if close < 0:
                raise ValueError('incomplete format key')
            key = template[i + 1:close]
            i = close + 1
            if mapping is None:
                raise TypeError('format requires a mapping')
        flags = ''
        while i < end and template[i] in '#0- +':
            flags += template[i]
            i += 1
        width = ''
        if i < end and template[i] == '*':
            width = str(items[at])
            at += 1
            i += 1
            if width[0] == '-':
                flags += '-'
                width = width[1:]
        while i < end and template[i] in '0123456789':
            width += template[i]
            i += 1
        precision = None
        if i < end and template[i] == '.':
            i += 1
            precision = ''
            if i < end and template[i] == '*':
                precision = str(items[at])
                at += 1
                i += 1
            while i < end and template[i] in '0123456789':
                precision += template[i]
                i += 1
            if precision == '':
                precision = '0'
        while i < end and template[i] in 'hlL':
            i += 1
        if i >= end:
            raise ValueError('incomplete format')
        kind = template[i]
        i += 1
        if key is not None:
            value = mapping[key]
        else:
            if at >= len(items):
                raise TypeError('not enough arguments for format string')
            value = items[at]
            at += 1
        out += _convert(kind, value, flags, width, precision, i - 1)
    if at < len(items) and mapping is None and not (single and at > 0):
        raise TypeError('not all arguments converted during string formatting')
    return out


def _convert(kind, value, flags, width, precision, index):
    left = '-' in flags
    if kind in 'sra':
        text = str(value) if kind == 's' else repr(value) if kind == 'r' else ascii(value)
        if precision is not None:
            text = text[:int(precision)]
        size = int(width) if width else 0
        return text.ljust(size) if left else text.rjust(size)
    if kind == 'c':
        text = value if type(value) is str else chr(value)
        size = int(width) if width else 0
        return text.ljust(size) if left else text.rjust(size)
    if kind not in 'diuxXoeEfFgG':
        raise ValueError("unsupported format character '" + kind + "' (0x" + '{:x}'.format(ord(kind)) + ') at index ' + str(index))
    name = type(value).__name__
    if name not in ('int', 'float', 'bool'):
        if kind in 'diu':
            raise TypeError('%' + kind + ' format: a real number is required, not ' + name)
        if kind in 'xXo':
            raise TypeError('%' + kind + ' format: an integer is required, not ' + name)
        raise TypeError('must be real number, not ' + name)
    spec = ''
    if left:
        spec = '<'
    if '+' in flags:
        spec += '+'
    elif ' ' in flags:
        spec += ' '
    if '#' in flags:
        spec += '#'
    if '0' in flags and not left:
        spec += '0'
    elif not left:
        spec = '>' + spec
    spec += width
    if kind in 'diu':
        digits = '{:d}'.format(int(value))
        if precision is not None:
            sign = '-' if digits[0] == '-' else ''
            digits = sign + digits.lstrip('-').zfill(int(precision))
            size = int(width) if width else 0
            return digits.ljust(size) if left else digits.rjust(size)
        return ('{:' + spec + 'd}').format(int(value))
    if kind in 'xXo':
        if name == 'float':
            raise TypeError('%' + kind + ' format: an integer is required, not float')
        return ('{:' + spec + kind + '}').format(int(value))
    return ('{:' + spec + '.' + ('6' if precision is None else precision) + kind + '}').format(float(value))
