"""What happens when: the same seed and the same faults give the same plan. Pure.

Faults are dealt like cards: each one comes once before any comes again. From the second deal on a round may
have two, of different groups, one while the other lasts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Set
from typing import Final, NamedTuple

PAIRS: Final = 0.2
"""The share of rounds with two faults, from the second deal on."""


class Injection(NamedTuple):
    """One fault."""

    fault: str
    delay: float
    """Seconds after the round began, or after the fault before it."""
    share: float
    """How much of the time that the fault may last, from 0 to 1."""
    seed: int
    """Decides which process, file or connection it hits."""


class Round(NamedTuple):
    """A piece of load, and the faults that strike it."""

    number: int
    batches: int
    """Batches of each producer."""
    size: int
    """Changes in a batch."""
    pause: float
    """Seconds between two batches."""
    injections: tuple[Injection, ...]


def plan(seed: int, groups: Mapping[str, str], alone: Set[str] = frozenset()) -> Iterator[Round]:
    """Rounds without end. `groups` has each fault's group; without faults the rounds are quiet.

    Those of `alone` never strike together with another.
    """
    chance = random.Random(f"plan {seed}")
    number, deal = 0, 0
    while True:
        deck = sorted(groups)
        chance.shuffle(deck)
        deal += 1
        while deck or not groups:
            number += 1
            struck = [deck.pop()] if deck else []
            others = [name for name in deck if groups[name] != groups[struck[0]]] if struck else []
            others = [name for name in others if alone.isdisjoint((name, *struck))]
            if deal > 1 and others and chance.random() < PAIRS:
                struck.append(others[-1])
                deck.remove(others[-1])
            yield Round(
                number,
                chance.randrange(3, 6),
                chance.randrange(5, 40),
                chance.uniform(0.1, 0.4),
                tuple(
                    Injection(name, chance.uniform(0.05, 1.0), chance.random(), chance.getrandbits(32))
                    for name in struck
                ),
            )
