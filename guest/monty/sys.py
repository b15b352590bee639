"""The parts of sys that the engine lacks."""
from engine import print as _print
from kernel import exit
from output import stderr as _stderr
from program import argv

maxsize = 9223372036854775807
byteorder = 'little'
executable = ''
path = []
maxunicode = 1114111


class _Stdout:
    def write(self, text):
        _print(text, end='')
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        pass

    def isatty(self):
        return False


class _Stderr:
    def write(self, text):
        _stderr(text)
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        pass

    def isatty(self):
        return False


stdout = _Stdout()
stderr = _Stderr()
platform = 'linux'


def getrecursionlimit():
    return 1000


def getdefaultencoding():
    return 'utf-8'
