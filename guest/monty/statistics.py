"""statistics, exact as in CPython: sums are made by the host without rounding."""
import math
from intrinsic import fsum as _fsum, mean as _mean, over_sum as _over_sum, variance as _variance

StatisticsError = ValueError


def _listed(data):
    return data if type(data) is list else list(data)


def mean(data):
    data = _listed(data)
    if not data:
        raise ValueError('mean requires at least one data point')
    return _mean(data)


def fmean(data, weights=None):
    data = _listed(data)
    if not data:
        raise ValueError('fmean requires at least one data point')
    if weights is None:
        return _fsum(data) / len(data)
    weights = _listed(weights)
    if len(weights) != len(data):
        raise ValueError('data and weights must be the same length')
    total = _fsum(weights)
    if not total:
        raise ValueError('sum of weights must be non-zero')
    return _fsum([x * w for x, w in zip(data, weights)]) / total


def geometric_mean(data):
    data = _listed(data)
    if not data:
        raise ValueError('geometric mean requires a non-empty dataset containing positive numbers')
    for x in data:
        if x <= 0:
            raise ValueError('geometric mean requires a non-empty dataset containing positive numbers')
    return math.exp(_fsum([math.log(x) for x in data]) / len(data))


def harmonic_mean(data, weights=None):
    data = _listed(data)
    if not data:
        raise ValueError('harmonic_mean requires at least one data point')
    weights = [1] * len(data) if weights is None else _listed(weights)
    parts = []
    for x, w in zip(data, weights):
        if x < 0:
            raise ValueError('harmonic mean does not support negative values')
        if x == 0:
            return 0
        parts.append(w / x)
    return _over_sum(sum(weights), parts)


def median(data):
    data = sorted(data)
    n = len(data)
    if n == 0:
        raise ValueError('no median for empty data')
    if n % 2 == 1:
        return data[n // 2]
    i = n // 2
    return (data[i - 1] + data[i]) / 2


def median_low(data):
    data = sorted(data)
    n = len(data)
    if n == 0:
        raise ValueError('no median for empty data')
    return data[n // 2] if n % 2 == 1 else data[n // 2 - 1]


def median_high(data):
    data = sorted(data)
    if not data:
        raise ValueError('no median for empty data')
    return data[len(data) // 2]


def _counts(data):
    seen = {}
    for x in data:
        seen[x] = seen.get(x, 0) + 1
    return seen


def mode(data):
    seen = _counts(data)
    if not seen:
        raise ValueError('no mode for empty data')
    best = None
    most = 0
    for x, n in seen.items():
        if n > most:
            best = x
            most = n
    return best


def multimode(data):
    seen = _counts(data)
    most = max(seen.values()) if seen else 0
    return [x for x, n in seen.items() if n == most]


def variance(data, xbar=None):
    data = _listed(data)
    if len(data) < 2:
        raise ValueError('variance requires at least two data points')
    return _variance(data, 1, xbar, False)


def pvariance(data, mu=None):
    data = _listed(data)
    if len(data) < 1:
        raise ValueError('pvariance requires at least one data point')
    return _variance(data, 0, mu, False)


def stdev(data, xbar=None):
    data = _listed(data)
    if len(data) < 2:
        raise ValueError('stdev requires at least two data points')
    return _variance(data, 1, xbar, True)


def pstdev(data, mu=None):
    data = _listed(data)
    if len(data) < 1:
        raise ValueError('pstdev requires at least one data point')
    return _variance(data, 0, mu, True)


def quantiles(data, n=4, method='exclusive'):
    if n < 1:
        raise ValueError('n must be at least 1')
    data = sorted(data)
    ld = len(data)
    if ld < 2:
        raise ValueError('must have at least two data points')
    out = []
    if method == 'inclusive':
        m = ld - 1
        for i in range(1, n):
            j = i * m // n
            delta = i * m % n
            out.append((data[j] * (n - delta) + data[j + 1] * delta) / n)
        return out
    if method == 'exclusive':
        m = ld + 1
        for i in range(1, n):
            j = i * m // n
            j = 1 if j < 1 else ld - 1 if j > ld - 1 else j
            delta = i * m - j * n
            out.append((data[j - 1] * (n - delta) + data[j] * delta) / n)
        return out
    raise ValueError('Unknown method: ' + repr(method))


def _sums(x, y, what):
    n = len(x)
    if len(y) != n:
        raise ValueError(what + ' requires that both inputs have same number of data points')
    if n < 2:
        raise ValueError(what + ' requires at least two data points')
    xbar = _fsum(x) / n
    ybar = _fsum(y) / n
    sxy = _fsum([(a - xbar) * (b - ybar) for a, b in zip(x, y)])
    return n, xbar, ybar, sxy


def covariance(x, y):
    s = _sums(x, y, 'covariance')
    return s[3] / (s[0] - 1)


def correlation(x, y):
    s = _sums(x, y, 'correlation')
    sxx = _fsum([(a - s[1]) ** 2.0 for a in x])
    syy = _fsum([(b - s[2]) ** 2.0 for b in y])
    if not sxx * syy:
        raise ValueError('at least one of the inputs is constant')
    return s[3] / math.sqrt(sxx * syy)
