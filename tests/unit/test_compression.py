"""Gzip files that are the same for the same bytes, and reading them under a cap."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.shards.compression import TooLarge, compress_snapshot, gunzip_bytes, gzip_bytes


@given(st.binary(max_size=2000))
def test_gzip_and_back(data: bytes) -> None:
    """What is compressed comes back whole."""
    assert gunzip_bytes(gzip_bytes(data), len(data)) == data


def test_a_gzip_file_names_no_time_and_no_file() -> None:
    """Header bytes 3 to 8 of RFC 1952: no flags, so no name, and no time."""
    data = gzip_bytes(b"x" * 1000)
    assert data[:3] == b"\x1f\x8b\x08"
    assert data[3] == 0
    assert data[4:8] == b"\0\0\0\0"


def test_the_cap_is_inclusive() -> None:
    """Exactly the most bytes are read; one more is refused."""
    data = gzip_bytes(b"x" * 1000)
    assert len(gunzip_bytes(data, 1000)) == 1000
    with pytest.raises(TooLarge, match="more than 999 bytes"):
        gunzip_bytes(data, 999)


def test_a_cap_holds_over_several_members() -> None:
    """A gzip file of many small members can't pass the cap piece by piece."""
    with pytest.raises(TooLarge):
        gunzip_bytes(gzip_bytes(b"x" * 100) * 11, 1000)


@pytest.mark.parametrize(
    "data",
    [
        b"no gzip",
        gzip_bytes(b"x" * 1000)[:-4],
        gzip_bytes(bytes(range(256)) * 40)[:30],
        gzip_bytes(b"abc")[:10] + b"\xff\xff\xff\xff" + gzip_bytes(b"abc")[14:],
        gzip_bytes(b"abc")[:-8] + b"\0\0\0\0" + gzip_bytes(b"abc")[-4:],
    ],
    ids=["no gzip", "cut in the trailer", "cut in the body", "bad deflate data", "wrong checksum"],
)
def test_what_is_no_whole_gzip_file_raises_the_errors_it_says(data: bytes) -> None:
    """Callers translate OSError and EOFError: nothing else comes out."""
    with pytest.raises((OSError, EOFError)):
        gunzip_bytes(data, 10_000)


@given(st.binary(max_size=2000))
def test_any_zlib_reads_a_snapshot(data: bytes) -> None:
    """Whichever library compressed, a plain zlib reads it: hosts with and without the extra can share."""
    assert zlib.decompress(compress_snapshot(data)) == data


def test_a_published_file_does_not_depend_on_the_extra_that_is_installed() -> None:
    """Published bytes are zlib's own at level 6 on every host."""
    data = b"<url>" * 5000
    assert gzip_bytes(data) == gzip.compress(data, 6, mtime=0)
