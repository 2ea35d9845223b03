"""What each page inherits from files of its folder and of those above (`generators`).

1. A walk comes to a folder before those below it, and `learn` reads its files then; `of` says what a page has
   from them. When such a file changes and gives other things than before, all below is looked at with it.
2. Only the fields that an entry depends on count. Their digest is in the page's row (`cache`), so that a page
   is read again when what it inherits is another, after a restart too, and only then.
3. While such a file can't be read, or not be made sense of, all that may inherit from it stays as it was.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from collections.abc import Mapping as Fields
from functools import partial
from typing import Final, NamedTuple

from producers.filesystem.front_matter import FrontMatterError
from producers.filesystem.generators import GENERATORS, Generator, Rule, matches
from producers.filesystem.paths import is_file, joined, read_start, upwards
from producers.filesystem.problems import Problem

MOST_BYTES: Final = 1 << 20
"""How much of a file is read that pages inherit from."""


class Inherited(NamedTuple):
    """What one page inherits."""

    fields: Fields[str, object] = {}
    merges: bool = False
    why: str = ""
    """Why it is not to be listed, whatever it says of itself."""
    digest: int = 0
    """Of all that; 0 when it inherits nothing."""
    known: bool = True
    """False while a file that it may inherit from can't be read."""

    def under(self, own: dict[str, object]) -> dict[str, object]:
        """The page's own fields, and those that it inherits."""
        return _layered((own, self.fields), merges=self.merges) if self.fields else own


NOTHING: Final = Inherited()
_UNKNOWN: Final = Inherited(known=False)


class Inheritance:
    """What the folders of one root give to pages, as far as a walk came.

    `wanted` are the fields that count, by their plain names; `report` gets what can't be made sense of.
    Without `follow` no page inherits from a link.
    """

    def __init__(
        self,
        generator: str,
        root: bytes,
        *,
        wanted: frozenset[str],
        report: Callable[[Problem], None],
        follow: bool,
    ) -> None:
        self._generator = GENERATORS.get(generator)
        self._root = root
        self._wanted = wanted
        self._report = report
        self._follow = follow
        self._folders: dict[bytes, tuple[Rule, ...] | None] = {}
        # Files come folder by folder.
        self._folder: bytes | None = None
        self._rules: tuple[Rule, ...] | None = ()
        self._results: dict[tuple[int, ...], Inherited] = {}

    def learn(self, folder: bytes, names: Iterable[bytes] | None = None) -> bool:
        """Read what a folder gives to pages; True when that is not what it gave before.

        `names` are those in the folder, where the caller has them.
        """
        if self._generator is None:
            return False
        listed = self._listed(folder) if names is None else list(names)
        rules = self._read(self._generator, folder, listed)
        if rules == self._folders.get(folder, ()):
            return False
        self._folders[folder] = rules
        if rules == ():
            del self._folders[folder]
        self._folder = None
        return True

    def of(self, folder: bytes, name: bytes) -> Inherited:
        """What a file inherits."""
        generator = self._generator
        if generator is None or not self._folders:
            return NOTHING
        if folder != self._folder:
            self._folder, self._rules = folder, self._above(generator, folder)
            self._results = {(): NOTHING}
        if not self._rules:
            return _UNKNOWN if self._rules is None else NOTHING
        aspects = generator.aspects(folder, name)
        key = tuple(n for n, rule in enumerate(self._rules) if matches(rule, aspects))
        found = self._results.get(key)
        if found is None:
            found = self._results[key] = _applied(
                [self._rules[number] for number in key], merges=generator.merges
            )
        return found

    def _above(self, generator: Generator, folder: bytes) -> tuple[Rule, ...] | None:
        """The rules of a folder and of those above it, the nearest first; None when some can't be read."""
        found: list[Rule] = []
        for each in upwards(folder):
            rules = self._folders.get(each, ())
            if rules is None:
                return None
            found += (generator.placed(rule, each) for rule in rules)
        return tuple(found)

    def _read(self, generator: Generator, folder: bytes, names: list[bytes]) -> tuple[Rule, ...] | None:
        if not any(map(generator.parents.fullmatch, names)):
            return ()
        title = os.path.basename(folder or self._root)
        found: list[Rule] = []
        for name in generator.choose(names, folder, title):
            if not generator.parents.fullmatch(name):
                continue
            path = joined(folder, name)
            data = partial(read_start, self._root + b"/" + path, MOST_BYTES)
            try:
                if not is_file(self._root + b"/" + path, follow=self._follow):
                    continue
                rules = generator.read(folder, title, name, data)
            except (OSError, FrontMatterError) as error:
                why = f"can't be read ({error.strerror})" if isinstance(error, OSError) else str(error)
                detail = f"{why}; the pages that may inherit from it stay as they were"
                self._report(Problem(path, "inheritance", detail))
                return None
            for rule in rules:
                fields = {key: value for key, value in rule.fields.items() if key in self._wanted}
                if fields or rule.why:
                    found.append(rule if fields == rule.fields else rule._replace(fields=fields))
        return tuple(found)

    def _listed(self, folder: bytes) -> list[bytes]:
        try:
            return os.listdir(self._root + b"/" + folder)
        except OSError:
            return []


def _applied(rules: list[Rule], *, merges: bool) -> Inherited:
    fields = _layered((rule.fields for rule in rules), merges=merges)
    why = next((rule.why for rule in rules if rule.why), "")
    written = repr((why, sorted(fields.items()))).encode("utf-8", "surrogatepass")
    digest = int.from_bytes(hashlib.blake2b(written, digest_size=7).digest()) or 1
    return Inherited(fields, merges, why, digest)


def _layered(layers: Iterable[Fields[str, object]], *, merges: bool) -> dict[str, object]:
    """The fields of all layers, of which the first wins."""
    found: dict[str, object] = {}
    for layer in layers:
        for name, value in layer.items():
            known = found.setdefault(name, value)
            if merges and known is not value and isinstance(known, dict) and isinstance(value, dict):
                found[name] = _layered((known, value), merges=True)
    return found
