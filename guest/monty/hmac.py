"""hmac over the hashes of hashlib."""
from intrinsic import hmac as _hmac


def _name(digestmod):
    if type(digestmod) is str:
        return digestmod
    if digestmod is None:
        raise TypeError("Missing required argument 'digestmod'.")
    return digestmod().name


class HMAC:
    def __init__(self, key, msg=None, digestmod=''):
        self._key = key
        self._hash = _name(digestmod)
        self.name = 'hmac-' + self._hash
        self._parts = [] if msg is None else [msg]

    def update(self, msg):
        self._parts.append(msg)

    def digest(self):
        return _hmac(self._hash, self._key, b''.join(self._parts))

    def hexdigest(self):
        return self.digest().hex()


def new(key, msg=None, digestmod=''):
    return HMAC(key, msg, digestmod)


def digest(key, msg, digestmod):
    return _hmac(_name(digestmod), key, msg)


def compare_digest(a, b):
    return a == b
