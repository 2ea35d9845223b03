"""Whatever goes wrong under /v1 is a problem as RFC 9457 has it, with the code of its rule."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import httpx
import pytest

from producers.http import Caps
from producers.http.mapping import Rule, Template
from producers.http.webhooks import Webhook
from tests.integration.http_world import HttpWorld, add, ndjson
from tests.world import BASE


@pytest.fixture
def world(redis_url: str) -> Iterator[HttpWorld]:
    """Give a server whose bodies may have 10,000 bytes, with a webhook and a watched folder."""
    hook = Webhook(rules=(Rule(op="add", loc=Template.parse("/n/{/slug}")),))
    world = HttpWorld(
        redis_url, caps=Caps(body=10_000), webhooks={"cms": hook}, owners={"pages": "a watched folder"}
    )
    yield world
    world.close()


def problem(answer: httpx.Response) -> str:
    """The rule of an answer that is a problem in every way."""
    said = answer.json()
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert said["status"] == answer.status_code
    assert said["title"]
    assert said["detail"][-1] in ".:"
    assert "type" not in said, "left out: about:blank"
    return str(said["rule"])


@pytest.mark.parametrize(
    ("method", "path", "status", "rule", "allow"),
    [
        ("GET", "v1/nothing", 404, "path", None),
        ("GET", "v1/", 404, "path", None),
        ("POST", "v1/sites/shop/events/", 404, "path", None),
        ("POST", "v1/sites/nope/events", 401, "token", None),
        ("POST", "v1/sites/shop/webhooks/nope", 404, "webhook", None),
        ("GET", f"v1/sites/shop/urls?loc={BASE}no", 404, "not-listed", None),
        ("GET", "v1/sites/shop/events", 405, "method", "POST"),
        ("POST", "v1/sites/shop/sources/cms", 405, "method", "PUT"),
        ("DELETE", "v1/sites/shop/urls", 405, "method", "GET, HEAD"),
        ("PATCH", "v1/status", 405, "method", "GET, HEAD"),
        ("OPTIONS", "v1/sites/shop/webhooks/cms", 405, "method", "POST"),
        ("POST", "v1/sites/shop/events", 415, "content-type", None),
        ("PUT", "v1/sites/shop/sources/a%20b", 400, "source", None),
        ("PUT", "v1/sites/shop/sources/pages", 409, "owner", None),
    ],
)
def test_what_is_not_there_or_not_allowed(
    world: HttpWorld, method: str, path: str, status: int, rule: str, allow: str | None
) -> None:
    """Paths, methods, types and names: each its status, and Allow where another method would do."""
    answer = world.client.request(method, path)
    assert (answer.status_code, problem(answer)) == (status, rule)
    assert answer.headers.get("Allow") == allow


def test_what_is_wrong_with_a_body(world: HttpWorld) -> None:
    """Malformed, too large, every event refused: problems too, which say what was accepted and refused."""
    assert problem(world.post(b"{", "application/json")) == "json"
    assert problem(world.post(ndjson(*[add(f"p{n}") for n in range(1000)]))) == "too-large"
    alone = world.post({"op": "add", "loc": "/x"})
    assert (alone.status_code, problem(alone), alone.json()["accepted"]) == (422, "not-absolute", 0)
    both = world.post([{"op": "add", "loc": "/x"}, {"op": "add", "loc": BASE + "a", "priority": 7}])
    assert problem(both) == "events"
    assert [row["rule"] for row in both.json()["refused"]] == ["not-absolute", "priority"]


def test_a_replayed_answer_has_the_same_type(world: HttpWorld) -> None:
    """The same request with the same key gets the same problem, or the same result."""
    for body, kind in (({"op": "add", "loc": "/x"}, "problem+json"), (add("a"), "json")):
        first, again = (world.post(body, Idempotency_Key=f"k-{kind}") for _ in range(2))
        assert first.headers["Content-Type"] == again.headers["Content-Type"] == f"application/{kind}"
        assert (first.status_code, first.json()) == (again.status_code, again.json())


def test_a_defect_is_a_problem_too(world: HttpWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw is 500 as a problem, and goes into the log with its traceback."""

    def broken() -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(world.store, "unfolded", broken)
    answer = world.post(add("a"))
    assert (answer.status_code, problem(answer)) == (500, "internal")


@pytest.mark.parametrize(
    "kind", ["application/vnd.x+json", "application/ld+json; charset=utf-8", "APPLICATION/VND.API+JSON"]
)
def test_any_json_type_is_json(world: HttpWorld, kind: str) -> None:
    """A type that ends in +json is read as JSON, for events and webhooks."""
    assert world.post([add("a")], kind).status_code == 202
    hook = world.client.post(
        "v1/sites/shop/webhooks/cms", content=b'{"slug":"b"}', headers={"Content-Type": kind}
    )
    assert hook.status_code == 202
    assert world.locs() == {"a", "n/b"}


def test_other_types_are_no_json(world: HttpWorld) -> None:
    """What merely looks like JSON's type is not taken."""
    for kind in ("application/jsonp", "text/json", "application/+jsonx", "application/json+xml"):
        answer = world.post(b"{}", kind)
        assert (answer.status_code, problem(answer)) == (415, "content-type")
    lines = world.client.post(
        "v1/sites/shop/webhooks/cms", content=b"{}", headers={"Content-Type": "application/x-ndjson"}
    )
    assert lines.status_code == 415


def test_an_array_has_a_cap_and_lines_have_none(redis_url: str) -> None:
    """An array over its cap is 413 and stores nothing, gzip and chunks too; the same as NDJSON is taken."""
    world = HttpWorld(redis_url, caps=Caps(array=100_000))
    try:
        events = [add(f"p{n}") for n in range(2500)]
        text = json.dumps(events).encode()
        packed = {"Content-Encoding": "gzip"}
        for answer in (
            world.post(text, "application/json"),
            world.post(iter([text]), "application/json"),
            world.post(gzip.compress(text), "application/json", **packed),
        ):
            assert (answer.status_code, problem(answer)) == (413, "too-large")
        assert world.locs() == set()
        assert world.post(events[:1000]).json()["accepted"] == 1000
        assert world.post(ndjson(*events)).json()["accepted"] == 2500
    finally:
        world.close()
