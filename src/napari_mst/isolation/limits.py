"""The memory that a decoding process may have."""

import mmap
from contextlib import suppress

ROOM_BYTES = 768 * 2**20
"""Room for Python, the libraries and what they need beside the numbers."""


def limit_memory(room: int) -> None:
    """Let this process have *room* more bytes of memory, where the system has such limits.

    Windows has none. macOS has them and refuses to set them (ValueError,
    https://github.com/python/cpython/issues/78783).
    """
    with suppress(ImportError, ValueError):
        import resource

        import psutil

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = psutil.Process().memory_info().vms + room
        # Nobody may raise a limit above the hard one that the machine's owner has set.
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def is_limited_from_outside() -> bool:
    """True if this process has all the memory that it may have: then the machine has no more.

    False if it is `limit_memory` that refused what a file asked for beyond its own size.
    """
    with suppress(ImportError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        return hard == soft
    return True


def has_room(size: int) -> bool:
    """True if this process can get *size* more bytes of memory."""
    try:
        mmap.mmap(-1, size).close()
    except OSError:
        return False
    return True
