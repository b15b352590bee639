"""The parts of datetime that the engine lacks, in UTC."""
from datetime import date as _date, datetime as _datetime, timedelta as _timedelta, timezone as _timezone
from kernel import now as _now

MINYEAR = 1
MAXYEAR = 9999
UTC = _timezone.utc


def datetime__utcnow():
    return datetime__utcfromtimestamp(_now())


def datetime__utcfromtimestamp(t):
    whole = t // 1
    micro = round((t - whole) * 1000000)
    return _datetime(1970, 1, 1) + _timedelta(seconds=int(whole), microseconds=int(micro))


def datetime__fromtimestamp(t, tz=None):
    d = datetime__utcfromtimestamp(t)
    if tz is None:
        return d
    offset = _datetime(2000, 1, 1, tzinfo=_timezone.utc) - _datetime(2000, 1, 1, tzinfo=tz)
    return (d + offset).replace(tzinfo=tz)


def date__fromtimestamp(t):
    return _date(1970, 1, 1) + _timedelta(days=int(t // 86400))


def date__fromordinal(n):
    return _date(1, 1, 1) + _timedelta(days=n - 1)
