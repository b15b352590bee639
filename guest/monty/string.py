"""The constants of string, capwords and Template."""
import re as _re

whitespace = ' \t\n\r\x0b\x0c'
ascii_lowercase = 'abcdefghijklmnopqrstuvwxyz'
ascii_uppercase = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
ascii_letters = ascii_lowercase + ascii_uppercase
digits = '0123456789'
hexdigits = '0123456789abcdefABCDEF'
octdigits = '01234567'
punctuation = '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~'
printable = digits + ascii_letters + punctuation + whitespace


def capwords(s, sep=None):
    return (sep or ' ').join([w.capitalize() for w in s.split(sep)])


class Template:
    def __init__(self, template):
        self.template = template

    def _fill(self, mapping, safe):
        out = ''
        at = 0
        text = self.template
        for m in _re.finditer(r'\$(?:(\$)|([_a-zA-Z][_a-zA-Z0-9]*)|\{([_a-zA-Z][_a-zA-Z0-9]*)\}|())', text):
            out += text[at:m.start()]
            at = m.end()
            name = m.group(2) or m.group(3)
            if m.group(1):
                out += '$'
            elif name:
                if safe and name not in mapping:
                    out += m.group(0)
                else:
                    out += str(mapping[name])
            elif safe:
                out += m.group(0)
            else:
                before = text[:m.start()]
                line = before.count('\n') + 1
                column = m.start() - (before.rfind('\n') + 1) + 1
                raise ValueError('Invalid placeholder in string: line ' + str(line) + ', col ' + str(column))
        return out + text[at:]

    def substitute(self, mapping=None, **kws):
        return self._fill({**(mapping or {}), **kws}, False)

    def safe_substitute(self, mapping=None, **kws):
        return self._fill({**(mapping or {}), **kws}, True)
