"""textwrap."""
import re as _re


def _chunks(text, hyphens):
    out = []
    for m in _re.finditer('[\t\n\x0b\x0c\r ]+|[^\t\n\x0b\x0c\r ]+', text):
        part = m.group()
        if hyphens and '-' in part:
            out.extend(_hyphenated(part))
        else:
            out.append(part)
    return out


def _wordy(c):
    return c.isalnum() or c == '_'


def _letter(c):
    return (c.isalnum() or c == '_') and not c.isdigit()


def _hyphenated(word):
    out = []
    start = 0
    i = 0
    n = len(word)
    while i < n:
        if word[i] != '-':
            i += 1
            continue
        j = i
        while j < n and word[j] == '-':
            j += 1
        if j - i >= 2:
            if i > 0 and (_wordy(word[i - 1]) or word[i - 1] in '!"\'&.,?') and j < n and _wordy(word[j]):
                if i > start:
                    out.append(word[start:i])
                out.append(word[i:j])
                start = j
            i = j
            continue
        before = i - start
        letters = i >= 2 and _letter(word[i - 1]) and (_letter(word[i - 2]) or word[i - 2] == '-' and i >= 3 and _letter(word[i - 3]))
        after = j < n and _letter(word[j]) and (j + 1 < n and (_letter(word[j + 1]) or word[j + 1] == '-' and j + 2 < n and _letter(word[j + 2])))
        if before >= 2 and letters and after:
            out.append(word[start:j])
            start = j
        i = j
    if start < n:
        out.append(word[start:])
    return out


class TextWrapper:
    def __init__(self, width=70, initial_indent='', subsequent_indent='', expand_tabs=True, replace_whitespace=True,
                 fix_sentence_endings=False, break_long_words=True, drop_whitespace=True, break_on_hyphens=True,
                 tabsize=8, max_lines=None, placeholder=' [...]'):
        self.width = width
        self.initial_indent = initial_indent
        self.subsequent_indent = subsequent_indent
        self.expand_tabs = expand_tabs
        self.replace_whitespace = replace_whitespace
        self.break_long_words = break_long_words
        self.drop_whitespace = drop_whitespace
        self.break_on_hyphens = break_on_hyphens
        self.tabsize = tabsize
        self.max_lines = max_lines
        self.placeholder = placeholder

    def wrap(self, text):
        if self.expand_tabs:
            text = text.expandtabs(self.tabsize)
        if self.replace_whitespace:
            for c in '\t\n\x0b\x0c\r':
                text = text.replace(c, ' ')
        return self._lines(_chunks(text, self.break_on_hyphens))

    def fill(self, text):
        return '\n'.join(self.wrap(text))

    def _lines(self, chunks):
        lines = []
        width = self.width
        if width <= 0:
            raise ValueError('invalid width ' + repr(width) + ' (must be > 0)')
        if self.max_lines is not None:
            lead = self.subsequent_indent if self.max_lines > 1 else self.initial_indent
            if len(lead) + len(self.placeholder.lstrip()) > width:
                raise ValueError('placeholder too large for max width')
        chunks.reverse()
        while chunks:
            line = []
            size = 0
            lead = self.subsequent_indent if lines else self.initial_indent
            room = width - len(lead)
            if self.drop_whitespace and chunks[-1].strip() == '' and lines:
                chunks.pop()
            while chunks:
                n = len(chunks[-1])
                if size + n > room:
                    break
                line.append(chunks.pop())
                size += n
            if chunks and len(chunks[-1]) > room:
                size = self._long(chunks, line, size, room)
            if self.drop_whitespace and line and line[-1].strip() == '':
                size -= len(line[-1])
                line.pop()
            if not line:
                continue
            last = not chunks or self.drop_whitespace and len(chunks) == 1 and not chunks[0].strip()
            if self.max_lines is None or len(lines) + 1 < self.max_lines or last and size <= room:
                lines.append(lead + ''.join(line))
                continue
            placed = False
            while line:
                if line[-1].strip() and size + len(self.placeholder) <= room:
                    line.append(self.placeholder)
                    lines.append(lead + ''.join(line))
                    placed = True
                    break
                size -= len(line[-1])
                line.pop()
            if not placed:
                if lines:
                    before = lines[-1].rstrip()
                    if len(before) + len(self.placeholder) <= width:
                        lines[-1] = before + self.placeholder
                        break
                lines.append(lead + self.placeholder.lstrip())
            break
        return lines

    def _long(self, chunks, line, size, room):
        left = 1 if room < 1 else room - size
        if self.break_long_words:
            end = left
            chunk = chunks[-1]
            if self.break_on_hyphens and len(chunk) > left:
                hyphen = chunk.rfind('-', 0, left)
                if hyphen > 0 and chunk[:hyphen].strip('-'):
                    end = hyphen + 1
            line.append(chunk[:end])
            chunks[-1] = chunk[end:]
        elif not line:
            line.append(chunks.pop())
        return sum([len(c) for c in line])


def wrap(text, width=70, **kwargs):
    return TextWrapper(width=width, **kwargs).wrap(text)


def fill(text, width=70, **kwargs):
    return TextWrapper(width=width, **kwargs).fill(text)


def shorten(text, width, **kwargs):
    return TextWrapper(width=width, max_lines=1, **kwargs).fill(' '.join(text.strip().split()))


def dedent(text):
    lines = text.split('\n')
    margin = None
    for i in range(len(lines)):
        line = lines[i]
        if not line.strip(' \t'):
            lines[i] = ''
            continue
        lead = line[:len(line) - len(line.lstrip(' \t'))]
        if margin is None:
            margin = lead
        elif not lead.startswith(margin):
            if margin.startswith(lead):
                margin = lead
            else:
                j = 0
                while j < len(margin) and j < len(lead) and margin[j] == lead[j]:
                    j += 1
                margin = margin[:j]
    if margin:
        lines = [line[len(margin):] if line.startswith(margin) else line for line in lines]
    return '\n'.join(lines)


def indent(text, prefix, predicate=None):
    out = []
    for line in text.splitlines(True):
        if line.strip() if predicate is None else predicate(line):
            out.append(prefix + line)
        else:
            out.append(line)
    return ''.join(out)
