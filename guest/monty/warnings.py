"""warnings go to stderr; filters mean nothing."""
from output import stderr as _stderr


def warn(message, category=None, stacklevel=1, source=None):
    name = 'UserWarning' if category is None else str(category)
    _stderr(name + ': ' + str(message) + '\n')


def filterwarnings(*args, **kwargs):
    pass


def simplefilter(*args, **kwargs):
    pass
