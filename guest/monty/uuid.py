"""uuid: versions 3, 4 and 5."""
from intrinsic import digest as _digest
from kernel import random_bytes as _random_bytes


class UUID:
    def __init__(self, hex=None, bytes=None, int=None, version=None):
        if hex is not None:
            digits = hex.replace('urn:', '').replace('uuid:', '').strip('{}').replace('-', '')
            if len(digits) != 32:
                raise ValueError('badly formed hexadecimal UUID string')
        elif bytes is not None:
            if len(bytes) != 16:
                raise ValueError('bytes is not a 16-char string')
            digits = bytes.hex()
        elif int is not None:
            if not 0 <= int < 340282366920938463463374607431768211456:
                raise ValueError('int is out of range (need a 128-bit value)')
            digits = '{:032x}'.format(int)
        else:
            raise TypeError('one of the hex, bytes, bytes_le, fields, or int arguments must be given')
        if version is not None:
            digits = digits[:12] + str(version) + digits[13:16] + '89ab'[_number(digits[16]) & 3] + digits[17:]
        self.int = _number(digits)
        self.hex = digits.lower()
        self.bytes = _bytes(digits)
        self.version = _number(digits[12]) if digits[16] in '89abAB' else None
        self.urn = 'urn:uuid:' + str(self)

    def __str__(self):
        h = self.hex
        return h[:8] + '-' + h[8:12] + '-' + h[12:16] + '-' + h[16:20] + '-' + h[20:]

    def __repr__(self):
        return "UUID('" + str(self) + "')"

    def __eq__(self, other):
        return hasattr(other, 'urn') and self.hex == other.hex

    def __hash__(self):
        return self.int & 2305843009213693951


def _number(digits):
    return int(digits, 16)


def _bytes(digits):
    return bytes.fromhex(digits)


def uuid4():
    return UUID(bytes=_random_bytes(16), version=4)


def uuid3(namespace, name):
    return UUID(bytes=_digest('md5', namespace.bytes + (name.encode() if type(name) is str else name)), version=3)


def uuid5(namespace, name):
    return UUID(bytes=_digest('sha1', namespace.bytes + (name.encode() if type(name) is str else name))[:16], version=5)


NAMESPACE_DNS = UUID('6ba7b810-9dad-11d1-80b4-00c04fd430c8')
NAMESPACE_URL = UUID('6ba7b811-9dad-11d1-80b4-00c04fd430c8')
NAMESPACE_OID = UUID('6ba7b812-9dad-11d1-80b4-00c04fd430c8')
NAMESPACE_X500 = UUID('6ba7b814-9dad-11d1-80b4-00c04fd430c8')
