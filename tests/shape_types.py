"""Shape types are checked in tests alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import jaxtyping

__all__ = ["no_shape_types"]


@contextmanager
def no_shape_types() -> Iterator[None]:
    """As in a user's process: his errors, and traced networks whose lengths are left open."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)
