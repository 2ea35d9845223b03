"""The load: seeded events of pushers, a folder that is edited and a table that is written to. Pure.

Each generator owns its URLs and knows what they are after its own changes, so renames find something to
rename. What the pushers share are URLs whose every event carries an `at` of its own: whichever comes last,
the one that happened last wins.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from tests.torture import hostile
from tests.torture.model import Entry, Push

OWN: Final = 150
SHARED: Final = 60
HOSTILE: Final = "pages/hostile/"
"""Where the pages of hostile files would be: whether they are listed is their own affair."""
NASTY: Final = tuple(hostile.front_matter())
FREQUENCIES: Final = (None, None, "daily", "weekly", "never")
PRIORITIES: Final = (None, None, "0.0", "0.5", "1.0")


def some_day(chance: random.Random) -> str:
    """A random lastmod: a day or an instant."""
    day = f"2026-{chance.randrange(1, 12):02}-{chance.randrange(1, 29):02}"
    return day if chance.random() < 0.7 else f"{day}T{chance.randrange(24):02}:30:00+01:00"


def some_entry(chance: random.Random) -> Entry:
    """A random entry; half of its fields are left out."""
    lastmod = some_day(chance) if chance.random() < 0.8 else None
    return Entry(lastmod, chance.choice(FREQUENCIES), chance.choice(PRIORITIES))


class Pusher:
    """Events of one pusher: adds, updates, deletes, moves, duplicates and late ones."""

    def __init__(self, name: str, place: int, places: int, chance: random.Random) -> None:
        self.name = name
        self._place = place
        self._places = places
        self._chance = chance
        self._taken: set[int] = set()

    def batch(self, size: int) -> list[Push]:
        """The next events; a move is a delete and an add."""
        found: list[Push] = []
        while len(found) < size:
            found += self._some(found)
        return found[:size]

    def _some(self, so_far: list[Push]) -> list[Push]:
        chance = self._chance
        kind = chance.random()
        if kind < 0.2:
            shared = f"shared/{chance.randrange(SHARED)}"
            if chance.random() < 0.3:
                return [Push("delete", shared, at=self._at())]
            return [Push("add", shared, some_entry(chance), self._at())]
        path = f"{self.name}/{chance.randrange(OWN)}"
        if kind < 0.30 and so_far:
            return [chance.choice(so_far)]
        if kind < 0.40:
            return [
                Push("delete", path),
                Push("add", f"{self.name}/{chance.randrange(OWN)}", some_entry(chance)),
            ]
        if kind < 0.50:
            # It happened long ago: only a URL that nothing was said of yet is listed by it.
            return [Push(chance.choice(("add", "delete")), path, at=self._at())]
        if kind < 0.65:
            return [Push("delete", path)]
        return [Push("add" if kind < 0.85 else "update", path, some_entry(chance))]

    def _at(self) -> int:
        """A time that nobody else names, often one that is long past."""
        while True:
            step = self._chance.randrange(2 * len(self._taken) + 50)
            at = step * self._places + self._place
            if at not in self._taken:
                self._taken.add(at)
                return at


class Step(NamedTuple):
    """One change of a folder (write, remove, move, move-folder, hostile), a table (put, hide, drop, swap).

    `to` of a hostile file names its content in `hostile.front_matter`.
    """

    kind: str
    path: str
    to: str = ""
    lastmod: str = ""


class Folder:
    """Changes of a content folder, and the pages that it then has."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.pages: dict[str, str] = {}
        self.passed: set[str] = set()
        """Paths of URLs that were there after some step, if only until the next."""

    def batch(self, size: int) -> list[Step]:
        """The next changes."""
        steps = []
        for _ in range(size):
            steps.append(self._one())
            self.passed |= self.expected().keys()
        return steps

    def expected(self) -> dict[str, Entry]:
        """What must be listed."""
        return {f"pages/{page}/": Entry(lastmod) for page, lastmod in self.pages.items()}

    def _one(self) -> Step:
        chance, pages = self._chance, self.pages
        if chance.random() < 0.1:
            return Step("hostile", f"hostile/p{chance.randrange(5)}", chance.choice(NASTY))
        kind = chance.random()
        free = f"d{chance.randrange(6)}/p{chance.randrange(40)}"
        if kind < 0.5 or not pages:
            path = free if kind < 0.3 or not pages else chance.choice(sorted(pages))
            pages[path] = some_day(chance)
            return Step("write", path, lastmod=pages[path])
        path = chance.choice(sorted(pages))
        if kind < 0.7:
            del pages[path]
            return Step("remove", path)
        folder, to = path.partition("/")[0], f"d{chance.randrange(6, 12)}"
        if kind < 0.75 and not any(page.startswith(f"{to}/") for page in pages):
            moved = {page: day for page, day in pages.items() if page.startswith(f"{folder}/")}
            for page, day in moved.items():
                del pages[page]
                pages[f"{to}/{page.partition('/')[2]}"] = day
            return Step("move-folder", folder, to)
        pages[free] = pages.pop(path)
        return Step("move", path, free)


class Table:
    """Changes of a table with unique slugs, and the rows that it then has."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.rows: dict[str, tuple[str, bool]] = {}
        self.passed: set[str] = set()
        """Paths of URLs that were there after some step, if only until the next."""

    def batch(self, size: int) -> list[Step]:
        """The next statements, each a transaction of its own."""
        steps = []
        for _ in range(size):
            steps.append(self._one())
            self.passed |= self.expected().keys()
        return steps

    def expected(self) -> dict[str, Entry]:
        """What must be listed."""
        return {f"rows/{slug}": Entry(day) for slug, (day, live) in self.rows.items() if live}

    def _one(self) -> Step:
        chance, rows = self._chance, self.rows
        kind = chance.random()
        if kind < 0.5 or len(rows) < 2:
            slug = f"r{chance.randrange(100)}"
            rows[slug] = (f"2026-{chance.randrange(1, 12):02}-{chance.randrange(1, 29):02}", True)
            return Step("put", slug, lastmod=rows[slug][0])
        slug, other = chance.sample(sorted(rows), 2)
        if kind < 0.65:
            rows[slug] = (rows[slug][0], False)
            return Step("hide", slug)
        if kind < 0.8:
            del rows[slug]
            return Step("drop", slug)
        rows[slug], rows[other] = rows[other], rows[slug]
        return Step("swap", slug, other)
