"""StringIO and BytesIO."""

SEEK_SET = 0
SEEK_CUR = 1
SEEK_END = 2


class StringIO:
    def __init__(self, initial_value='', newline='\n'):
        self._parts = [initial_value] if initial_value else []
        self._pos = 0
        self.closed = False

    def _whole(self):
        if len(self._parts) > 1:
            self._parts = [''.join(self._parts)]
        return self._parts[0] if self._parts else ''

    def _check(self):
        if self.closed:
            raise ValueError('I/O operation on closed file')

    def getvalue(self):
        self._check()
        return self._whole()

    def write(self, s):
        self._check()
        if type(s) is not str:
            raise TypeError("string argument expected, got '" + type(s).__name__ + "'")
        if self._pos < 0:
            self._parts.append(s)
            return len(s)
        text = self._whole()
        at = self._pos
        if at == len(text):
            self._parts.append(s)
            self._pos = -1
            return len(s)
        if at > len(text):
            text += '\0' * (at - len(text))
        self._parts = [text[:at] + s + text[at + len(s):]]
        self._pos = at + len(s)
        return len(s)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def tell(self):
        self._check()
        return len(self._whole()) if self._pos < 0 else self._pos

    def seek(self, pos, whence=0):
        self._check()
        if whence == 2:
            pos = len(self._whole())
        elif whence == 1:
            pos = self.tell()
        elif pos < 0:
            raise ValueError('Negative seek position ' + str(pos))
        self._pos = pos
        return pos

    def read(self, size=-1):
        text = self._whole()
        at = self.tell()
        out = text[at:] if size is None or size < 0 else text[at:at + size]
        self._pos = at + len(out)
        return out

    def readline(self, size=-1):
        text = self._whole()
        at = self.tell()
        end = text.find('\n', at) + 1
        if end <= 0:
            end = len(text)
        if size is not None and 0 <= size < end - at:
            end = at + size
        self._pos = max(at, end)
        return text[at:end]

    def readlines(self, hint=-1):
        lines = self.read().split('\n')
        out = [line + '\n' for line in lines[:-1]]
        if lines[-1]:
            out.append(lines[-1])
        return out

    def __iter__(self):
        return self

    def __next__(self):
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def truncate(self, size=None):
        if size is None:
            size = self.tell()
        at = self.tell()
        self._parts = [self._whole()[:size]]
        self._pos = at
        return size

    def flush(self):
        self._check()

    def readable(self):
        return True

    def writable(self):
        return True

    def seekable(self):
        return True

    def isatty(self):
        return False

    def close(self):
        self.closed = True

    def __enter__(self):
        self._check()
        return self

    def __exit__(self, *error):
        self.close()


class BytesIO:
    def __init__(self, initial_bytes=b''):
        self._data = initial_bytes
        self._pos = 0
        self.closed = False

    def getvalue(self):
        return self._data

    def write(self, b):
        at = self._pos
        data = self._data
        if at > len(data):
            data += b'\0' * (at - len(data))
        self._data = data[:at] + b + data[at + len(b):]
        self._pos = at + len(b)
        return len(b)

    def tell(self):
        return self._pos

    def seek(self, pos, whence=0):
        if whence == 1:
            pos += self._pos
        elif whence == 2:
            pos += len(self._data)
        if pos < 0:
            raise ValueError('negative seek value ' + str(pos))
        self._pos = pos
        return pos

    def read(self, size=-1):
        out = self._data[self._pos:] if size is None or size < 0 else self._data[self._pos:self._pos + size]
        self._pos += len(out)
        return out

    def readline(self, size=-1):
        end = self._data.find(b'\n', self._pos) + 1
        if end <= 0:
            end = len(self._data)
        out = self._data[self._pos:end]
        self._pos += len(out)
        return out

    def __iter__(self):
        return self

    def __next__(self):
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def flush(self):
        pass

    def close(self):
        self.closed = True

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
