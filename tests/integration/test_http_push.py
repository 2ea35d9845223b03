"""The push API: events in, refusals back, nothing lost and nothing taken from strangers."""

from __future__ import annotations

import dataclasses
import gzip
import json
import time
from collections.abc import Iterator

import httpx
import pytest

from producers.http import Caps
from sitemap_store.model.urls import UrlRules
from sitemap_store.redis.held import accept, held_deletes
from tests.acceptance.until import until
from tests.integration.http_world import JSON, NDJSON, SECRET, HttpWorld, add, ndjson, token
from tests.redis_server import RedisServer
from tests.world import BASE, make_site

MIB = 1024 * 1024


@pytest.fixture
def world(redis_url: str) -> Iterator[HttpWorld]:
    """Give a server whose site has no tokens."""
    world = HttpWorld(redis_url)
    yield world
    world.close()


@pytest.fixture
def guarded(redis_url: str) -> Iterator[HttpWorld]:
    """Give a server whose site has a token for everything, one for the source cms, and one that looks."""
    tokens = (
        token(),
        token("smd_" + "c" * 40, name="cms", sources=["cms"]),
        token("smd_" + "r" * 40, name="reader", sources=[]),
        token("smd_" + "2" * 40, name="two", sources=["cms", "blog"]),
    )
    world = HttpWorld(redis_url, tokens=tokens)
    yield world
    world.close()


def bearer(secret: str = SECRET) -> dict[str, str]:
    """The header of a token."""
    return {"Authorization": f"Bearer {secret}"}


# What goes in


def test_one_event_is_stored_when_the_answer_comes(world: HttpWorld) -> None:
    """A JSON object is one event; 202 means that Redis has it, before any worker ran."""
    answer = world.post(add("tea", lastmod="2026-03-21"))
    assert (answer.status_code, answer.json()) == (202, {"accepted": 1, "refused": []})
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    found = world.store.find(BASE + "tea")
    assert found is not None
    assert found.entry.lastmod == "2026-03-21"


def test_array_and_lines_say_which_was_refused(world: HttpWorld) -> None:
    """In an array the place counts, in NDJSON the line, blank ones too; the others are accepted."""
    answer = world.post([add("a"), {"op": "add", "loc": "/x"}, 7, add("b")])
    assert answer.status_code == 202
    assert answer.json()["accepted"] == 2
    assert [(row["line"], row["rule"]) for row in answer.json()["refused"]] == [
        (2, "not-absolute"),
        (3, "event"),
    ]

    answer = world.post(ndjson(add("c"), "", "{not json}", add("d"), add("e", priority=7)))
    assert answer.status_code == 202
    assert answer.json()["accepted"] == 2
    refused = answer.json()["refused"]
    assert [(row["line"], row["rule"]) for row in refused] == [(3, "json"), (5, "priority")]
    assert refused[1]["loc"] == BASE + "e"
    assert world.locs() == {"a", "b", "c", "d"}
    assert {row["rule"] for row in world.store.rejected()} == {"not-absolute", "event", "json", "priority"}


def test_all_refused_is_422(world: HttpWorld) -> None:
    """When every event was refused the status says so; nothing to do is no failure."""
    assert world.post({"op": "add", "loc": "/x"}).status_code == 422
    assert world.post(ndjson("x", "y")).status_code == 422
    assert world.post([]).status_code == 202
    assert world.post(b"\n\n").status_code == 202
    assert world.locs() == set()


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1,]", b'[{"op":"add"', b"\xff\xfe", b"nope", b"[" * 100_000, b'{"a":\x00}']
)
def test_malformed_json_is_400(world: HttpWorld, body: bytes) -> None:
    """A body that is no JSON is malformed as a whole, and nothing of it is stored."""
    answer = world.post(body, JSON)
    assert answer.status_code == 400
    assert answer.json()["rule"] == "json"
    assert world.locs() == set()


def test_events_apply_in_the_order_of_the_body(world: HttpWorld) -> None:
    """Later events of a body win, over batches too."""
    many = [add(f"p{n % 50}", lastmod=f"2026-01-{n % 28 + 1:02}") for n in range(5000)]
    assert world.post(ndjson(*many, {"op": "delete", "loc": BASE + "p0"})).json()["accepted"] == 5001
    assert world.locs() == {f"p{n}" for n in range(1, 50)}
    found = world.store.find(BASE + "p49")
    assert found is not None
    assert found.entry.lastmod == many[-1]["lastmod"]


def test_gzip_is_unfolded(world: HttpWorld) -> None:
    """Content-Encoding: gzip is taken, several members and padding too."""
    body = gzip.compress(ndjson(add("a"))) + gzip.compress(ndjson(add("b"))) + b"\0" * 20
    assert world.post(body, Content_Encoding="gzip").json()["accepted"] == 2
    assert world.locs() == {"a", "b"}


@pytest.mark.parametrize(
    "body",
    [b"no gzip", gzip.compress(b'{"op":"add"}\n')[:-9], b"", b"\x1f\x8b"],
    ids=["no gzip", "cut off", "empty", "two bytes"],
)
def test_bad_gzip_is_400(world: HttpWorld, body: bytes) -> None:
    """What is no gzip, or ends too early, is malformed."""
    answer = world.post(body, Content_Encoding="gzip")
    assert (answer.status_code, answer.json()["rule"]) == (400, "gzip")


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "zstd"])
def test_other_encodings_are_415(world: HttpWorld, encoding: str) -> None:
    """Encodings that are not understood are refused, not stored as they are."""
    assert world.post(ndjson(add("a")), Content_Encoding=encoding).status_code == 415


def test_only_json_types_are_taken(world: HttpWorld) -> None:
    """A browser's form, another charset or no type at all gets 415: so no web page can push by a form."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"):
        assert world.post(ndjson(add("a")), kind).status_code == 415
    untyped = world.client.build_request("POST", "v1/sites/shop/events", content=b"{}")
    assert world.client.send(untyped).status_code == 415
    assert world.locs() == set()


def test_source_of_the_request_is_that_of_its_events(world: HttpWorld) -> None:
    """`?source=` speaks for the events that name none; a name that is none is 400."""
    assert world.post([add("a"), add("b", source="blog")], query="?source=cms").status_code == 202
    assert world.locs("cms") == {"a"}
    assert world.locs("blog") == {"b"}
    assert world.post(add("c"), query="?source=a%20b").status_code == 400


# Who may


def test_strangers_are_turned_away(guarded: HttpWorld) -> None:
    """No token and a wrong one are 401, another site's is 403; nothing is stored."""
    assert guarded.post(add("a")).status_code == 401
    assert guarded.post(add("a"), Authorization="Bearer wrong").status_code == 401
    assert guarded.post(add("a"), **bearer("smd_" + "o" * 40)).status_code == 403
    assert guarded.post(add("a"), **bearer()).status_code == 202
    assert guarded.client.get("v1/sites/nope/urls?loc=x", headers=bearer()).status_code == 404
    assert guarded.client.get("v1/sites/nope/urls?loc=x").status_code == 401
    assert guarded.locs() == {"a"}


def test_scoped_token_speaks_for_its_source_alone(guarded: HttpWorld) -> None:
    """Its events are of its source, events of others are refused one by one, and so are lists."""
    cms = bearer("smd_" + "c" * 40)
    assert guarded.post(add("mine"), **cms).status_code == 202
    assert guarded.locs("cms") == {"mine"}
    mixed = guarded.post([add("also", source="cms"), add("not", source="blog")], **cms)
    assert mixed.json()["accepted"] == 1
    assert mixed.json()["refused"][0]["rule"] == "scope"
    assert guarded.post(add("x"), query="?source=blog", **cms).status_code == 403
    assert guarded.put("blog", {"loc": BASE + "x"}, **cms).status_code == 403
    assert guarded.put("cms", {"loc": BASE + "mine"}, **cms).status_code == 202

    guarded.post(add("hers", source="blog"), **bearer())
    assert guarded.post({"op": "delete", "loc": BASE + "hers"}, **cms).status_code == 202
    assert guarded.locs("blog") == {"hers"}, "its delete is of its own source's entry alone"

    two = bearer("smd_" + "2" * 40)
    assert guarded.post(add("x"), **two).json()["refused"][0]["rule"] == "scope"
    assert guarded.post(add("x", source="blog"), **two).status_code == 202


def test_reading_token_may_look_and_not_push(guarded: HttpWorld) -> None:
    """A token without sources sees URLs and status, and its pushes are 403."""
    guarded.post(add("a"), **bearer())
    reader = bearer("smd_" + "r" * 40)
    assert guarded.post(add("b"), **reader).status_code == 403
    assert guarded.put("cms", **reader).status_code == 403
    assert guarded.client.get(f"v1/sites/shop/urls?loc={BASE}a", headers=reader).status_code == 200
    assert set(guarded.client.get("v1/status", headers=reader).json()["sites"]) == {"shop"}


def test_secrets_are_not_logged(guarded: HttpWorld, caplog: pytest.LogCaptureFixture) -> None:
    """What was turned away is logged with address and reason, without tokens, query or body."""
    caplog.set_level("INFO")
    guarded.post(
        add("in-the-body"), query="?source=in-the-query", Authorization="Bearer in-the-header-" + "x" * 30
    )
    (record,) = [each for each in caplog.records if each.name == "producers.http.problems"]
    said = record.getMessage()
    assert "401" in said
    assert "127.0.0.1" in said
    assert not any(secret in said for secret in ("in-the-body", "in-the-query", "in-the-header"))


# The same again


def test_same_key_is_answered_as_the_first_time(world: HttpWorld) -> None:
    """A repeated request does nothing, even after others changed the URL, and gets the same answer."""
    body = [add("a"), {"op": "add", "loc": "/x"}]
    first = world.post(body, Idempotency_Key="k-1")
    assert world.post({"op": "delete", "loc": BASE + "a"}).status_code == 202
    again = world.post(body, Idempotency_Key="k-1")
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert again.headers["Idempotent-Replayed"] == "true"
    assert world.locs() == set()
    assert world.post(body, Idempotency_Key="k-2").headers.get("Idempotent-Replayed") is None
    assert world.locs() == {"a"}


def test_same_key_for_another_body_is_422(world: HttpWorld) -> None:
    """A key that comes with another body or another query is a mistake of the client."""
    world.post(add("a"), Idempotency_Key="k")
    for answer in (
        world.post(add("b"), Idempotency_Key="k"),
        world.post(add("a"), query="?source=x", Idempotency_Key="k"),
    ):
        assert (answer.status_code, answer.json()["rule"]) == (422, "idempotency-key")
    assert world.locs() == {"a"}


def test_key_is_the_tokens_own(guarded: HttpWorld) -> None:
    """Two tokens may use the same key; neither sees the other's answer."""
    guarded.post(add("a"), Idempotency_Key="k", **bearer())
    answer = guarded.post(add("b"), Idempotency_Key="k", **bearer("smd_" + "c" * 40))
    assert answer.json() == {"accepted": 1, "refused": []}
    assert "Idempotent-Replayed" not in answer.headers


def test_request_under_way_keeps_its_key(world: HttpWorld) -> None:
    """While a request is under way, another with its key is told to come again."""

    def slowly() -> Iterator[bytes]:
        yield ndjson(add("a"))
        deadline = time.monotonic() + 10
        while not world.store.client.keys("*:once:*") and time.monotonic() < deadline:
            time.sleep(0.01)
        busy.append(world.post(ndjson(add("a")), Idempotency_Key="k"))
        yield ndjson(add("b"))

    busy: list[httpx.Response] = []
    assert world.post(slowly(), Idempotency_Key="k").json()["accepted"] == 2
    assert busy[0].status_code == 409
    assert busy[0].headers["Retry-After"] == "1"


def test_request_that_failed_may_be_sent_again(world: HttpWorld) -> None:
    """A request that was cut off gives its key back; what is sent again can't undo what came meanwhile."""
    broken = world.post(ndjson(add("a"), add("b"))[:-10] + b"x" * (2 * MIB), JSON, Idempotency_Key="k")
    assert broken.status_code in (400, 413)
    world.post(ndjson(add("a")))
    world.post({"op": "delete", "loc": BASE + "a"})
    again = world.post(ndjson(add("a"), add("b")), Idempotency_Key="k")
    assert again.json()["accepted"] == 2
    assert world.locs() == {"b"}


def test_key_is_remembered_for_a_day(world: HttpWorld) -> None:
    """What is kept of keys lives 24 hours in Redis after the last of them, and is small."""
    world.post(add("a"), Idempotency_Key="k")
    names = list(world.redis.keys("sm:*once*"))
    assert len(names) == 3
    for name in names:
        assert 86_000_000 < world.redis.pttl(name) <= 86_400_000
        assert 0 < (world.redis.memory_usage(name) or 0) < 400


@pytest.mark.parametrize("key", ["", "x" * 256, "a\x7fb"])
def test_key_must_be_a_key(world: HttpWorld, key: str) -> None:
    """A key that is empty, too long or not visible is 400."""
    assert world.post(add("a"), Idempotency_Key=key).status_code == 400


# Lists


def test_list_makes_only_the_difference(world: HttpWorld) -> None:
    """A list adds, updates and deletes what differs in its source, and touches no other's entries."""
    world.post(add("other", source="blog"))
    old = [{"loc": f"{BASE}p{n}", "lastmod": "2026-01-01"} for n in range(200)]
    assert world.put("cms", *old).json()["added"] == 200
    before = world.store.unfolded()
    new = [{**row, "lastmod": "2026-02-02"} if n < 3 else row for n, row in enumerate(old[:195])]
    answer = world.put("cms", *new, {"loc": BASE + "new"})
    assert answer.status_code == 202
    assert answer.json() == {
        "listed": 200,
        "added": 1,
        "updated": 3,
        "deleted": 5,
        "unchanged": 192,
        "held": 0,
        "refused": [],
    }
    assert world.store.unfolded() - before == 9
    assert world.locs("cms") == {f"p{n}" for n in range(195)} | {"new"}
    assert world.locs("blog") == {"other"}
    assert world.put("cms", *new, {"loc": BASE + "new"}).json()["unchanged"] == 196


def test_list_that_would_delete_too_much_changes_nothing(world: HttpWorld) -> None:
    """Over a fifth of the source, or all of it, is 409 and changes nothing, until deletes are accepted."""
    rows = [{"loc": f"{BASE}p{n}"} for n in range(600)]
    world.put("cms", *rows)
    for some in (rows[:450], []):
        answer = world.put("cms", *some)
        assert (answer.status_code, answer.json()["rule"]) == (409, "mass-delete")
        assert answer.json()["deletes"] == 600 - len(some)
        assert "accept_deletes=true" in answer.json()["detail"]
        assert held_deletes(world.store)["cms"].deletes == 600 - len(some)
    assert len(world.locs("cms")) == 600
    assert world.put("cms", *rows[:450], query="?accept_deletes=true").json()["deleted"] == 150
    assert world.put("cms", query="?accept_deletes=1").json()["deleted"] == 450
    assert world.put("cms").status_code == 202, "nothing is listed, so nothing is deleted"
    assert held_deletes(world.store) == {}
    assert world.put("cms", query="?accept_deletes=perhaps").status_code == 400


def test_list_that_is_held_passes_when_it_was_accepted(world: HttpWorld) -> None:
    """What an operator accepted by the command passes with the next list, and that list alone."""
    rows = [{"loc": f"{BASE}p{n}"} for n in range(200)]
    world.put("cms", *rows)
    assert world.put("cms").status_code == 409
    accept(world.store, "cms", held_deletes(world.store)["cms"])
    assert world.put("cms").json()["deleted"] == 200
    world.put("cms", *rows)
    assert world.put("cms").status_code == 409


def test_list_with_bad_lines_deletes_nothing_by_mistake(world: HttpWorld) -> None:
    """A URL with a bad date stays as it is; a line that can't be read holds the deletes back."""
    world.put("cms", *[{"loc": f"{BASE}p{n}", "lastmod": "2026-01-01"} for n in range(4)])
    answer = world.put(
        "cms", {"loc": BASE + "p0", "lastmod": "soon"}, {"loc": BASE + "p1"}, {"loc": BASE + "p2"}
    )
    assert (answer.json()["deleted"], answer.json()["held"]) == (1, 0)
    assert answer.json()["refused"][0]["rule"] == "lastmod"
    assert world.locs("cms") == {"p0", "p1", "p2"}
    answer = world.put("cms", {"loc": BASE + "p1"}, "{half a li")
    assert (answer.json()["deleted"], answer.json()["held"]) == (0, 2)
    assert world.locs("cms") == {"p0", "p1", "p2"}
    answer = world.put("cms", {"op": "delete", "loc": BASE + "p1"}, {"loc": BASE + "p2", "source": "blog"})
    assert [row["rule"] for row in answer.json()["refused"]] == ["op", "source"]


def test_list_that_breaks_off_changes_nothing(world: HttpWorld) -> None:
    """A client that goes away in the middle of its list has deleted nothing."""
    world.put("cms", *[{"loc": f"{BASE}p{n}"} for n in range(50)])
    body = ndjson(*[{"loc": f"{BASE}p{n}"} for n in range(10)])
    head = (
        "PUT /v1/sites/shop/sources/cms?accept_deletes=true HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: {NDJSON}\r\nContent-Length: {len(body) + 5000}\r\n\r\n"
    )
    world.raw(head.encode() + body, end=True)
    chunked = head.replace(f"Content-Length: {len(body) + 5000}", "Transfer-Encoding: chunked")
    world.raw(chunked.encode() + b"%x\r\n" % len(body) + body + b"\r\n", end=True)
    assert len(world.locs("cms")) == 50

    def again() -> httpx.Response:
        answer = world.put("cms", *[{"loc": f"{BASE}p{n}"} for n in range(50)])
        assert answer.status_code != 409, "the server has not seen yet that the client is gone"
        return answer

    assert until(again, what="the list is over").json()["unchanged"] == 50


def test_what_happens_during_a_list_stays(world: HttpWorld) -> None:
    """An event that comes while a list is on its way is newer than the list."""

    def slowly() -> Iterator[bytes]:
        yield ndjson({"loc": BASE + "a"}, {"loc": BASE + "b"})
        world.post({"op": "delete", "loc": BASE + "b"})
        world.post(add("c", source="cms"))
        yield ndjson({"loc": BASE + "d"})

    answer = world.client.put(
        "v1/sites/shop/sources/cms?accept_deletes=true", content=slowly(), headers={"Content-Type": NDJSON}
    )
    assert answer.status_code == 202
    assert world.locs("cms") == {"a", "c", "d"}


def test_list_must_be_ndjson(world: HttpWorld) -> None:
    """A list comes as NDJSON, and a source has a name."""
    assert world.put("cms", Content_Type=JSON).status_code == 415
    assert world.put("a%20b").status_code == 400


# Looking


def test_url_is_found_in_any_spelling(world: HttpWorld) -> None:
    """A look-up normalises; what is not listed is 404 and what is no URL of the site 422."""
    world.post(add("%7Euser/é", lastmod="2026-03-21", priority=0.8), query="?source=cms")
    ask = {"loc": "HTTPS://EXAMPLE.com:443/~user/%C3%A9"}
    found = world.client.get("v1/sites/shop/urls", params=ask).json()
    assert found["loc"] == BASE + "~user/%C3%A9"
    assert (found["lastmod"], found["priority"], found["source"]) == ("2026-03-21", "0.8", "cms")
    assert (found["section"], found["shard"], found["file"]) == ("pages", 1, None)
    for loc, status in ((BASE + "no", 404), ("https://other.example/", 422), ("x", 422)):
        assert world.client.get("v1/sites/shop/urls", params={"loc": loc}).status_code == status
    assert world.client.get("v1/sites/shop/urls").status_code == 400


def test_url_that_the_site_no_longer_covers_is_found_as_it_is_spelled(
    world: HttpWorld, redis_url: str
) -> None:
    """`base_url` and `strip_query` hold for adds; another spelling of what is covered is found as before."""
    world.post([add("old"), add("shop/a"), add("shop/b?ref=x"), add("shop/c")])
    rules = UrlRules(base=f"{BASE}shop/", strip_query=frozenset({"ref"}))
    later = HttpWorld(redis_url, site=dataclasses.replace(make_site(), rules=rules))
    try:
        for asked, status, loc in (
            ("old", 200, "old"),
            ("older", 422, ""),
            ("shop/b?ref=x", 200, "shop/b?ref=x"),
            ("shop/c?ref=x", 200, "shop/c"),
            ("shop/d?ref=x", 404, ""),
        ):
            found = later.client.get("v1/sites/shop/urls", params={"loc": BASE + asked})
            assert (found.status_code, found.json().get("loc", "")) == (status, loc and BASE + loc), asked
    finally:
        later.close()


def test_extensions_come_in_with_warnings(world: HttpWorld) -> None:
    """What is wrong in them is left out and said; a strict event is refused; the look-up shows the rest."""
    ext = {"images": ["/a.jpg", "https://cdn.example.net/b c.jpg"]}
    answer = world.post(ndjson(add("a", ext=ext), add("b", ext=ext, strict=True)))
    body = answer.json()
    assert (answer.status_code, body["accepted"]) == (202, 1)
    (warning,) = body["warnings"]
    assert "'/a.jpg' is not absolute" in warning
    (refusal,) = body["refused"]
    assert (refusal["loc"], refusal["rule"]) == (BASE + "b", "ext")
    found = world.client.get("v1/sites/shop/urls", params={"loc": BASE + "a"}).json()
    assert found["ext"] == {"images": ["https://cdn.example.net/b%20c.jpg"]}


def test_a_list_with_the_same_extensions_changes_nothing(world: HttpWorld) -> None:
    """However they are written: only what differs becomes events."""
    first = {"loc": BASE + "a", "ext": {"images": "https://x.example/a b"}}
    again = {"loc": BASE + "a", "ext": {"images": [{"loc": "https://x.example/a%20b"}], "videos": []}}
    other = {"loc": BASE + "a", "ext": {"images": ["https://x.example/b"]}}
    results = []
    for wanted in (first, again, other):
        answer = world.put("cms", wanted).json()
        results.append((answer["added"], answer["updated"], answer["unchanged"]))
    assert results == [(1, 0, 0), (0, 0, 1), (0, 1, 0)]


def test_schema_of_an_event_is_served(world: HttpWorld) -> None:
    """As JSON, to anybody."""
    schema = world.client.get("v1/event.schema.json").json()
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert schema["$defs"]["Ext"]["properties"]["images"]


def test_status_and_document_are_served(world: HttpWorld) -> None:
    """The status has the visible sites; the OpenAPI document needs no token."""
    world.post(add("a"))
    assert world.client.get("v1/status").json()["sites"]["shop"]["unfolded_events"] == 1
    document = world.client.get("v1/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert "/v1/sites/{site}/events" in document["paths"]


def test_other_methods_are_405(world: HttpWorld) -> None:
    """Each address has its method."""
    assert world.client.get("v1/sites/shop/events").status_code == 405
    assert world.client.post("v1/sites/shop/sources/cms").status_code == 405
    assert world.client.delete("v1/sites/shop/urls").status_code == 405


# Too much, and Redis away


def test_body_over_the_cap_is_413(redis_url: str) -> None:
    """A declared length is turned away at once; a streamed body when it gets there, and says what it took."""
    world = HttpWorld(redis_url, caps=Caps(body=300_000))
    try:
        declared = world.raw(
            b"POST /v1/sites/shop/events HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/x-ndjson\r\nContent-Length: 1073741824\r\n\r\n"
        )
        assert declared.startswith(b"HTTP/1.1 413")

        def endless() -> Iterator[bytes]:
            for n in range(1000):
                yield ndjson(*[add(f"p{n}-{k}") for k in range(100)])

        answer = world.post(endless())
        assert answer.status_code == 413
        assert answer.headers["Connection"] == "close"
        accepted = answer.json()["accepted"]
        assert 0 < accepted == len(world.locs())
    finally:
        world.close()


def test_backlog_is_429(redis_url: str) -> None:
    """While too much waits to be folded, events are put off; nothing of them is stored."""
    world = HttpWorld(redis_url, max_unfolded=10)
    try:
        assert world.post([add(f"p{n}") for n in range(10)]).status_code == 202
        # What is known of the backlog is half a second old at the most.
        until(lambda: world.post(add("more")).status_code == 429, what="events are put off")
        answer = world.post(add("more"))
        assert answer.status_code == 429
        assert int(answer.headers["Retry-After"]) > 0
        assert world.put("cms", {"loc": BASE + "x"}).status_code == 429
        assert world.locs("cms") == set()
    finally:
        world.close()


def test_redis_away_is_503_and_then_goes_on(redis_url: str, any_redis: RedisServer) -> None:
    """Without Redis nothing is accepted; the same request is taken when it is back."""
    world = HttpWorld(redis_url)
    try:
        with any_redis.client() as client:  # else Redis may hold a write back while it syncs an earlier one
            client.config_set("appendfsync", "always")
        assert world.post(add("a")).status_code == 202
        any_redis.stop(kill=True)
        for answer in (
            world.post(add("b"), Idempotency_Key="k"),
            world.put("cms", {"loc": BASE + "c"}),
            world.client.get(f"v1/sites/shop/urls?loc={BASE}a"),
            world.client.get("v1/status"),
        ):
            assert (answer.status_code, answer.json()["rule"]) == (503, "unavailable")
            assert int(answer.headers["Retry-After"]) > 0
        any_redis.start()
        # What was under way while Redis was away may take its time to see that it is back.
        until(lambda: world.post(add("b"), Idempotency_Key="k").status_code == 202, what="b is taken")
        assert world.locs() == {"a", "b"}
    finally:
        any_redis.start()
        world.close()


def test_a_key_is_given_back_after_an_outage(
    redis_url: str, any_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis goes away in the middle of a request: its repetition is taken, however long a key is held."""
    monkeypatch.setattr("sitemap_store.redis.once.HOLD_MS", 600_000)
    monkeypatch.setattr("producers.http.idempotency.HOLD_MS", 600_000)
    world = HttpWorld(redis_url)
    lines = ndjson(add("a")), ndjson(add("b"))

    def cut_off() -> Iterator[bytes]:
        yield lines[0]
        until(lambda: bool(world.store.client.keys("*:once*")), what="the key is held")
        any_redis.stop(kill=True)
        yield lines[1]

    try:
        with any_redis.client() as client:
            client.config_set("appendfsync", "always")
        assert world.post(cut_off(), Idempotency_Key="k").status_code == 503
        any_redis.start()
        assert world.post(b"".join(lines), Idempotency_Key="k").status_code in (202, 409)
        until(
            lambda: world.post(b"".join(lines), Idempotency_Key="k").status_code == 202,
            what="the key is given back",
        )
        assert world.locs() == {"a", "b"}
    finally:
        any_redis.start()
        world.close()


def test_redis_that_hangs_is_503(redis_url: str, any_redis: RedisServer) -> None:
    """A Redis that does not answer ends in 503 within the patience, and not in a pile of requests."""
    import os
    import signal

    world = HttpWorld(redis_url, caps=Caps(redis=1.5))
    assert any_redis.pid is not None
    try:
        assert world.post(add("a")).status_code == 202
        os.kill(any_redis.pid, signal.SIGSTOP)
        assert world.post(add("b")).status_code == 503
    finally:
        os.kill(any_redis.pid, signal.SIGCONT)
        world.close()


def test_every_site_knows_its_own(redis_url: str) -> None:
    """A token of one site pushes to that site alone."""
    world = HttpWorld(redis_url, tokens=(token(),))
    try:
        body = json.dumps(add("a"))
        headers = {"Content-Type": JSON, **bearer("smd_" + "o" * 40)}
        assert world.client.post("v1/sites/other/events", content=body, headers=headers).status_code == 202
        assert world.locs() == set()
    finally:
        world.close()
