"""A shard's entries as compressed bytes."""

import datetime
import json
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.model.entries import Entry, Tombstone
from sitemap_store.shards.snapshot import EMPTY, VERSION, Snapshot, SnapshotError, decode, encode
from tests import strategies
from tests.world import BASE, START

WORDS = [
    *("garden", "bench", "oak", "table", "lamp", "brass", "vintage", "winter", "coat", "wool"),
    *("blue", "harbour", "stone", "kettle", "copper", "mirror", "walnut", "shelf", "river", "cotton"),
    *("linen", "spring", "paper", "candle", "silver", "teapot", "leather", "chair", "velvet", "marble"),
]


@given(strategies.snapshots)
def test_a_snapshot_comes_back_whole(snapshot: Snapshot) -> None:
    """Every field of every entry and tombstone survives, in the order of the locs."""
    found = decode(encode(snapshot))
    assert found == snapshot
    assert list(found.entries) == sorted(snapshot.entries)


@given(strategies.snapshots, st.randoms(use_true_random=False))
def test_the_same_entries_give_the_same_bytes(snapshot: Snapshot, shuffler: random.Random) -> None:
    """The order in which a dict was filled leaves no trace."""
    rows, graves = list(snapshot.entries.items()), list(snapshot.tombstones.items())
    shuffler.shuffle(rows)
    shuffler.shuffle(graves)
    assert encode(Snapshot(dict(rows), dict(graves))) == encode(snapshot)


def test_nothing_yet_is_an_empty_snapshot() -> None:
    """A shard that was never folded has no bytes, and one that was emptied has some."""
    assert decode(None) == EMPTY
    assert decode(encode(EMPTY)) == EMPTY


def test_a_shard_of_tombstones_alone_keeps_them() -> None:
    """The last URL's delete leaves no entries, and its tombstone all the same."""
    grave = Tombstone(BASE + "a", START, START + 5, "cms")
    assert decode(encode(Snapshot({}, {grave.loc: grave}))).tombstones == {grave.loc: grave}


def _changed(header: dict[str, object]) -> bytes:
    entry = Entry(BASE + "a", at=START)
    text = zlib.decompress(encode(Snapshot({entry.loc: entry}, {}))).decode()
    first, rest = text.split("\n", 1)
    return zlib.compress(f"{json.dumps(json.loads(first) | header)}\n{rest}".encode())


def test_a_newer_format_is_refused_by_its_number() -> None:
    """A snapshot of a later version is left alone, and the sentence says what to do."""
    with pytest.raises(SnapshotError, match=f"version {VERSION + 1}.*run the newer sitemapd"):
        decode(_changed({"v": VERSION + 1}))


def test_an_unknown_column_is_refused() -> None:
    """Writing the shard again without that column would lose what it held."""
    with pytest.raises(SnapshotError, match="hreflang"):
        decode(_changed({"columns": ["loc", "hreflang"]}))


@pytest.mark.parametrize(
    "header",
    [
        {"n": 2},
        {"n": 0},
        {"d": 1},
        {"base": "0"},
        {"columns": ["loc"]},
        {"columns": "loc"},
        {"sources": None},
    ],
    ids=str,
)
def test_a_header_that_does_not_fit_is_damage(header: dict[str, object]) -> None:
    """Columns, counts and lines have to agree; nothing is read half."""
    with pytest.raises(SnapshotError, match="damaged"):
        decode(_changed(header))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no zlib",
        zlib.compress(b""),
        zlib.compress(b"[]"),
        zlib.compress(b"{}"),
        zlib.compress(b"null"),
        zlib.compress(b"\xff\xfe"),
        encode(EMPTY)[:-3],
    ],
    ids=["empty", "no zlib", "no header", "a list", "no version", "null", "no UTF-8", "cut"],
)
def test_what_is_no_snapshot_is_damage(data: bytes) -> None:
    """Whatever Redis gives back, it is an error of ours and not a stranger."""
    with pytest.raises(SnapshotError, match="damaged"):
        decode(data)


@given(strategies.snapshots, st.data())
def test_a_flipped_byte_is_never_read_as_other_entries(snapshot: Snapshot, data: st.DataObject) -> None:
    """zlib's checksum sees to it that damage is an error and never a different shard."""
    whole = bytearray(encode(snapshot))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    try:
        found = decode(bytes(whole))
    except SnapshotError:
        return
    assert found == snapshot


def test_a_url_of_80_characters_costs_less_than_40_bytes() -> None:
    """A thousand slugs of words with dates of their own: what makes 60 bytes of Redis per URL possible."""
    shuffler = random.Random(7)
    rows: dict[str, Entry] = {}
    while len(rows) < 1000:
        slug = "-".join(shuffler.choice(WORDS) for _ in range(12))
        loc = f"{BASE}products/{slug}"[:76].rstrip("-") + f"-{shuffler.randrange(1000):03d}"
        day = datetime.date(2020, 1, 1) + datetime.timedelta(days=shuffler.randrange(2200))
        rows[loc] = Entry(loc, day.isoformat(), at=START + shuffler.randrange(3000), source="cms")
    assert sum(map(len, rows)) / 1000 == pytest.approx(79, abs=1.5)
    size = len(encode(Snapshot(rows, {})))
    assert size / 1000 < 40
