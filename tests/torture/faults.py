"""The faults by name, and which of them a run was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tests.torture.fault import Fault
from tests.torture.output_faults import output_faults
from tests.torture.process_faults import process_faults
from tests.torture.redis_faults import redis_faults

LEASE_S: Final = 8.0
"""How long a lease lasts under torture; 60 s otherwise."""


def faults(lease: float = LEASE_S) -> Mapping[str, Fault]:
    """All faults by name, for workers whose leases last that many seconds."""
    every = (*process_faults(lease), *redis_faults(), *output_faults())
    return MappingProxyType({fault.name: fault for fault in every})


def chosen(words: str, known: Mapping[str, Fault]) -> dict[str, Fault]:
    """The faults that a list names: names, groups, `all`, with `-` before what is left out.

    Raises ValueError for a word that names none.
    """
    found: dict[str, Fault] = {}
    for word in filter(None, (word.strip() for word in words.replace(",", " ").split())):
        plain = word.removeprefix("-")
        named = {name: fault for name, fault in known.items() if plain in ("all", name, fault.group)}
        if not named and plain != "none":
            groups = sorted({fault.group for fault in known.values()})
            raise ValueError(
                f"FAULTS: {plain!r} is no fault; there are all, none, the groups {', '.join(groups)}, "
                f"and {', '.join(known)}."
            )
        if word.startswith("-"):
            found = {name: fault for name, fault in (found or known).items() if name not in named}
        else:
            found |= named
    return found
