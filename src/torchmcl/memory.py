"""How the C library deals with freed memory."""

import ctypes
import sys

__all__ = ["keep_memory"]

# Options of glibc's `mallopt`.
_TOP_PAD, _SPARE = -2, 2**28
"""So much is fetched ahead, and left when memory is given back."""

_MMAP_THRESHOLD, _LARGEST = -3, 2**25
"""Blocks above this, the most that glibc allows, are returned at once unless they fit into what is spare."""


def keep_memory() -> bool:
    """Keep up to 256 MB of freed memory in this process, where the C library can (glibc); says whether it does.

    Activations of tens of megabytes are freed and needed again at each step of training. By default glibc gives
    them back to the system, which clears every page of them anew.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all([mallopt(_TOP_PAD, _SPARE), mallopt(_MMAP_THRESHOLD, _LARGEST)])
