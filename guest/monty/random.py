"""random: the Mersenne Twister with CPython's own sequences. Unseeded, it is seeded by the kernel."""
import math
from intrinsic import digest as _digest, mt_block as _mt_block, mt_seed as _mt_seed
from kernel import random_bytes as _random_bytes

_TWOPI = 2.0 * math.pi
_NV_MAGICCONST = 4 * math.exp(-0.5) / math.sqrt(2.0)
_LOG4 = math.log(4.0)
_SG_MAGICCONST = 1.0 + math.log(4.5)


def _seed(self, a=None, version=2):
    kind = type(a).__name__
    if a is None:
        n = int(_random_bytes(32).hex(), 16)
    elif kind == 'int' or kind == 'bool':
        n = abs(int(a))
    elif kind == 'float':
        n = abs(_float_hash(a))
    elif kind == 'str' or kind == 'bytes':
        data = a.encode() if kind == 'str' else a
        n = int((data + _digest('sha512', data)).hex(), 16)
    else:
        raise TypeError('The only supported seed types are: None, int, float, str, bytes, and bytearray.')
    self._state = _mt_seed(n)
    self._words = []
    self._at = 0
    self._next_gauss = None


def _float_hash(x):
    if x != x or x - x != 0:
        return 0 if x != x else 314159
    parts = math.frexp(abs(x))
    m = parts[0]
    e = parts[1]
    out = 0
    while m:
        out = ((out << 28) & 2305843009213693951) | out >> 33
        m *= 268435456.0
        e -= 28
        y = int(m)
        m -= y
        out += y
        if out >= 2305843009213693951:
            out -= 2305843009213693951
    e = e % 61
    return ((out << e) & 2305843009213693951) | out >> (61 - e)


def _getstate(self):
    if not self._state:
        _seed(self)
    return (3, (self._state, self._words, self._at), self._next_gauss)


def _setstate(self, state):
    self._next_gauss = state[2]
    self._state = state[1][0]
    self._words = state[1][1]
    self._at = state[1][2]


def _word(self):
    i = self._at
    if i >= len(self._words):
        if not self._state:
            _seed(self)
        block = _mt_block(self._state)
        self._state = block[0]
        self._words = block[1]
        i = 0
    self._at = i + 1
    return self._words[i]


def _random(self):
    a = _word(self) >> 5
    return (a * 67108864.0 + (_word(self) >> 6)) * (1.0 / 9007199254740992.0)


def _getrandbits(self, k):
    if k < 0:
        raise ValueError('number of bits must be non-negative')
    if k <= 32:
        return _word(self) >> (32 - k) if k else 0
    out = 0
    shift = 0
    while k > 0:
        w = _word(self)
        if k < 32:
            w = w >> (32 - k)
        out = out | (w << shift)
        shift += 32
        k -= 32
    return out


def _randbytes(self, n):
    digits = '{:x}'.format(_getrandbits(self, n * 8)).zfill(n * 2) if n else ''
    out = ''
    for i in range(len(digits) - 2, -1, -2):
        out += digits[i:i + 2]
    return bytes.fromhex(out)


def _below(self, n):
    k = 0
    m = n
    while m >= 65536:
        m = m >> 16
        k += 16
    while m:
        m = m >> 1
        k += 1
    r = _getrandbits(self, k)
    while r >= n:
        r = _getrandbits(self, k)
    return r


def _randrange(self, start, stop=None, step=1):
    if type(start) is not int or (stop is not None and type(stop) is not int) or type(step) is not int:
        raise TypeError("'float' object cannot be interpreted as an integer")
    if stop is None:
        if start > 0:
            return _below(self, start)
        raise ValueError('empty range for randrange()')
    width = stop - start
    if step == 1:
        if width > 0:
            return start + _below(self, width)
        raise ValueError('empty range for randrange() (' + str(start) + ', ' + str(stop) + ', ' + str(width) + ')')
    if step > 0:
        n = (width + step - 1) // step
    elif step < 0:
        n = (width + step + 1) // step
    else:
        raise ValueError('zero step for randrange()')
    if n <= 0:
        raise ValueError('empty range for randrange()')
    return start + step * _below(self, n)


def _randint(self, a, b):
    return _randrange(self, a, b + 1)


def _choice(self, seq):
    if not len(seq):
        raise IndexError('Cannot choose from an empty sequence')
    return seq[_below(self, len(seq))]


def _shuffle(self, x):
    for i in range(len(x) - 1, 0, -1):
        j = _below(self, i + 1)
        t = x[i]
        x[i] = x[j]
        x[j] = t


def _sample(self, population, k, counts=None):
    if counts is not None:
        total = []
        for p, c in zip(population, counts):
            for _ in range(c):
                total.append(p)
        population = total
    population = list(population)
    n = len(population)
    if not 0 <= k <= n:
        raise ValueError('Sample larger than population or is negative')
    result = [None] * k
    setsize = 21
    if k > 5:
        setsize += 4 ** math.ceil(math.log(k * 3) / math.log(4))
    if n <= setsize:
        pool = population
        for i in range(k):
            j = _below(self, n - i)
            result[i] = pool[j]
            pool[j] = pool[n - i - 1]
    else:
        selected = set()
        for i in range(k):
            j = _below(self, n)
            while j in selected:
                j = _below(self, n)
            selected.add(j)
            result[i] = population[j]
    return result


def _choices(self, population, weights=None, cum_weights=None, k=1):
    n = len(population)
    if cum_weights is None:
        if weights is None:
            return [population[math.floor(_random(self) * n)] for _ in range(k)]
        cum_weights = []
        total = 0
        for w in weights:
            total += w
            cum_weights.append(total)
    elif weights is not None:
        raise TypeError('Cannot specify both weights and cumulative weights')
    if len(cum_weights) != n:
        raise ValueError('The number of weights does not match the population')
    total = cum_weights[-1] + 0.0
    if total <= 0.0:
        raise ValueError('Total of weights must be greater than zero')
    out = []
    for _ in range(k):
        x = _random(self) * total
        lo = 0
        hi = n - 1
        while lo < hi:
            mid = (lo + hi) // 2
            if x < cum_weights[mid]:
                hi = mid
            else:
                lo = mid + 1
        out.append(population[lo])
    return out


def _uniform(self, a, b):
    return a + (b - a) * _random(self)


def _triangular(self, low=0.0, high=1.0, mode=None):
    u = _random(self)
    if high == low:
        return low
    c = 0.5 if mode is None else (mode - low) / (high - low)
    if u > c:
        u = 1.0 - u
        c = 1.0 - c
        low, high = high, low
    return low + (high - low) * math.sqrt(u * c)


def _gauss(self, mu=0.0, sigma=1.0):
    z = self._next_gauss
    self._next_gauss = None
    if z is None:
        x2pi = _random(self) * _TWOPI
        g2rad = math.sqrt(-2.0 * math.log(1.0 - _random(self)))
        z = math.cos(x2pi) * g2rad
        self._next_gauss = math.sin(x2pi) * g2rad
    return mu + z * sigma


def _normalvariate(self, mu=0.0, sigma=1.0):
    while True:
        u1 = _random(self)
        u2 = 1.0 - _random(self)
        z = _NV_MAGICCONST * (u1 - 0.5) / u2
        zz = z * z / 4.0
        if zz <= -math.log(u2):
            break
    return mu + z * sigma


def _lognormvariate(self, mu=0.0, sigma=1.0):
    return math.exp(_normalvariate(self, mu, sigma))


def _expovariate(self, lambd=1.0):
    return -math.log(1.0 - _random(self)) / lambd


def _paretovariate(self, alpha):
    return (1.0 - _random(self)) ** (-1.0 / alpha)


def _weibullvariate(self, alpha, beta):
    return alpha * (-math.log(1.0 - _random(self))) ** (1.0 / beta)


def _gammavariate(self, alpha, beta):
    if alpha <= 0.0 or beta <= 0.0:
        raise ValueError('gammavariate: alpha and beta must be > 0.0')
    if alpha > 1.0:
        ainv = math.sqrt(2.0 * alpha - 1.0)
        bbb = alpha - _LOG4
        ccc = alpha + ainv
        while True:
            u1 = _random(self)
            if not 1e-7 < u1 < 0.9999999:
                continue
            u2 = 1.0 - _random(self)
            v = math.log(u1 / (1.0 - u1)) / ainv
            x = alpha * math.exp(v)
            z = u1 * u1 * u2
            r = bbb + ccc * v - x
            if r + _SG_MAGICCONST - 4.5 * z >= 0.0 or r >= math.log(z):
                return x * beta
    if alpha == 1.0:
        return -math.log(1.0 - _random(self)) * beta
    while True:
        u = _random(self)
        b = (math.e + alpha) / math.e
        p = b * u
        if p <= 1.0:
            x = p ** (1.0 / alpha)
        else:
            x = -math.log((b - p) / alpha)
        u1 = _random(self)
        if p > 1.0:
            if u1 <= x ** (alpha - 1.0):
                break
        elif u1 <= math.exp(-x):
            break
    return x * beta


def _betavariate(self, alpha, beta):
    y = _gammavariate(self, alpha, 1.0)
    if y:
        return y / (y + _gammavariate(self, beta, 1.0))
    return 0.0


class Random:
    def __init__(self, x=None):
        _seed(self, x)

    seed = _seed
    getstate = _getstate
    setstate = _setstate
    random = _random
    getrandbits = _getrandbits
    randbytes = _randbytes
    randrange = _randrange
    randint = _randint
    choice = _choice
    shuffle = _shuffle
    sample = _sample
    choices = _choices
    uniform = _uniform
    triangular = _triangular
    gauss = _gauss
    normalvariate = _normalvariate
    lognormvariate = _lognormvariate
    expovariate = _expovariate
    paretovariate = _paretovariate
    weibullvariate = _weibullvariate
    gammavariate = _gammavariate
    betavariate = _betavariate


class SystemRandom:
    """Every number from the kernel."""

    def getrandbits(self, k):
        if k <= 0:
            return 0
        return int(_random_bytes((k + 7) // 8).hex(), 16) >> (-k % 8)

    def random(self):
        return self.getrandbits(53) / 9007199254740992

    def _below(self, n):
        k = len('{:b}'.format(n))
        r = self.getrandbits(k)
        while r >= n:
            r = self.getrandbits(k)
        return r

    def randrange(self, start, stop=None):
        if stop is None:
            return self._below(start)
        return start + self._below(stop - start)

    def randint(self, a, b):
        return a + self._below(b - a + 1)

    def choice(self, seq):
        return seq[self._below(len(seq))]

    def shuffle(self, x):
        for i in range(len(x) - 1, 0, -1):
            j = self._below(i + 1)
            t = x[i]
            x[i] = x[j]
            x[j] = t

    def sample(self, population, k):
        pool = list(population)
        self.shuffle(pool)
        return pool[:k]

    def uniform(self, a, b):
        return a + (b - a) * self.random()


class _Generator:
    """The generator of the module's own functions."""


def _new():
    out = _Generator()
    out._state = b''
    out._words = []
    out._at = 0
    out._next_gauss = None
    return out


_inst = _new()




def seed(a=None, version=2):
    _seed(_inst, a, version)


def getstate():
    return _getstate(_inst)


def setstate(state):
    _setstate(_inst, state)


def random():
    return _random(_inst)


def getrandbits(k):
    return _getrandbits(_inst, k)


def randbytes(n):
    return _randbytes(_inst, n)


def randrange(start, stop=None, step=1):
    return _randrange(_inst, start, stop, step)


def randint(a, b):
    return _randint(_inst, a, b)


def choice(seq):
    return _choice(_inst, seq)


def shuffle(x):
    _shuffle(_inst, x)


def sample(population, k, counts=None):
    return _sample(_inst, population, k, counts=counts)


def choices(population, weights=None, cum_weights=None, k=1):
    return _choices(_inst, population, weights, cum_weights=cum_weights, k=k)


def uniform(a, b):
    return _uniform(_inst, a, b)


def triangular(low=0.0, high=1.0, mode=None):
    return _triangular(_inst, low, high, mode)


def gauss(mu=0.0, sigma=1.0):
    return _gauss(_inst, mu, sigma)


def normalvariate(mu=0.0, sigma=1.0):
    return _normalvariate(_inst, mu, sigma)


def lognormvariate(mu=0.0, sigma=1.0):
    return _lognormvariate(_inst, mu, sigma)


def expovariate(lambd=1.0):
    return _expovariate(_inst, lambd)


def paretovariate(alpha):
    return _paretovariate(_inst, alpha)


def weibullvariate(alpha, beta):
    return _weibullvariate(_inst, alpha, beta)


def gammavariate(alpha, beta):
    return _gammavariate(_inst, alpha, beta)


def betavariate(alpha, beta):
    return _betavariate(_inst, alpha, beta)
