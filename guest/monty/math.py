"""The parts of math that the engine lacks."""
from intrinsic import fsum as _fsum
from math import isinf as _isinf, sqrt as _sqrt


def fsum(seq):
    return _fsum(seq if type(seq) is list else list(seq))


def prod(iterable, start=1):
    out = start
    for x in iterable:
        out = out * x
    return out


def hypot(*coordinates):
    big = 0.0
    for x in coordinates:
        if abs(x) > big:
            big = abs(float(x))
    if big == 0.0 or _isinf(big):
        return big
    if len(coordinates) == 1:
        return big
    return big * _sqrt(_fsum([(x / big) * (x / big) for x in coordinates]))


def dist(p, q):
    if len(p) != len(q):
        raise ValueError('both points must have the same number of dimensions')
    return hypot(*[a - b for a, b in zip(p, q)])


def sumprod(p, q):
    if len(p) != len(q):
        raise ValueError('Inputs are not the same length')
    out = 0
    for a, b in zip(p, q):
        out += a * b
    return out
