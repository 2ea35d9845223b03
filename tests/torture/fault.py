"""What a fault is: its name, what is promised under it, and how it is brought about and ended.

A strike is a context manager: it brings the fault about on entry, lets it last while the block runs,
and ends it on exit, as an operator or an init system would.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from tests.torture.checks import Found
from tests.torture.world import World

LOSES_NOTHING: Final = "nothing is lost"


@dataclass(slots=True, kw_only=True)
class Strike:
    """One injection while it lasts."""

    world: World
    chance: random.Random
    lasts: float
    """Seconds for which the fault holds."""
    altered: set[str]
    """Files of ours that the fault wrote other bytes to."""
    found: list[Found]
    """What was wrong with how the fault was mended."""


Means = Callable[[Strike], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault."""

    name: str
    group: str
    promised: str
    within: float
    """Seconds from its end in which all is to be published again, on a machine that does nothing else."""
    means: Means
    lasts: tuple[float, float] = (0.2, 2.0)
    """Seconds for which it holds, from and to."""
    excuses: frozenset[str] = frozenset()
    """What a reader may meet until it is mended."""
    needs: Callable[[World], str] = lambda _world: ""
    """Why the fault can't be brought about in a world; empty when it can."""
    loses: bool = False
    """Whether Redis may forget its last changes: what was pushed shortly before has to be pushed again.

    Only the published index remembers them then, so nothing else strikes at the same time.
    """
