"""Enum: the front end sends every mention of such a class through _made (see enum.go)."""


class Enum:
    """A name for class headers."""


class auto:
    """The next number."""


def unique(enumeration):
    seen = []
    for name in enumeration._member_names_:
        value = getattr(enumeration, name)
        if type(value) is not auto:
            if value in seen:
                raise ValueError('duplicate values found in ' + repr(enumeration))
            seen.append(value)
    return enumeration


def _text(self):
    return type(self).__name__ + '.' + self.name


def _show(self):
    return '<' + type(self).__name__ + '.' + self.name + ': ' + repr(self.value) + '>'


def _made(cls):
    if hasattr(cls, '_members_'):
        return cls
    cls._members_ = []
    cls.__members__ = {}
    if not hasattr(cls, '__str__'):
        cls.__str__ = _text
    if not hasattr(cls, '__repr__'):
        cls.__repr__ = _show
    last = 0
    for name in cls._member_names_:
        value = getattr(cls, name)
        if type(value) is auto:
            value = last + 1
        if type(value) is int:
            last = max(value, last)
        member = None
        for m in cls._members_:
            if m.value == value:
                member = m
        if member is None:
            member = cls()
            member.name = name
            member.value = value
            member._name_ = name
            member._value_ = value
            cls._members_.append(member)
        cls.__members__[name] = member
        setattr(cls, name, member)
    return cls


def _find(cls, value):
    for m in cls._members_:
        if m is value or m.value == value:
            return m
    raise ValueError(repr(value) + ' is not a valid ' + cls.__name__)
