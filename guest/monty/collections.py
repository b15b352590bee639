"""The parts of collections that the engine lacks."""


def OrderedDict(*args, **kwargs):
    return dict(*args, **kwargs)
