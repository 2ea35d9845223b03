"""Apps push over HTTP to real processes: what was accepted is published, whatever is restarted in between."""

from __future__ import annotations

import json
import threading
import time
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from rq import Queue, Retry
from rq.serializers import JSONSerializer

from producers.http.auth import hash_of, new_token
from producers.push import Publisher
from sitemap_store.model.wire import PUSH_EVENTS, QUEUE
from sitemap_store.redis.connection import connect
from sitemapd_client import Unavailable
from tests.acceptance.place import BASE, Place, Service, add, settings
from tests.acceptance.until import until
from tests.published import published as published_in

SHORT_SECRET = """
[sites.main.webhooks.x]
signature = {header = "X", secret = "short"}
[[sites.main.webhooks.x.rules]]
op = "add"
loc = "/a"
"""


def address(service: Service) -> str:
    """Where a service serves."""
    said = service.says("Serving at ")
    return said[said.index("http://") :].split()[0]


def published(output: Path) -> set[str]:
    """The paths that the published files list."""
    return {loc.removeprefix(BASE) for loc in published_in(output)}


def client(base: str, token: str | None = None) -> httpx.Client:
    """A client of the push API."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=base, headers=headers, trust_env=False, timeout=30)


def test_curl_line_of_the_readme_publishes(place: Place, redis_url: str) -> None:
    """One JSON event sent to `run` is in the published file; `run` asks for no token on loopback."""
    place.configure(settings(redis_url))
    service = place.service("run", "--port", "0")
    with client(address(service)) as http:
        answer = http.post("v1/sites/main/events", json=add("tea"))
        assert (answer.status_code, answer.json()["accepted"]) == (202, 1)
        place.wait()
        assert published(place.output) == {"tea"}
        found = http.get("v1/sites/main/urls", params={"loc": BASE + "tea"}).json()
        assert found["file"] == "sitemap-pages-1.xml"
        assert http.get("v1/status").json()["sites"]["main"]["urls"] == 1
    assert service.stop() == 0


def test_token_command_gives_what_the_settings_need(place: Place, redis_url: str) -> None:
    """The lines that `token` prints make the token hold; the token is in no log and not in the settings."""
    config = settings(redis_url)
    place.configure(config)
    made = place.ok("token", "cms", "--json").json
    assert made["token"].startswith("smd_")
    assert made["hash"] == hash_of(made["token"])
    secret = place.secret = new_token()
    lines = place.ok("token", "cms", "--source", "cms", "--stdin", stdin=secret.encode()).out
    assert lines.startswith("[sites.main.tokens.cms]")
    place.configure(config + lines)

    base = address(place.service("serve", "--port", "0"))
    with client(base) as stranger, client(base, secret) as app:
        assert stranger.post("v1/sites/main/events", json=add("a")).status_code == 401
        assert app.post("v1/sites/main/events", json=add("a")).status_code == 202
    assert place.ok("show", BASE + "a", "--json").json["source"] == "cms"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            '[sites.main.tokens.cms]\nhash = "smd_pasted-by-mistake"\n',
            "sites.main.tokens.cms.hash: the value",
        ),
        ('[sites.main.tokens.cms]\nhsh = "x"\n', "Did you mean hash?"),
        ("[sites.main.webhooks.x]\nrules = []\n", "sites.main.webhooks.x.rules"),
        (
            '[[sites.main.webhooks.x.rules]]\nop = "add"\nloc = "{nope}"\n',
            "sites.main.webhooks.x.rules.1.loc",
        ),
        (
            '[[sites.main.webhooks.x.rules]]\nop = "add"\nloc = "/{1}"\n',
            "match has no such group",
        ),
        (
            '[[sites.main.webhooks.x.rules]]\nop = "add"\nloc = "/{1}"\nmatch = "("\n',
            "no regular expression",
        ),
        (
            SHORT_SECRET,
            "sites.main.webhooks.x.signature.secret",
        ),
    ],
)
def test_wrong_settings_stop_the_start(place: Place, redis_url: str, more: str, said: str) -> None:
    """A token or webhook that can't work is one sentence and exit 2, and its secret is not in it."""
    place.configure(settings(redis_url) + more)
    place.secret = "pasted-by-mistake"
    assert said in place.command("serve", "--port", "0").refusal()


def test_nothing_is_lost_over_restarts(place: Place, redis_url: str) -> None:
    """Apps push while server and workers are killed and started again: count in = count published.

    Each sends until it is told that its events are stored, so what is published is exactly what was sent.
    """
    place.configure(settings(redis_url, shard_size=200, fsync=False))
    worker = place.worker()
    server = place.service("serve", "--port", "0")
    port = str(urlsplit(address(server)).port)
    stored: set[str] = set()
    over = threading.Event()

    def push(app: int, size: int) -> None:
        with client(f"http://127.0.0.1:{port}/") as http:
            for number in count():
                paths = {f"app-{app}-{number}-{n}" for n in range(size)}
                body = b"".join(json.dumps(add(path)).encode() + b"\n" for path in paths)
                while not accepts(http, body, size):
                    time.sleep(0.02)
                stored.update(paths)
                if over.is_set():
                    return

    apps = [
        threading.Thread(target=push, args=(app, size), daemon=True) for app, size in enumerate((1, 1, 700))
    ]
    for app in apps:
        app.start()
    try:
        for step in range(4):
            goal = len(stored) + 1500

            def reached(goal: int = goal) -> bool:
                return len(stored) >= goal

            until(reached, what="events are accepted")
            if step % 2:
                worker.kill()
                worker = place.worker()
            else:
                server.kill()
                server = place.service("serve", "--port", port)
                server.says("Serving at ")
    finally:
        over.set()
        for app in apps:
            app.join(30)
    assert not any(app.is_alive() for app in apps)
    place.wait()
    assert published(place.output) == stored


def accepts(http: httpx.Client, lines: bytes, events: int) -> bool:
    """Whether the push API stores all of these events."""
    try:
        answer = http.post(
            "v1/sites/main/events", content=lines, headers={"Content-Type": "application/x-ndjson"}
        )
    except httpx.TransportError:
        return False
    return answer.status_code == 202 and answer.json()["accepted"] == events


def test_list_is_published_and_its_leftovers_go(place: Place, redis_url: str) -> None:
    """A PUT list makes the published files hold that source's URLs, and no other's is touched."""
    place.configure(settings(redis_url))
    place.worker()
    place.events(add("from-the-shell"))
    with client(address(place.service("serve", "--port", "0"))) as http:

        def put(*paths: str) -> int:
            body = "".join(json.dumps({"loc": BASE + path}) + "\n" for path in paths)
            headers = {"Content-Type": "application/x-ndjson"}
            return http.put("v1/sites/main/sources/cms", content=body, headers=headers).status_code

        assert put("a", "b", "c") == 202
        place.wait()
        assert published(place.output) == {"from-the-shell", "a", "b", "c"}
        assert put("a", "d") == 202
        place.wait()
        assert published(place.output) == {"from-the-shell", "a", "d"}


def test_python_client_delivers_both_ways(place: Place, redis_url: str) -> None:
    """`Publisher` pushes over HTTP and straight into Redis, needing no configuration file."""
    place.configure(settings(redis_url))
    place.worker()
    base = address(place.service("serve", "--port", "0"))
    with Publisher(base, "main", source="shop", timeout=20) as app:
        for number in range(1200):
            app.add(f"{BASE}http-{number}")
    with Publisher(redis_url, "main", source="shop", timeout=20) as app:
        for number in range(1200):
            app.add(f"{BASE}redis-{number}")
        app.delete(f"{BASE}http-0")
    place.wait()
    assert published(place.output) == {f"http-{n}" for n in range(1, 1200)} | {
        f"redis-{n}" for n in range(1200)
    }


def test_client_waits_out_a_restart(place: Place, redis_url: str) -> None:
    """Events that were put in while the server was away are delivered, in their order, when it is back."""
    place.configure(settings(redis_url))
    place.worker()
    server = place.service("serve", "--port", "0")
    base = address(server)
    app = Publisher(base, "main", timeout=2.0)
    app.add(BASE + "a")
    app.flush(60)
    assert server.stop() == 0
    app.delete(BASE + "a")
    app.add(BASE + "b")
    with pytest.raises(Unavailable):
        app.flush()
    place.service("serve", "--port", str(urlsplit(base).port)).says("Serving at ")
    app.close(60)
    place.wait()
    assert published(place.output) == {"b"}


def test_rq_job_takes_events_in(place: Place, redis_url: str) -> None:
    """An app that runs RQ enqueues events by the job's dotted name; refusals are kept to be looked at."""
    place.configure(settings(redis_url))
    place.worker()
    redis = connect(redis_url)
    queue = Queue(QUEUE, connection=redis, serializer=JSONSerializer)
    queue.enqueue(
        PUSH_EVENTS, "main", [add("a"), add("b"), {"op": "add", "loc": "/x"}], "shop", retry=Retry(max=5)
    )
    queue.enqueue(PUSH_EVENTS, "main", {"op": "add"})
    queue.enqueue(PUSH_EVENTS, "nope", [add("c")])
    queue.enqueue(PUSH_EVENTS, "main", [add("c")], "not a source")
    until(lambda: not len(queue), what="the jobs are taken")
    until(lambda: published(place.output) == {"a", "b"}, what="the events of the job are published")
    redis.close()
    assert place.ok("show", BASE + "a", "--json").json["source"] == "shop"
    (refused,) = place.ok("rejected", "--json").json
    assert (refused["rule"], refused["source"]) == ("not-absolute", "shop")
