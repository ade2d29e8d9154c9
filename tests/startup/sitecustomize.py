"""Imported by every interpreter that a test starts: garbage collection would take a third of a large import."""

import atexit
import gc

gc.set_threshold(100_000, 50, 10)
atexit.register(gc.freeze)
