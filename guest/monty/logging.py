"""logging writes to the process's log (kernel.log), not to stderr."""
from builtins import _percent as _format
from kernel import log as _log

CRITICAL = 50
FATAL = 50
ERROR = 40
WARNING = 30
WARN = 30
INFO = 20
DEBUG = 10
NOTSET = 0
_names = {50: 'CRITICAL', 40: 'ERROR', 30: 'WARNING', 20: 'INFO', 10: 'DEBUG', 0: 'NOTSET'}
_levels = {'root': 30}
_loggers = {}


def getLevelName(level):
    if type(level) is str:
        for k, v in _names.items():
            if v == level:
                return k
    return _names.get(level, 'Level ' + str(level))


def _number(level):
    return getLevelName(level) if type(level) is str else level


def _emit(name, level, msg, args):
    text = str(msg)
    if args:
        text = _format(text, args[0] if len(args) == 1 and type(args[0]) is dict else args)
    if name != 'root':
        text = name + ': ' + text
    _log(text, 'error' if level >= 40 else 'warning' if level >= 30 else 'info' if level >= 20 else 'debug')


class Logger:
    def __init__(self, name):
        self.name = name
        self.handlers = []

    def setLevel(self, level):
        _levels[self.name] = _number(level)

    def getEffectiveLevel(self):
        return _levels.get(self.name) or _levels['root']

    def isEnabledFor(self, level):
        return level >= self.getEffectiveLevel()

    def log(self, level, msg, *args, **kwargs):
        if self.isEnabledFor(level):
            _emit(self.name, level, msg, args)

    def debug(self, msg, *args, **kwargs):
        self.log(10, msg, *args)

    def info(self, msg, *args, **kwargs):
        self.log(20, msg, *args)

    def warning(self, msg, *args, **kwargs):
        self.log(30, msg, *args)

    def error(self, msg, *args, **kwargs):
        self.log(40, msg, *args)

    def exception(self, msg, *args, **kwargs):
        self.log(40, msg, *args)

    def critical(self, msg, *args, **kwargs):
        self.log(50, msg, *args)

    def addHandler(self, handler):
        self.handlers.append(handler)


class _Handler:
    def setLevel(self, level):
        pass

    def setFormatter(self, formatter):
        pass


def StreamHandler(stream=None):
    return _Handler()


def NullHandler():
    return _Handler()


def Formatter(*args, **kwargs):
    return None


def getLogger(name=None):
    name = name or 'root'
    if name not in _loggers:
        _loggers[name] = Logger(name)
    return _loggers[name]


def basicConfig(level=None, **kwargs):
    if level is not None:
        _levels['root'] = _number(level)


def debug(msg, *args, **kwargs):
    getLogger().debug(msg, *args)


def info(msg, *args, **kwargs):
    getLogger().info(msg, *args)


def warning(msg, *args, **kwargs):
    getLogger().warning(msg, *args)


def error(msg, *args, **kwargs):
    getLogger().error(msg, *args)


def exception(msg, *args, **kwargs):
    getLogger().error(msg, *args)


def critical(msg, *args, **kwargs):
    getLogger().critical(msg, *args)


def log(level, msg, *args, **kwargs):
    getLogger().log(level, msg, *args)
