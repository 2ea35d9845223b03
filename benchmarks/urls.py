"""Realistic URLs: 80 characters, slugs of made-up words, random dates; the same for the same seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

BASE = "https://shop.example.com/"
LENGTH = 80


def words(count: int = 4000, seed: int = 7) -> list[str]:
    """Made-up words of two to four syllables."""
    dice = random.Random(seed)
    onset: list[str] = [*"bcdfghklmnprstv", "st", "tr", "pl"]
    vowel, coda = "aeiou", ["", "", "n", "r", "s", "l"]

    def syllable() -> str:
        return dice.choice(onset) + dice.choice(vowel) + dice.choice(coda)

    return ["".join(syllable() for _ in range(dice.randint(2, 4))) for _ in range(count)]


def urls(count: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """That many different (loc, lastmod) pairs."""
    dice = random.Random(seed)
    vocabulary = words()
    for n in range(count):
        slug = f"{n:x}"
        while len(BASE) + 9 + len(slug) < LENGTH:
            slug = f"{dice.choice(vocabulary)}-{slug}"
        loc = f"{BASE}products/{slug}"[: LENGTH - len(f"-{n:x}")] + f"-{n:x}"
        yield loc, f"20{dice.randint(10, 26)}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"


def ndjson(count: int, seed: int = 1) -> Iterator[str]:
    """The same as lines of add events."""
    for loc, lastmod in urls(count, seed):
        yield json.dumps({"op": "add", "loc": loc, "lastmod": lastmod}) + "\n"
