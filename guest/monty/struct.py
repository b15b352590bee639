"""struct in standard sizes."""
from intrinsic import struct_pack as _struct_pack, struct_unpack as _struct_unpack

error = ValueError


def pack(format, *values):
    return _struct_pack(format, list(values))


def unpack(format, buffer):
    return tuple(_struct_unpack(format, buffer))


def calcsize(format):
    return _struct_unpack(format, None)


def unpack_from(format, buffer, offset=0):
    return unpack(format, buffer[offset:offset + calcsize(format)])


def iter_unpack(format, buffer):
    n = calcsize(format)
    return iter([unpack(format, buffer[i:i + n]) for i in range(0, len(buffer), n)])
