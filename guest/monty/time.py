"""time on the kernel's clock, in UTC."""
from datetime import datetime as _datetime, timedelta as _timedelta
from collections import namedtuple as _namedtuple
from kernel import now as _now, sleep

timezone = 0
altzone = 0
daylight = 0
tzname = ('UTC', 'UTC')
struct_time = _namedtuple('struct_time', ['tm_year', 'tm_mon', 'tm_mday', 'tm_hour', 'tm_min', 'tm_sec', 'tm_wday', 'tm_yday', 'tm_isdst'])


def time():
    return _now()


def time_ns():
    return int(_now() * 1000000) * 1000


def monotonic():
    return _now()


def monotonic_ns():
    return time_ns()


def perf_counter():
    return _now()


def perf_counter_ns():
    return time_ns()


def gmtime(seconds=None):
    if seconds is None:
        seconds = _now()
    d = _datetime(1970, 1, 1) + _timedelta(seconds=int(seconds // 1))
    return _of(d)


def localtime(seconds=None):
    return gmtime(seconds)


def _of(d):
    start = _datetime(d.year, 1, 1)
    return struct_time(d.year, d.month, d.day, d.hour, d.minute, d.second, d.weekday(), (d - start).days + 1, 0)


def _datetime_of(t):
    return _datetime(t[0], t[1], t[2], t[3], t[4], t[5])


def mktime(t):
    return float((_datetime_of(t) - _datetime(1970, 1, 1)).total_seconds())


def strftime(format, t=None):
    return _datetime_of(gmtime() if t is None else t).strftime(format)


def strptime(text, format='%a %b %d %H:%M:%S %Y'):
    return _of(_datetime.strptime(text, format))


def asctime(t=None):
    t = gmtime() if t is None else t
    return strftime('%a %b ', t) + str(t[2]).rjust(2) + strftime(' %H:%M:%S %Y', t)


def ctime(seconds=None):
    return asctime(gmtime(seconds))
