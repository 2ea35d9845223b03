"""Where a shard that outgrew a limit is cut."""

from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.model.protocol import STRICT, Limits
from sitemap_store.shards.render import Sized
from sitemap_store.shards.split import cut, outgrown
from tests.world import BASE


def limits(urls: int, size: int) -> Limits:
    """Small limits."""
    return Limits(urls_per_file=urls, bytes_per_file=size, sitemaps_per_index=9, bytes_per_index=9999)


def pieces(*sizes: int) -> list[Sized]:
    """Pieces of these sizes."""
    return [Sized(f"{BASE}{n:03d}", b"x" * size) for n, size in enumerate(sizes)]


def test_limits_are_inclusive() -> None:
    """49,999 and 50,000 URLs fit, 50,001 do not; exactly the bytes fit, one more does not."""
    for urls, size, broken in [
        (49_999, 1, False),
        (50_000, 1, False),
        (50_001, 1, True),
        (1, 10_485_760, False),
        (1, 10_485_761, True),
    ]:
        assert outgrown(urls, size, STRICT) is broken


def test_a_cut_halves_the_bytes_and_not_the_count() -> None:
    """One heavy entry weighs as much as many light ones."""
    assert cut(pieces(90, 10, 10, 10, 10, 10, 10, 10, 10, 10), 10, limits(5, 1000)) == 1
    assert cut(pieces(10, 10, 10, 10), 10, limits(3, 1000)) == 2


def test_the_first_part_fits_by_count_as_well() -> None:
    """Light entries before heavy ones: no more of them stay than a file may hold."""
    assert cut(pieces(*[1] * 20, 100), 10, limits(6, 1000)) == 6


@given(
    st.lists(st.integers(1, 60), min_size=2, max_size=40),
    st.integers(1, 20),
    st.integers(60, 400),
    st.integers(0, 30),
)
def test_cutting_until_it_fits_loses_nothing(sizes: list[int], urls: int, size: int, frame: int) -> None:
    """Each cut leaves a first part that fits and a rest; in the end all parts fit, in their order."""
    rest, allowed, parts = pieces(*sizes), limits(urls, size + frame), []
    while len(rest) > 1 and outgrown(len(rest), frame + sum(len(p.xml) for p in rest), allowed):
        stay = cut(rest, frame, allowed)
        assert 1 <= stay < len(rest)
        assert not outgrown(stay, frame + sum(len(p.xml) for p in rest[:stay]), allowed)
        parts.append(rest[:stay])
        rest = rest[stay:]
    parts.append(rest)
    assert not outgrown(len(rest), frame + sum(len(p.xml) for p in rest), allowed)
    assert [piece for part in parts for piece in part] == pieces(*sizes)
