"""Checks the sitemaps in a folder, as they will be published at an address."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes

from sitemap_store.check.address import UNKNOWN, origin_of
from sitemap_store.check.content import Content
from sitemap_store.check.file import Facts, first_locs
from sitemap_store.check.robots import Robots, read_robots
from sitemap_store.check.tree import FILES_MAX, Tree
from sitemap_store.model.urls import quote_segment

_HEAD: Final = 4_096
_ROOT: Final = re.compile(rb"<(?:[\w.-]+:)?(urlset|sitemapindex)[\s>/]")
_FILE: Final = re.compile(r".+\.xml(?:\.gz)?|.*sitemap.*\.(?:txt|gz|txt\.gz)|urllist\.txt", re.IGNORECASE)
_NOT_SITES: Final = frozenset({"node_modules", "__pycache__"})
_ASKED: Final = 100
"""Entries of an index that are compared with the files to find the address of the folder."""


def find_sitemaps(root: Path) -> list[Path]:
    """The sitemap and index files below a folder, sorted: by their root element, or by a name with "sitemap".

    Folders whose names begin with a dot are left out, and so are links that lead out of the folder.
    """
    found: list[Path] = []
    real = root.resolve()
    for folder, below, names in os.walk(root):
        below[:] = sorted(each for each in below if not each.startswith(".") and each not in _NOT_SITES)
        for name in sorted(names):
            path = Path(folder, name)
            if not _FILE.fullmatch(name) or not path.resolve().is_relative_to(real):
                continue
            if "sitemap" in name.lower() or name.endswith(".txt") or _ROOT.search(Content(path).head(_HEAD)):
                found.append(path)
                if len(found) > FILES_MAX:
                    return found
    return found


def check_folder(
    tree: Tree,
    root: Path,
    files: Sequence[Path],
    *,
    base: str | None,
    robots: Path | None,
    whole: bool,
    show: Callable[[Path], str] = str,
    done: Callable[[Path], None] = lambda _: None,
) -> str:
    """Check files below a folder and what their indexes list; returns the address that the folder has.

    `base` is that address, in its normal form, where it is known; else it is inferred. `robots` is the
    robots.txt that is published at the root of the address's host. `show` gives the name that findings call a
    file by; `done` is called after each file.
    """
    absent: set[str] = set()
    # An index first: what it lists may have any name.
    indexes = list(filter(is_index, files))
    ordered = dict.fromkeys((*indexes, *files))
    text = read_robots(robots) if robots is not None else ""
    if base is None:
        base = infer_base(root, ordered, indexes, text) or UNKNOWN
    if robots is not None:
        tree.robots[origin_of(base)] = Robots(text, origin_of(base), show(robots))
        for address in sorted(tree.robots[origin_of(base)].addresses):
            _listed_file(address, base, root, absent)
    todo = deque(ordered)
    seen: set[Path] = set()
    while todo:
        path = todo.popleft()
        if path in seen:
            continue
        if len(tree.files) == FILES_MAX:
            tree.findings.add("too-many-files", show(path))
            break
        seen.add(path)
        facts = tree.add(Content(path), show(path), address_of(base, root, path))
        todo.extend(_listed_files(facts, base, root, absent))
        done(path)
    tree.finish(absent, whole=whole)
    return base


def _listed_files(index: Facts, base: str, root: Path, absent: set[str]) -> Iterator[Path]:
    for item in index.sitemaps:
        if (path := _listed_file(item.loc, base, root, absent)) is not None:
            yield path


def _listed_file(address: str, base: str, root: Path, absent: set[str]) -> Path | None:
    """The file that an address leads to; None where there is none, noted as absent if it should be here."""
    path = file_at(address, base, root)
    if path is None and address.startswith(base) and "?" not in address:
        absent.add(address)
    return path


def file_at(address: str, base: str, root: Path) -> Path | None:
    """The file that an address leads to, below the folder that is published at `base`; None for none."""
    if not address.startswith(base) or "?" in address:
        return None
    relative = os.fsdecode(unquote_to_bytes(address.removeprefix(base)))
    if "\x00" in relative:
        return None
    path = root / relative.lstrip("/")
    # The file's own folder as it was named, so that links are not followed twice under two names.
    return path if path.is_file() and path.resolve().is_relative_to(root.resolve()) else None


def address_of(base: str, root: Path, path: Path) -> str:
    """Where a file below a folder is published, when the folder is at `base`."""
    parts = path.relative_to(root).parts
    return base + "/".join(quote_segment(os.fsencode(part)) for part in parts)


def is_index(path: Path) -> bool:
    """Whether a file begins as an index does."""
    match = _ROOT.search(Content(path).head(_HEAD))
    return match is not None and match[1] == b"sitemapindex"


def infer_base(root: Path, files: Iterable[Path], indexes: Iterable[Path], robots: str) -> str | None:
    """The address of a folder: by what its robots.txt and indexes list, else by the first URL of a file."""
    if found := _by_suffix(root, sorted(Robots(robots, UNKNOWN, "").addresses)):
        return found
    for path in indexes:
        if found := _by_suffix(root, first_locs(Content(path), path.name, _ASKED)):
            return found
    for path in files:
        if locs := first_locs(Content(path), path.name, 1):
            return origin_of(locs[0]) + "/"
    return None


def _by_suffix(root: Path, addresses: Iterable[str]) -> str | None:
    for address in addresses:
        start = len(origin_of(address)) + 1
        parts = address[start:].partition("?")[0].split("/")
        for place in range(len(parts)):
            suffix = "/".join(parts[place:])
            relative = os.fsdecode(unquote_to_bytes(suffix))
            if suffix and "\x00" not in relative and (root / relative).is_file():
                return address[: start + len("/".join(parts[:place])) + (place > 0)]
    return None
