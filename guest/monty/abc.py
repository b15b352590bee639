"""Names for class headers; the engine has no inheritance."""


class ABC:
    pass


class ABCMeta:
    pass
