"""Redis with Sentinel: the service follows the primary that the sentinels name. A cluster is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.acceptance.place import BASE, Place, add, delete, ndjson, settings
from tests.acceptance.until import until
from tests.published import listed, published, valid_now
from tests.redis_server import any_kind, binary
from tests.sentinels import Node, Sentinels, free_port, sentinels

PASSWORD = "gate-way-17"


@pytest.fixture
def watched() -> Iterator[Sentinels]:
    """Give a primary with a replica, and three sentinels over them."""
    with sentinels(any_kind(), password=PASSWORD) as found:
        yield found


@pytest.mark.slow
def test_a_fail_over_under_load_loses_nothing_that_is_told_again(place: Place, watched: Sentinels) -> None:
    """The primary is killed between pushes: all goes on at the other, and no lastmod goes back."""
    place.secret = PASSWORD
    content = place.folder / "content"
    content.mkdir()
    (content / "early.html").write_text("<p>early")
    watch = f"[sites.main.watch.pages]\ndirectory = {json.dumps(str(content))}\n"
    place.configure(settings(watched.url, shard_size=20) + watch)
    service, watcher = place.worker(), place.service("watch")
    until(lambda: BASE + "early.html" in published(place.output), what="the watched page is published")
    batches = [[add(f"p{batch}-{number}") for number in range(10)] for batch in range(12)]
    batches.append([delete("p0-0"), delete("p1-1")])
    for batch in batches[:6]:
        place.events(*batch)
    place.wait()
    shown = listed(place.output)
    lost = watched.primary()
    lost.kill()
    (content / "late.html").write_text("<p>late")
    for batch in batches[6:]:
        until(partial(_accepts, place, batch), what="a batch is accepted")
    assert watched.primary() is not lost
    # What the replica had not got is pushed again, as docs/reliability.md says; the watcher needs no help.
    for batch in batches:
        place.events(*batch)
    wanted = {BASE + f"p{batch}-{number}" for batch in range(12) for number in range(10)}
    wanted = wanted - {BASE + "p0-0", BASE + "p1-1"} | {BASE + "early.html", BASE + "late.html"}
    until(lambda: published(place.output).keys() == wanted, what="all is published")
    place.wait()
    valid_now(place.output)
    now = listed(place.output)
    assert all(now[name] >= lastmod for name, lastmod in shown.items() if name in now)
    assert service.alive()
    assert watcher.alive()
    # The old primary comes back as a replica, and nobody writes to it.
    lost.start()
    place.events(add("last"))
    place.wait()
    assert BASE + "last" in published(place.output)
    place.ok("doctor")


def _accepts(place: Place, batch: list[dict[str, object]]) -> bool:
    return place.command("push", "-", stdin=ndjson(batch)).code == 0


def test_what_the_sentinels_do_not_know_is_said_in_one_sentence(place: Place, watched: Sentinels) -> None:
    """A wrong service, no sentinel that answers, an address that can't be read: exit 2, no password."""
    place.secret = PASSWORD
    wrong = {
        watched.url.replace("/shop/", "/basket/"): "no sentinel names a primary of 'basket' that is alive",
        f"redis+sentinel://:{PASSWORD}@127.0.0.1:1/shop": "no sentinel names a primary of 'shop'",
        "redis+sentinel://127.0.0.1:99999/shop": "redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB",
        "redis+sentinel://127.0.0.1:26379": "redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB",
    }
    for url, words in wrong.items():
        place.configure(settings(url))
        assert words in place.command("worker").refusal()


def test_a_cluster_of_several_nodes_is_refused_at_the_start(place: Place, tmp_path: Path) -> None:
    """It would answer MOVED to half of the commands, for ever."""
    program = binary(any_kind())
    buses = [free_port(), free_port()]
    nodes = [
        Node(
            program,
            tmp_path / f"node-{bus}",
            ["cluster-enabled yes", f"cluster-port {bus}", "appendonly yes"],
        )
        for bus in buses
    ]
    try:
        for number, node in enumerate(nodes):
            node.start()
            with redis.Redis(port=node.port) as client:
                client.execute_command("CLUSTER ADDSLOTSRANGE", 8192 * number, 8192 * number + 8191)
        with redis.Redis(port=nodes[0].port, decode_responses=True) as client:
            client.execute_command("CLUSTER MEET", "127.0.0.1", nodes[1].port, buses[1])
            until(lambda: "'cluster_size': '2'" in _cluster(client), what="the nodes know each other")
        place.configure(settings(f"redis://127.0.0.1:{nodes[0].port}/0"))
        assert "is a node of a cluster, which sitemapd can't use" in place.command("worker").refusal()
    finally:
        for node in nodes:
            node.kill()


def _cluster(client: redis.Redis) -> str:
    command: Any = client.execute_command
    return str(command("CLUSTER INFO"))
