"""secrets: every byte from the kernel."""
import base64 as _base64
from kernel import random_bytes as _random_bytes
from random import SystemRandom

_system = SystemRandom()


def token_bytes(nbytes=None):
    return _random_bytes(32 if nbytes is None else nbytes)


def token_hex(nbytes=None):
    return token_bytes(nbytes).hex()


def token_urlsafe(nbytes=None):
    return _base64.urlsafe_b64encode(token_bytes(nbytes)).rstrip(b'=').decode('ascii')


def choice(seq):
    return _system.choice(seq)


def randbelow(exclusive_upper_bound):
    if exclusive_upper_bound <= 0:
        raise ValueError('Upper bound must be positive.')
    return _system.randrange(exclusive_upper_bound)


def randbits(k):
    return _system.getrandbits(k)


def compare_digest(a, b):
    return a == b
