"""How many examples a property tries that takes longer than most."""

from hypothesis import settings

USUAL = 100
"""What the short profiles of tests/conftest.py try unless the property says otherwise."""


def examples(count: int) -> int:
    """Return `count`, or as many times that as `make test-long` tries of every property."""
    return count * settings().max_examples // USUAL
