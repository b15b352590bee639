"""SimpleNamespace."""


class SimpleNamespace:
    def __init__(self, **kwargs):
        self._names = list(kwargs)
        for name, value in kwargs.items():
            setattr(self, name, value)

    def __repr__(self):
        return 'namespace(' + ', '.join([n + '=' + repr(getattr(self, n)) for n in self._names]) + ')'

    def __eq__(self, other):
        return type(other) is type(self) and repr(self) == repr(other)
