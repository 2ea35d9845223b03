"""The garbage collector's pace, for processes that make millions of short-lived tuples and no cycles."""

from __future__ import annotations

import gc

_THRESHOLD = 100_000
"""New containers between two looks for cycles; Python's own 700 costs a fifth of a bulk load."""


def ease_collector() -> None:
    """Look for cycles seldom, and never again among what was loaded at start."""
    gc.freeze()
    gc.set_threshold(_THRESHOLD, 20, 20)
