"""urllib.parse."""
from collections import namedtuple as _namedtuple
from intrinsic import url_quote as _url_quote, url_unquote as _url_unquote

uses_netloc = ['', 'ftp', 'http', 'gopher', 'nntp', 'telnet', 'imap', 'wais', 'file', 'mms', 'https', 'shttp', 'snews', 'prospero', 'rtsp', 'rtspu', 'rsync', 'svn', 'svn+ssh', 'sftp', 'nfs', 'git', 'git+ssh', 'ws', 'wss']
uses_relative = ['', 'ftp', 'http', 'gopher', 'nntp', 'imap', 'wais', 'file', 'https', 'shttp', 'mms', 'prospero', 'rtsp', 'rtspu', 'sftp', 'svn', 'svn+ssh', 'ws', 'wss']
uses_params = ['', 'ftp', 'hdl', 'prospero', 'http', 'imap', 'https', 'shttp', 'rtsp', 'rtspu', 'sip', 'sips', 'mms', 'sftp', 'tel']


def quote(string, safe='/', encoding=None, errors=None):
    return _url_quote(string, safe, False)


def quote_plus(string, safe='', encoding=None, errors=None):
    return _url_quote(string, safe, True)


def quote_from_bytes(bs, safe='/'):
    return _url_quote(bs, safe, False)


def unquote(string, encoding='utf-8', errors='replace'):
    return string if '%' not in string else _url_unquote(string).decode('utf-8', errors)


def unquote_plus(string, encoding='utf-8', errors='replace'):
    return unquote(string.replace('+', ' '))


def unquote_to_bytes(string):
    return _url_unquote(string)


def urlencode(query, doseq=False, safe='', encoding=None, errors=None, quote_via=quote_plus):
    pairs = query.items() if hasattr(query, 'items') or type(query) is dict else query
    out = []
    for k, v in pairs:
        k = quote_via(k if type(k) is bytes else str(k), safe)
        if doseq and (type(v) is list or type(v) is tuple):
            for x in v:
                out.append(k + '=' + quote_via(x if type(x) is bytes else str(x), safe))
        else:
            out.append(k + '=' + quote_via(v if type(v) is bytes else str(v), safe))
    return '&'.join(out)


def parse_qsl(qs, keep_blank_values=False, strict_parsing=False, encoding='utf-8', errors='replace', max_num_fields=None, separator='&'):
    out = []
    for pair in qs.split(separator):
        if not pair and not strict_parsing:
            continue
        i = pair.find('=')
        if i < 0:
            if strict_parsing:
                raise ValueError('bad query field: ' + repr(pair))
            if not keep_blank_values:
                continue
            name = pair
            value = ''
        else:
            name = pair[:i]
            value = pair[i + 1:]
        if value or keep_blank_values:
            out.append((unquote_plus(name), unquote_plus(value)))
    return out


def parse_qs(qs, keep_blank_values=False, strict_parsing=False, encoding='utf-8', errors='replace', max_num_fields=None, separator='&'):
    out = {}
    for k, v in parse_qsl(qs, keep_blank_values, strict_parsing, separator=separator):
        if k in out:
            out[k].append(v)
        else:
            out[k] = [v]
    return out


def _place(netloc):
    user = None
    password = None
    at = netloc.rfind('@')
    if at >= 0:
        user = netloc[:at]
        colon = user.find(':')
        if colon >= 0:
            password = user[colon + 1:]
            user = user[:colon]
        netloc = netloc[at + 1:]
    port = None
    if netloc.startswith('['):
        end = netloc.find(']')
        host = netloc[1:end]
        rest = netloc[end + 1:]
        if rest.startswith(':') and rest[1:]:
            port = rest[1:]
    else:
        colon = netloc.find(':')
        host = netloc if colon < 0 else netloc[:colon]
        if colon >= 0 and netloc[colon + 1:]:
            port = netloc[colon + 1:]
    return user, password, host.lower() or None, int(port) if port is not None else None


class ParseResult:
    def __init__(self, scheme, netloc, path, params, query, fragment):
        self.scheme = scheme
        self.netloc = netloc
        self.path = path
        self.params = params
        self.query = query
        self.fragment = fragment
        place = _place(netloc)
        self.username = place[0]
        self.password = place[1]
        self.hostname = place[2]
        self.port = place[3]

    def geturl(self):
        return urlunparse(self)

    def _replace(self, **kw):
        names = ('scheme', 'netloc', 'path', 'params', 'query', 'fragment')
        return ParseResult(*[kw.get(n, getattr(self, n)) for n in names])

    def __iter__(self):
        return iter((self.scheme, self.netloc, self.path, self.params, self.query, self.fragment))

    def __repr__(self):
        return 'ParseResult(scheme=' + repr(self.scheme) + ', netloc=' + repr(self.netloc) + ', path=' + repr(self.path) + ', params=' + repr(self.params) + ', query=' + repr(self.query) + ', fragment=' + repr(self.fragment) + ')'

    def __eq__(self, other):
        return tuple(self) == tuple(other)


class SplitResult:
    def __init__(self, scheme, netloc, path, query, fragment):
        self.scheme = scheme
        self.netloc = netloc
        self.path = path
        self.query = query
        self.fragment = fragment
        place = _place(netloc)
        self.username = place[0]
        self.password = place[1]
        self.hostname = place[2]
        self.port = place[3]

    def geturl(self):
        return urlunsplit(self)

    def _replace(self, **kw):
        names = ('scheme', 'netloc', 'path', 'query', 'fragment')
        return SplitResult(*[kw.get(n, getattr(self, n)) for n in names])

    def __iter__(self):
        return iter((self.scheme, self.netloc, self.path, self.query, self.fragment))

    def __repr__(self):
        return 'SplitResult(scheme=' + repr(self.scheme) + ', netloc=' + repr(self.netloc) + ', path=' + repr(self.path) + ', query=' + repr(self.query) + ', fragment=' + repr(self.fragment) + ')'

    def __eq__(self, other):
        return tuple(self) == tuple(other)


def _parts(url, scheme, allow_fragments):
    url = url.lstrip('\0\t\n\r\x0b\x0c ').replace('\n', '').replace('\r', '').replace('\t', '')
    colon = url.find(':')
    if colon > 0 and url[0].isalpha() and url[0].isascii():
        good = True
        for c in url[:colon]:
            if not (c.isascii() and (c.isalnum() or c in '+-.')):
                good = False
        if good:
            scheme = url[:colon].lower()
            url = url[colon + 1:]
    netloc = ''
    if url.startswith('//'):
        end = len(url)
        for c in '/?#':
            i = url.find(c, 2)
            if 0 <= i < end:
                end = i
        netloc = url[2:end]
        url = url[end:]
        if ('[' in netloc) != (']' in netloc):
            raise ValueError('Invalid IPv6 URL')
    fragment = ''
    query = ''
    if allow_fragments and '#' in url:
        i = url.find('#')
        fragment = url[i + 1:]
        url = url[:i]
    if '?' in url:
        i = url.find('?')
        query = url[i + 1:]
        url = url[:i]
    return scheme, netloc, url, query, fragment


def urlsplit(url, scheme='', allow_fragments=True):
    return SplitResult(*_parts(url, scheme, allow_fragments))


def urlparse(url, scheme='', allow_fragments=True):
    p = _parts(url, scheme, allow_fragments)
    path = p[2]
    params = ''
    if p[0] in uses_params and ';' in path:
        i = path.find(';', path.rfind('/') if '/' in path else 0)
        if i >= 0:
            params = path[i + 1:]
            path = path[:i]
    return ParseResult(p[0], p[1], path, params, p[3], p[4])


def urlunsplit(components):
    p = tuple(components)
    url = p[2]
    if p[1] or (p[0] and p[0] in uses_netloc and url[:2] != '//'):
        if url and url[:1] != '/':
            url = '/' + url
        url = '//' + (p[1] or '') + url
    if p[0]:
        url = p[0] + ':' + url
    if p[3]:
        url = url + '?' + p[3]
    if p[4]:
        url = url + '#' + p[4]
    return url


def urlunparse(components):
    p = tuple(components)
    path = p[2] + ';' + p[3] if p[3] else p[2]
    return urlunsplit((p[0], p[1], path, p[4], p[5]))


def urldefrag(url):
    i = url.find('#')
    return (url, '') if i < 0 else (url[:i], url[i + 1:])


def urljoin(base, url, allow_fragments=True):
    if not base:
        return url
    if not url:
        return base
    b = tuple(urlparse(base, '', allow_fragments))
    u = tuple(urlparse(url, b[0], allow_fragments))
    if u[0] != b[0] or u[0] not in uses_relative:
        return url
    if u[0] in uses_netloc:
        if u[1]:
            return urlunparse(u)
    netloc = b[1]
    path = u[2]
    if not path and not u[3]:
        query = u[4] if u[4] else b[4]
        return urlunparse((u[0], netloc, b[2], b[3], query, u[5]))
    base_parts = b[2].split('/')
    if base_parts[-1] != '':
        base_parts.pop()
    if path[:1] == '/':
        segments = path.split('/')
    else:
        segments = base_parts + path.split('/')
        inner = [s for s in segments[1:-1] if s]
        segments = segments[:1] + inner + segments[-1:] if len(segments) > 1 else segments
    out = []
    for seg in segments:
        if seg == '..':
            if out:
                out.pop()
        elif seg != '.':
            out.append(seg)
    if segments[-1] in ('.', '..'):
        out.append('')
    return urlunparse((u[0], netloc, '/'.join(out) or '/', u[3], u[4], u[5]))
