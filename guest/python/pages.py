"""The pages of the zygote's heap, which every child shares."""
import ctypes
import os
import sys

_HUGE = 2 << 20
_MADV_COLLAPSE = 25
_ARENA = 1 << 20  # what CPython asks for at a time, at most


class _Allocator(ctypes.Structure):
    """PyObjectArenaAllocator"""
    _fields_ = [("ctx", ctypes.c_void_p), ("alloc", ctypes.c_void_p), ("free", ctypes.c_void_p)]


def together():
    """Has the interpreter put what it allocates from now on side by side, from the beginning of a huge page on: the arenas
    of its objects would lie between libraries otherwise, a megabyte here and there. Gives a function that undoes it.

    sbrk is the allocator then: what CPython passes to it first is ours to choose, and is the number of bytes."""
    undone = lambda: None
    if "CS_GNU_LIBC_VERSION" not in os.confstr_names or sys.version_info >= (3, 15):  # later ones are not known
        return undone
    libc = ctypes.PyDLL(None)
    sbrk, get, put = libc.sbrk, ctypes.pythonapi.PyObject_GetArenaAllocator, ctypes.pythonapi.PyObject_SetArenaAllocator
    sbrk.argtypes, sbrk.restype = [ctypes.c_ssize_t], ctypes.c_void_p
    get.argtypes = put.argtypes = [ctypes.POINTER(_Allocator)]
    get.restype = put.restype = None
    if sbrk(-sbrk(0) % _HUGE or _HUGE) == ctypes.c_void_p(-1).value:
        return undone
    usual = _Allocator()
    get(usual)
    put(_Allocator(_ARENA, ctypes.cast(sbrk, ctypes.c_void_p), usual.free))
    return lambda: put(usual)


def gather():
    """Gathers the heap into huge pages, where the system can: what a fork copies of them, and an exit takes apart, is
    one entry in place of 512. A child that writes to one copies 4 KiB of it, as ever."""
    madvise = ctypes.PyDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with open("/proc/self/maps") as f:
        lines = f.read().splitlines()
    for line in lines:
        fields = line.split()
        if fields[1] != "rw-p" or fields[4] != "0":
            continue  # a file's
        begin, end = (int(n, 16) for n in fields[0].split("-"))
        begin, end = -(-begin // _HUGE) * _HUGE, end // _HUGE * _HUGE
        for at in range(begin, end, _HUGE):
            madvise(at, _HUGE, _MADV_COLLAPSE)  # an older system refuses
