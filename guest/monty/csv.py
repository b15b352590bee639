"""csv over lists of lines, texts of io.StringIO and anything that iterates over lines. The host parses
and writes; a reader reads all of its input when it is made."""
from json import loads as _loads
from intrinsic import csv_dicts as _csv_dicts, csv_rows as _csv_rows, csv_text as _csv_text

QUOTE_MINIMAL = 0
QUOTE_ALL = 1
QUOTE_NONNUMERIC = 2
QUOTE_NONE = 3
Error = ValueError
_known = ('delimiter', 'quotechar', 'escapechar', 'doublequote', 'skipinitialspace', 'strict', 'quoting', 'lineterminator')
_registered = {
    'excel': {},
    'excel-tab': {'delimiter': '\t'},
    'unix': {'quoting': 1, 'lineterminator': '\n'},
}
excel = 'excel'
excel_tab = 'excel-tab'
unix_dialect = 'unix'


def _options(dialect, given):
    out = {'delimiter': ',', 'quotechar': '"', 'escapechar': None, 'doublequote': True, 'skipinitialspace': False,
           'strict': False, 'quoting': 0, 'lineterminator': '\r\n'}
    if type(dialect) is str:
        if dialect not in _registered:
            raise ValueError('unknown dialect')
        out.update(_registered[dialect])
    elif dialect is not None:
        for k in _known:
            if hasattr(dialect, k):
                out[k] = getattr(dialect, k)
    for k, v in given.items():
        if k not in _known:
            raise TypeError("'" + k + "' is an invalid keyword argument for this function")
        out[k] = v
    return [out[k] for k in _known]


def register_dialect(name, dialect=None, **given):
    _registered[name] = given


def list_dialects():
    return list(_registered)


def _text(source):
    if type(source) is str:
        return '\n'.join(source)
    if hasattr(source, 'getvalue'):
        return source.read()
    if type(source) is list:
        text = '\n'.join(source)
        if text.count('\n') == len(source) - 1:
            return text
    out = []
    for line in source:
        if type(line) is not str:
            raise ValueError('iterator should return strings, not ' + type(line).__name__ + ' (the file should be opened in text mode)')
        out.append(line if line.endswith('\n') or line.endswith('\r') else line + '\n')
    return ''.join(out)


def _parsed(source, options):
    out = _csv_rows(source, *options)
    if type(out) is list:
        return out
    if '\x81' in out:
        return [[] if row == '\x81' else row.split('\x7f') for row in out.split('\x80')]
    return [row.split('\x7f') for row in out.split('\x80')]


class _Reader:
    def __init__(self, rows):
        self._rows = rows
        self.line_num = 0

    def __iter__(self):
        return self

    def __next__(self):
        i = self.line_num
        if i >= len(self._rows):
            raise StopIteration
        self.line_num = i + 1
        return self._rows[i]


def reader(csvfile, dialect='excel', **given):
    return iter(_parsed(_text(csvfile), _options(dialect, given)))


def _counting_reader(csvfile, dialect='excel', **given):
    return _Reader(_parsed(_text(csvfile), _options(dialect, given)))


def _dicts(rows, names, restkey, restval):
    size = len(names)
    out = []
    for row in rows:
        n = len(row)
        if n == size:
            out.append(dict(zip(names, row)))
        elif n:
            d = dict(zip(names, row))
            if n > size:
                d[restkey] = row[size:]
            else:
                for name in names[n:]:
                    d[name] = restval
            out.append(d)
    return out


def DictReader(f, fieldnames=None, restkey=None, restval=None, dialect='excel', **given):
    text = _text(f)
    options = _options(dialect, given)
    names = None if fieldnames is None else list(fieldnames)
    found = _csv_dicts(text, names, *options)
    if found is not None:
        return iter(_loads(found))
    rows = _parsed(text, options)
    if fieldnames is None:
        if not rows:
            return iter(rows)
        fieldnames = rows[0]
        rows = rows[1:]
    return iter(_dicts(rows, list(fieldnames), restkey, restval))


class _CountingDictReader:
    def __init__(self, f, fieldnames=None, restkey=None, restval=None, dialect='excel', **given):
        rows = _parsed(_text(f), _options(dialect, given))
        self.line_num = 0
        if fieldnames is None:
            if rows:
                fieldnames = rows[0]
                rows = rows[1:]
                self.line_num = 1
        else:
            fieldnames = list(fieldnames)
        self.fieldnames = fieldnames
        self._rows = _dicts(rows, fieldnames or [], restkey, restval)
        self._at = 0

    def __iter__(self):
        return self

    def __next__(self):
        i = self._at
        if i >= len(self._rows):
            raise StopIteration
        self._at = i + 1
        self.line_num += 1
        return self._rows[i]


def _field(value):
    kind = type(value)
    if value is None or kind is str or kind is int or kind is float:
        return value
    return str(value)


class _Writer:
    def __init__(self, f, options):
        self._file = f
        self._options = options

    def writerow(self, row):
        text = _csv_text([[_field(v) for v in row]], *self._options)
        self._file.write(text)
        return len(text)

    def writerows(self, rows):
        self._file.write(_csv_text([[_field(v) for v in row] for row in rows], *self._options))


def writer(csvfile, dialect='excel', **given):
    return _Writer(csvfile, _options(dialect, given))


class DictWriter:
    def __init__(self, f, fieldnames, restval='', extrasaction='raise', dialect='excel', **given):
        self._writer = _Writer(f, _options(dialect, given))
        self.fieldnames = list(fieldnames)
        self.restval = restval
        self.extrasaction = extrasaction

    def _row(self, row):
        if self.extrasaction == 'raise':
            wrong = [k for k in row if k not in self.fieldnames]
            if wrong:
                raise ValueError('dict contains fields not in fieldnames: ' + ', '.join([repr(k) for k in wrong]))
        return [row.get(k, self.restval) for k in self.fieldnames]

    def writeheader(self):
        return self._writer.writerow(self.fieldnames)

    def writerow(self, rowdict):
        return self._writer.writerow(self._row(rowdict))

    def writerows(self, rowdicts):
        self._writer.writerows([self._row(r) for r in rowdicts])
