"""The pages of the zygote's heap, which every child shares."""
import ctypes

_HUGE = 2 << 20
_MADV_COLLAPSE = 25


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
