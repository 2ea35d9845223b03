"""Files that are made to hurt are refused, or read, within a bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from producers.filesystem.page import FrontMatterError, read_page
from producers.filesystem.source import FilesystemSource
from sitemap_store.reading.reader import Unreadable, read_index, read_urlset
from tests.torture import hostile

MOST_BYTES = 200 * 1024 * 1024
READERS: dict[str, Callable[[bytes], object]] = {
    "urlset": lambda data: list(read_urlset(data)),
    "sitemapindex": read_index,
}


@contextmanager
def bounded() -> Iterator[None]:
    """Fail where Python's own memory rose by more than `MOST_BYTES`."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("root", READERS)
@pytest.mark.parametrize("name", hostile.xml("urlset"))
def test_hostile_xml_is_refused(root: str, name: str) -> None:
    """Bombs, entities, foreign encodings: one sentence, or nothing that is listed."""
    data = hostile.xml(root)[name]
    with bounded():
        try:
            found = READERS[root](data)
        except Unreadable as error:
            assert "\n" not in str(error)
        else:
            assert "passwd" not in str(found)
            assert "root:" not in str(found)


@pytest.mark.parametrize("name", hostile.front_matter())
def test_hostile_front_matter_is_read_or_refused(name: str) -> None:
    """Bombs, loops, deep and huge things: facts, or the one error that the watcher knows."""
    source = FilesystemSource(name="pages", directory=Path("/nowhere"), url="/{path}/")
    file = b"page.html" if name.startswith("head") else b"page.md"
    with bounded(), suppress(FrontMatterError):
        read_page(hostile.front_matter()[name], file, source, None)
