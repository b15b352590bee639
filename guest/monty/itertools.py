"""The parts of itertools that the engine lacks. They make all of their results at once."""


def product(*iterables, repeat=1):
    pools = [tuple(p) for p in iterables] * repeat
    out = [()]
    for pool in pools:
        out = [head + (x,) for head in out for x in pool]
    return iter(out)


def permutations(iterable, r=None):
    pool = tuple(iterable)
    n = len(pool)
    r = n if r is None else r
    out = []
    if r > n:
        return iter(out)
    indices = list(range(n))
    cycles = list(range(n, n - r, -1))
    out.append(tuple([pool[i] for i in indices[:r]]))
    while n:
        done = True
        for i in range(r - 1, -1, -1):
            cycles[i] -= 1
            if cycles[i] == 0:
                indices = indices[:i] + indices[i + 1:] + indices[i:i + 1]
                cycles[i] = n - i
            else:
                j = n - cycles[i]
                t = indices[i]
                indices[i] = indices[j]
                indices[j] = t
                out.append(tuple([pool[k] for k in indices[:r]]))
                done = False
                break
        if done:
            break
    return iter(out)


def combinations(iterable, r):
    pool = tuple(iterable)
    n = len(pool)
    out = []
    if r > n:
        return iter(out)
    indices = list(range(r))
    while True:
        out.append(tuple([pool[i] for i in indices]))
        i = r - 1
        while i >= 0 and indices[i] == i + n - r:
            i -= 1
        if i < 0:
            return iter(out)
        indices[i] += 1
        for j in range(i + 1, r):
            indices[j] = indices[j - 1] + 1


def combinations_with_replacement(iterable, r):
    pool = tuple(iterable)
    n = len(pool)
    out = []
    if not n and r:
        return iter(out)
    indices = [0] * r
    while True:
        out.append(tuple([pool[i] for i in indices]))
        i = r - 1
        while i >= 0 and indices[i] == n - 1:
            i -= 1
        if i < 0:
            return iter(out)
        v = indices[i] + 1
        for j in range(i, r):
            indices[j] = v


def groupby(iterable, key=None):
    out = []
    group = None
    last = None
    for x in iterable:
        k = x if key is None else key(x)
        if group is None or k != last:
            group = []
            out.append((k, group))
            last = k
        group.append(x)
    return iter([(k, iter(g)) for k, g in out])


def tee(iterable, n=2):
    items = list(iterable)
    return tuple([iter(items) for _ in range(n)])


def chain__from_iterable(iterables):
    out = []
    for it in iterables:
        out.extend(it)
    return iter(out)
