"""hashlib: the host hashes what update() collected."""
from intrinsic import digest as _digest, pbkdf2 as _pbkdf2

_sizes = {'md5': (16, 64), 'sha1': (20, 64), 'sha224': (28, 64), 'sha256': (32, 64), 'sha384': (48, 128), 'sha512': (64, 128),
          'sha3_256': (32, 136), 'sha3_512': (64, 72)}
algorithms_available = set(_sizes)
algorithms_guaranteed = set(_sizes)


class _Hash:
    def __init__(self, name, data):
        self.name = name
        self.digest_size = _sizes[name][0]
        self.block_size = _sizes[name][1]
        self._parts = []
        self.update(data)

    def update(self, data):
        if type(data) is str:
            raise TypeError('Strings must be encoded before hashing')
        self._parts.append(data)

    def digest(self):
        if len(self._parts) > 1:
            self._parts = [b''.join(self._parts)]
        return _digest(self.name, self._parts[0])

    def hexdigest(self):
        return self.digest().hex()

    def copy(self):
        out = _Hash(self.name, b'')
        out._parts = self._parts[:]
        return out


def new(name, data=b'', usedforsecurity=True):
    name = name.lower()
    if name not in _sizes:
        raise ValueError('unsupported hash type ' + name)
    return _Hash(name, data)


def md5(data=b'', usedforsecurity=True):
    return _Hash('md5', data)


def sha1(data=b'', usedforsecurity=True):
    return _Hash('sha1', data)


def sha224(data=b'', usedforsecurity=True):
    return _Hash('sha224', data)


def sha256(data=b'', usedforsecurity=True):
    return _Hash('sha256', data)


def sha384(data=b'', usedforsecurity=True):
    return _Hash('sha384', data)


def sha512(data=b'', usedforsecurity=True):
    return _Hash('sha512', data)


def sha3_256(data=b'', usedforsecurity=True):
    return _Hash('sha3_256', data)


def sha3_512(data=b'', usedforsecurity=True):
    return _Hash('sha3_512', data)


def pbkdf2_hmac(hash_name, password, salt, iterations, dklen=None):
    return _pbkdf2(hash_name, password, salt, iterations, _sizes[hash_name][0] if dklen is None else dklen)
