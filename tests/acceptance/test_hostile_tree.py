"""A published tree in which somebody put a file that is made to hurt."""

from __future__ import annotations

import pytest

from tests.acceptance.place import BASE, Place, add, settings
from tests.redis_server import RedisServer
from tests.torture import hostile


@pytest.mark.long
@pytest.mark.parametrize("root", ["urlset", pytest.param("sitemapindex", marks=pytest.mark.long)])
def test_a_hostile_tree_is_not_restored(place: Place, any_redis: RedisServer, root: str) -> None:
    """`restore` names the file in one sentence; once that is right again, the whole tree is taken back."""
    any_redis.flush()
    place.configure(settings(any_redis.url))
    worker = place.worker(processes=1)
    place.events(*[add(f"p/{n}") for n in range(5)])
    place.wait()
    worker.stop()
    any_redis.flush()
    file = place.output / ("sitemap.xml" if root == "sitemapindex" else "sitemap-pages-1.xml")
    right, files = file.read_bytes(), hostile.xml(root)
    for name in ("entity bomb", "deep", "gzip bomb", "empty"):
        file.write_bytes(files[name])
        result = place.command("restore")
        assert result.code == 1, name
        assert len(result.err.strip().splitlines()) == 1, result
        assert file.name in result.err
    file.write_bytes(right)
    place.ok("restore")
    place.ok("show", f"{BASE}p/3")
