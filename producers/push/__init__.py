"""Pushing from a Python app: `from producers.push import Publisher`."""

from producers.push.publisher import Publisher
from producers.push.transport import Rejected

__all__ = ["Publisher", "Rejected"]
