"""Finds the files of an import: in a folder, or at an address."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from sitemap_store.check.address import UNKNOWN, normal_form, origin_of
from sitemap_store.check.content import Content
from sitemap_store.check.file import first_locs
from sitemap_store.check.folder import address_of, file_at, find_sitemaps, infer_base, is_index
from sitemap_store.check.robots import Robots, read_robots
from sitemap_store.check.tree import FILES_MAX
from sitemap_store.errors import Refused
from sitemap_store.model.protocol import CURRENT
from sitemapd.crawl import DEPTH, Listed, follow
from sitemapd.fetch import Answer, Fetcher
from sitemapd.importing.importer import Importer


def import_folder(
    importer: Importer, root: Path, file: Path | None = None, done: Callable[[Path], None] = lambda _: None
) -> None:
    """Read the sitemaps below a folder, or one file and, if it is an index, what it lists.

    Where there is an index, only listed files are read, as crawlers do. An address stands for the file with
    its path, whatever its host. `done` is called after each file. Raises OSError, and as
    `Importer.read` does.
    """
    files = [file] if file is not None else sorted(find_sitemaps(root), key=_natural)
    robots = root / "robots.txt"
    text = read_robots(robots) if file is None and robots.is_file() else ""
    indexes = [path for path in files if is_index(path)]
    base = infer_base(root, files, indexes, text) or UNKNOWN
    _Folder(importer, root, base, done).run(
        files, indexes, sorted(Robots(text, origin_of(base), "").addresses)
    )


class _Folder:
    def __init__(self, importer: Importer, root: Path, base: str, done: Callable[[Path], None]) -> None:
        self._importer = importer
        self._root = root
        self._base = base
        self._done = done

    def run(self, files: Sequence[Path], indexes: Sequence[Path], listed: Sequence[str]) -> None:
        report = self._importer.report
        roots = [*self._files(listed), *(self._top(indexes) or (() if listed else files))]
        todo: deque[tuple[Path, int]] = deque()
        seen: set[Path] = set()

        def add(paths: Iterable[Path], depth: int) -> None:
            for path in paths:
                if path not in seen:
                    if len(seen) == FILES_MAX:
                        report.add("too-many-files", str(path))
                        return
                    seen.add(path)
                    todo.append((path, depth))

        add(roots, 0)
        while todo:
            path, depth = todo.popleft()
            addresses = self._importer.read(
                Content(path), str(path), address_of(self._base, self._root, path), depth=depth
            )
            if depth == DEPTH and addresses:
                report.add("too-deep", str(path))
                seen.update(self._files(addresses))
            else:
                add(self._files(addresses), depth + 1)
            self._done(path)
        for path in files:
            if path not in seen:
                report.add("unlisted", str(path))

    def _top(self, indexes: Sequence[Path]) -> Sequence[Path]:
        """The index files that no other one lists; all of them where they list one another."""
        listed: set[Path | None] = set()
        for path in indexes:
            below = map(self._file, first_locs(Content(path), path.name, CURRENT.sitemaps_per_index))
            listed.update(each for each in below if each != path)
        return [path for path in indexes if path not in listed] or indexes

    def _files(self, addresses: Iterable[str]) -> Iterator[Path]:
        for address in addresses:
            path = self._file(address)
            if path is None:
                self._importer.report.add("absent", address)
            else:
                yield path

    def _file(self, address: str) -> Path | None:
        try:
            normal = normal_form(address)
        except Refused:
            return None
        here = origin_of(self._base) + normal[len(origin_of(normal)) :]
        return file_at(here, self._base, self._root)


def import_url(
    importer: Importer,
    url: str,
    fetcher: Fetcher,
    *,
    same_site: bool = False,
    done: Callable[[str], None] = lambda _: None,
) -> None:
    """Read what is published at a URL. Raises what `follow` and `Importer.read` do."""
    if same_site:
        address = normal_form(url)
        scheme, _, rest = address.partition("://")
        other = rest.removeprefix("www.") if rest.startswith("www.") else f"www.{rest}"
        fetcher.allow(f"{scheme}://{other}")
    follow(_Visitor(importer), url, fetcher, done)


class _Visitor:
    def __init__(self, importer: Importer) -> None:
        self._importer = importer

    def robots(self, robots: Robots, origin: str) -> None:
        """What it lists, `follow` reads."""

    def sitemap(self, listed: Listed, answer: Answer) -> Iterable[str]:
        importer, address = self._importer, listed.address
        depth = listed.depth
        try:
            addresses = importer.read(Content(answer.path), address, answer.address, depth=depth)
        finally:
            answer.path.unlink()
        if depth == DEPTH and addresses:
            importer.report.add("too-deep", address)
        found = []
        for each in addresses:
            try:
                found.append(normal_form(each))
            except Refused:
                self.absent(each)
        return found

    def absent(self, address: str) -> None:
        self._importer.report.add("absent", address)

    def failed(self, code: str, address: str, value: str, detail: str) -> None:
        shown = value or detail
        self._importer.report.add(code, f"{address} ({shown})" if shown else address)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sorts sitemap-2 before sitemap-10."""
    parts = re.split(r"([0-9]+)", str(path))
    return [(int(part), "") if part.isdigit() and part.isascii() else (-1, part) for part in parts]
