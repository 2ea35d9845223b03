"""`backup` and `restore FILE` with real processes, while they run."""

from __future__ import annotations

import gzip
import stat

from tests.acceptance.place import BASE, Place, add, delete, settings, update
from tests.published import listed, picture, published
from tests.redis_server import RedisServer


def test_a_backup_under_load_and_a_newer_tree_agree(place: Place, any_redis: RedisServer) -> None:
    """Redis is lost: what was published since comes from the tree, sources and tombstones from the file."""
    any_redis.flush()
    place.configure(settings(any_redis.url, shard_size=5))
    place.worker()
    place.events(*[add(f"p/{n}", source="cms") for n in range(40)], delete("gone"))
    place.wait()
    made = place.ok("backup", "site.backup", "--json").json
    assert (made["urls"], made["events"]) == (40, 0)
    file = place.folder / "site.backup"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.stat().st_size == made["bytes"]
    place.events(update("p/1", priority=0.9), delete("p/2"), *[add(f"q/{n}") for n in range(7)])
    place.wait()
    tree, lastmods = picture(place.output), listed(place.output)
    any_redis.flush()
    place.events(add("meanwhile"))

    restored = place.ok("restore", "site.backup", "--json").json
    assert restored["newer"] >= 2
    assert restored["newer_urls"] > 0
    place.wait()
    now = {f"p/{n}" for n in range(40) if n != 2} | {f"q/{n}" for n in range(7)} | {"meanwhile"}
    assert published(place.output).keys() == {BASE + path for path in now}
    assert all(listed(place.output)[name] >= lastmod for name, lastmod in lastmods.items())
    same = [name for name, state in tree.items() if picture(place.output).get(name) == state]
    assert len(same) >= 7, "shards without an event stay as they are"
    assert place.ok("show", BASE + "p/1", "--json").json["source"] == "cms"
    place.events(add("gone", at="2020-01-01T00:00:00Z"), delete("p/3", source="other"))
    place.wait()
    assert published(place.output).keys() == {BASE + path for path in now}


def test_a_backup_goes_through_a_pipe(place: Place, any_redis: RedisServer) -> None:
    """`-` is standard output, and standard input; a lost output comes back byte for byte."""
    any_redis.flush()
    place.configure(settings(any_redis.url, shard_size=5))
    place.worker()
    place.events(*[add(f"p/{n}") for n in range(12)])
    place.wait()
    before = {name: state[0] for name, state in picture(place.output).items()}
    place.ok("backup", "site.backup")
    data = (place.folder / "site.backup").read_bytes()
    for name in before:
        (place.output / name).unlink()
    any_redis.flush()
    assert "Restored 12 URLs in 3 shards from standard input" in place.ok("restore", "-", stdin=data).out
    place.wait()
    assert {name: state[0] for name, state in picture(place.output).items()} == before


def test_what_cannot_be_restored_is_said_in_a_sentence(place: Place, any_redis: RedisServer) -> None:
    """Over a state, from a damaged file, from a newer version, from nothing: and nothing is changed."""
    any_redis.flush()
    place.configure(settings(any_redis.url))
    worker = place.worker()
    place.events(add("a"))
    place.wait()
    place.ok("backup", "site.backup")
    over = place.command("restore", "site.backup")
    assert (over.code, over.out) == (1, "")
    assert "holds a state of site main" in over.err
    assert worker.stop() == 0
    any_redis.flush()
    data = (place.folder / "site.backup").read_bytes()
    newer = gzip.compress(gzip.decompress(data).replace(b'"version":1', b'"version":2', 1))
    for content, said in ((data[:-20], "cut off"), (newer, "format version 2"), (b"", "no backup")):
        (place.folder / "bad.backup").write_bytes(content)
        refused = place.command("restore", "bad.backup")
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
        assert said in refused.err
    assert "can't be read" in place.command("restore", "nowhere.backup").err
    assert "no state" in place.command("backup", "other.backup").err
    assert not (place.folder / "other.backup").exists()
    assert not list(place.folder.glob(".*.tmp"))
    assert "can't be written" in place.command("backup", "nowhere/site.backup").err
