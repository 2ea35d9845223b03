"""Desired lines against listed lines."""

from hypothesis import given
from hypothesis import strategies as st

from producers.database import compare
from producers.database.compare import Comparison, Lines, too_many

locs = st.sampled_from([f"https://example.com/{n}" for n in range(6)])
dates = st.sampled_from(["", "2026-01-01", "2026-01-02T00:00:00Z", "2026-01-01T23:00:00-02:00"])
lines = st.tuples(locs, dates).map(lambda pair: f"{pair[0]}\t{pair[1]}\t\t\t")


@given(st.lists(lines), st.dictionaries(locs, dates), st.integers(1, 3))
def test_the_difference_is_a_plain_dicts(wanted: list[str], listed: dict[str, str], buffered: int) -> None:
    """Adds where the newest line differs from what is listed, deletes where no line is wanted."""
    with Comparison(buffered=buffered) as comparison:  # so few that files are used
        for line in wanted:
            comparison.wanted.add([line])
        comparison.listed.add(f"{loc}\t{date}\t\t\t" for loc, date in listed.items())
        adds: set[str] = set()
        deletes: set[str] = set()
        for difference in comparison.differences():
            adds.update(difference.add)
            deletes.update(difference.delete)
    best: dict[str, str] = {}
    for line in wanted:
        loc = line.split("\t")[0]
        if loc not in best or compare._rank(line) > compare._rank(best[loc]):
            best[loc] = line
    have = {loc: f"{loc}\t{date}\t\t\t" for loc, date in listed.items()}
    # A listed line that is wanted too counts as unchanged, be it the newest or not.
    expected = {line for loc, line in best.items() if line != have.get(loc)}
    assert adds == expected
    assert deletes == set(have) - set(best)


def test_lines_come_out_about_in_the_order_of_the_rows() -> None:
    """They are parted by chance to be compared; rows that lie together are still sent near each other."""
    count = 64_000
    with Comparison() as comparison:
        comparison.wanted.add(f"https://example.com/{n}\t\t\t\t" for n in range(count))
        adds = Lines()
        for difference in comparison.differences():
            adds.spread(difference.add)
        rows = [int(line.split("\t")[0].rpartition("/")[2]) for lines in adds.chunks(1000) for line in lines]
        adds.close()
    assert sorted(rows) == list(range(count))
    assert max(rows[: count // 10]) < count // 3
    assert min(rows[-count // 10 :]) > count * 2 // 3


def test_how_much_is_too_much() -> None:
    """Up to a hundred are believed whatever share they are."""
    assert not too_many(100, 100, 0.2)
    assert too_many(101, 101, 0.2)
    assert not too_many(200, 1000, 0.2)
    assert too_many(201, 1000, 0.2)
    assert not too_many(1000, 1000, 1)
