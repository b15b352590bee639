"""The parts of os that make sense without an operating system."""
from kernel import random_bytes as urandom

pathsep = ':'


def getcwd():
    return '/'



def cpu_count():
    return 1
