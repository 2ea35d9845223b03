"""The elements of index files are made once, and say what an index made anew says."""

from __future__ import annotations

from itertools import starmap

from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.model.dates import format_instant
from sitemap_store.shards.render import index, sitemap_xml
from tests.world import make_site
from worker.index import KEPT, Elements

SITE = make_site()

rows = st.dictionaries(
    st.tuples(st.sampled_from(["blog", "pages"]), st.integers(1, 12)), st.integers(0, 2**42), max_size=12
)


def line(section: str, number: int, lastmod: int) -> bytes:
    """A shard as the state lists it."""
    return f"{section} {number} {lastmod} {SITE.shard_file(section, number)}".encode()


@given(st.lists(st.tuples(st.integers(1, KEPT + 3), rows), max_size=8))
def test_an_index_from_what_is_remembered_is_that_made_anew(
    rewrites: list[tuple[int, dict[tuple[str, int], int]]],
) -> None:
    """Whatever changed between its rewrites, and whatever other index files came between them."""
    elements = Elements(SITE)
    for number, shards in rewrites:
        lines = [line(section, shard, lastmod) for (section, shard), lastmod in shards.items()]
        expected = [
            (SITE.address(SITE.shard_file(section, shard)), format_instant(lastmod, always_milliseconds=True))
            for (section, shard), lastmod in sorted(shards.items())
        ]
        assert index(elements.of((0, number), lines)) == index(starmap(sitemap_xml, expected))


def test_no_more_is_remembered_than_said() -> None:
    """Of a thousand index files, those that were written last."""
    elements = Elements(SITE)
    for number in range(1000):
        elements.of((0, number), [line("pages", number, 0)])
    assert len(elements._known) == KEPT
