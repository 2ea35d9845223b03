"""The blocking client: what it sends, how long it tries, and what it makes of any answer."""

from __future__ import annotations

import os
import ssl
import subprocess
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from sitemapd_client import Client, Problem, Refusal, Sent, Unavailable
from tests import needs
from tests.client.fake_server import (
    Behaviour,
    FakeServer,
    accept,
    answer,
    cut_off,
    drip,
    fake_server,
    hang_up,
    never,
    problem,
    reset,
    then_close,
)

LOC = "https://shop.example.com/tea"


def test_one_event_is_one_request(server: FakeServer) -> None:
    """Each method sends its event with the token, and gives what sitemapd answered."""
    with Client(server.url, "smd_secret", "my shop", source="cms") as client:
        assert client.add(LOC, lastmod=date(2026, 3, 21), priority=Decimal("0.7")) == Sent(accepted=1)
        client.update(LOC, lastmod=datetime(2026, 3, 22, 10, tzinfo=UTC), changefreq="daily")
        client.delete(LOC, urgent=True, source="shop")
    first, second, third = (request.events[0] for request in server.received)
    assert first == {"op": "add", "loc": LOC, "lastmod": "2026-03-21", "priority": 0.7}
    assert second == {
        "op": "update",
        "loc": LOC,
        "lastmod": "2026-03-22T10:00:00+00:00",
        "changefreq": "daily",
    }
    assert third == {"op": "delete", "loc": LOC, "urgent": True, "source": "shop"}
    assert {request.path for request in server.received} == {"/v1/sites/my%20shop/events?source=cms"}
    assert {request.headers["authorization"] for request in server.received} == {"Bearer smd_secret"}
    assert len({request.key for request in server.received}) == 3
    assert {request.connection for request in server.received} == {1}, "the connection is kept open"


def test_path_of_the_address_stays(server: FakeServer) -> None:
    """sitemapd may live below a path of a host."""
    with Client(server.url + "below/") as client:
        client.add(LOC)
    assert server.received[0].path == "/below/v1/sites/main/events"


TURNED_AWAY: list[tuple[Behaviour, int, str]] = [
    (problem(400, "json", "It is no JSON."), 400, "answered 400: It is no JSON."),
    (problem(401, "token", "The token is not known."), 401, "answered 401: The token is not known."),
    (problem(403, "scope"), 403, "answered 403"),
    (problem(404, "site"), 404, "answered 404"),
    (problem(409, "mass-delete"), 409, "answered 409"),
    (problem(413, "too-large"), 413, "answered 413"),
    (problem(422, "not-absolute", "'/tea' is not absolute."), 422, "'/tea' is not absolute."),
    (problem(500, "internal"), 500, "answered 500"),
    (answer(301, Location="https://other.example.com/"), 301, "leads to 'https://other.example.com/'"),
    (answer(200, b"<html>It works!"), 200, "the answer is not from sitemapd"),
    (answer(202, {"refused": []}), 202, "the answer is not from sitemapd"),
    (answer(202, [1]), 202, "the answer is not from sitemapd"),
    (answer(202, b"[" * 100_000), 202, "the answer is not from sitemapd"),
]


@pytest.mark.parametrize(("behaviour", "status", "said"), TURNED_AWAY)
def test_request_that_is_turned_away(
    server: FakeServer, behaviour: Behaviour, status: int, said: str
) -> None:
    """It is an exception with status, rule and sentence, and is not tried again."""
    server.script.append(behaviour)
    with Client(server.url) as client, pytest.raises(Problem, match=said) as caught:
        client.add(LOC)
    assert caught.value.status == status
    assert len(server.received) == 1


def test_problem_has_rule_and_detail(server: FakeServer) -> None:
    """The stable code and the sentence are attributes."""
    server.script.append(problem(422, "not-absolute", "'/tea' is not absolute."))
    with Client(server.url) as client, pytest.raises(Problem) as caught:
        client.add("/tea")
    assert (caught.value.rule, caught.value.detail) == ("not-absolute", "'/tea' is not absolute.")


@pytest.mark.parametrize(
    "failure",
    [
        problem(408, "slow"),
        problem(409, "idempotency-key", Retry_After="1"),
        problem(429, "backlog", Retry_After="1"),
        problem(503, "unavailable"),
        answer(502, b"<html>"),
        hang_up,
        reset,
        cut_off,
    ],
)
def test_what_fails_for_now_is_tried_again(
    server: FakeServer, pauses: list[float], failure: Behaviour
) -> None:
    """The same body goes again with the same idempotency key, after pauses that grow."""
    server.script.extend([failure, failure, accept])
    with Client(server.url) as client:
        assert client.add(LOC).accepted == 1
    assert len({(request.key, request.body) for request in server.received}) == 1
    assert len(pauses) == 2


@pytest.mark.parametrize("said", ["7", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_retry_after_is_kept_to(server: FakeServer, pauses: list[float], said: str) -> None:
    """The next try comes no sooner than sitemapd asked for, and a little later for each client."""
    server.script.append(problem(503, "unavailable", Retry_After=said))
    with Client(server.url, patience=1000) as client:
        client.add(LOC)
    assert pauses[0] >= (7 if said == "7" else 300)
    assert pauses[0] <= 375


def test_patience_ends(server: FakeServer, pauses: list[float]) -> None:
    """What never succeeds is Unavailable after `patience`, with the last reason, and what it asked for."""
    server.script.extend([problem(503, "unavailable", "Redis is away.", Retry_After="2")] * 99)
    with (
        Client(server.url, patience=30) as client,
        pytest.raises(Unavailable, match="503: Redis is away") as caught,
    ):
        client.add(LOC)
    assert caught.value.wait == 2
    assert sum(pauses) <= 30
    assert len(server.received) > 4


def test_nobody_listens(pauses: list[float]) -> None:
    """The error names the host."""
    with pytest.raises(Unavailable, match=r"can't be reached at 127.0.0.1:9 \(.*refused"):
        Client("http://127.0.0.1:9/", patience=1).add(LOC)


@pytest.mark.parametrize("behaviour", [never, drip])
def test_slow_server_is_given_up(server: FakeServer, behaviour: Behaviour) -> None:
    """An answer that does not come, or comes a byte at a time, is bounded by the timeout."""
    server.script.append(behaviour)
    with Client(server.url, timeout=0.3, patience=0) as client, pytest.raises(Unavailable, match="timed out"):
        client.add(LOC)


def test_answer_is_read_with_a_bound(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers without end does not fill the memory."""
    monkeypatch.setattr("sitemapd_client.endpoint.ANSWER_MAX", 100_000)
    server.script.append(answer(202, b" " * 200_000))
    with Client(server.url, patience=0) as client, pytest.raises(Unavailable, match="more than 100000 bytes"):
        client.add(LOC)


def test_connection_that_was_closed_meanwhile(server: FakeServer) -> None:
    """A kept connection that the server has closed is no failure: another is opened at once."""
    server.script.append(then_close(accept))
    with Client(server.url, patience=0) as client:
        client.add(LOC)
        client.add(LOC)
    assert [request.connection for request in server.received] == [1, 2]


def test_answer_that_comes_before_the_body_was_sent() -> None:
    """A token that is not known is said so, although the list was still on its way."""
    closing = then_close(problem(401, "token", "The token is not known.", Connection="close"))
    urls = ({"loc": f"{LOC}/{number}"} for number in range(100_000))
    with (
        fake_server(closing, early=True) as server,
        Client(server.url, patience=0) as client,
        pytest.raises(Problem, match="not known"),
    ):
        client.sync("shop", urls)


def test_many_events_go_in_several_requests(server: FakeServer) -> None:
    """Refusals have their place in the whole, and the first thousand are kept."""
    row = {"line": 2, "loc": "/x", "rule": "not-absolute", "detail": "D"}
    server.script.append(answer(202, {"accepted": 4999, "refused": [row], "warnings": ["W"]}))
    server.script.append(answer(422, {"accepted": 0, "refused": [row] * 900, "refused_total": 5000}))
    server.script.append(answer(202, {"accepted": 2, "refused": [row] * 900, "refused_total": 1000}))
    with Client(server.url) as client:
        sent = client.send(f"{LOC}/{number}" for number in range(10_002))
    assert [len(request.events) for request in server.received] == [5000, 5000, 2]
    assert (sent.accepted, sent.refused_total, len(sent.refused)) == (5001, 6001, 1000)
    assert sent.refused[:2] == (
        Refusal(2, "/x", "not-absolute", "D"),
        Refusal(5002, "/x", "not-absolute", "D"),
    )
    assert sent.warnings == ("W",)


def test_long_events_fill_requests_sooner(server: FakeServer) -> None:
    """No request has much more than a MiB."""
    with Client(server.url) as client:
        client.send({"op": "add", "loc": LOC, "ext": {"x": "x" * 300_000}} for _ in range(10))
    assert max(len(request.body) for request in server.received) < 1_300_000


def test_nothing_is_sent_for_nothing(server: FakeServer) -> None:
    """An empty iterable makes no request."""
    assert Client(server.url).send([]) == Sent()
    assert server.received == []


def test_error_says_what_was_accepted(server: FakeServer) -> None:
    """When a later request fails, the caller knows how many events are stored."""
    server.script.extend([accept, problem(403, "scope")])
    with Client(server.url) as client, pytest.raises(Problem) as caught:
        client.send(f"{LOC}/{number}" for number in range(6000))
    assert caught.value.accepted == 5000


@pytest.mark.parametrize("call", ["send", "sync"])
def test_memory_is_bounded(server: FakeServer, call: str) -> None:
    """A list of any length takes the memory of one request."""

    def forget(connection: Any, received: Any) -> bool:
        server.received.clear()
        return accept(connection, received)

    server.script.extend([forget] * 99)
    urls = ({"loc": f"{LOC}/{number}", "op": "add"} for number in range(60_000))
    with Client(server.url) as client:
        tracemalloc.start()
        try:
            _ = client.send(urls) if call == "send" else client.sync("shop", urls)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    # The fake server holds a body whole: 4 MB of the list, and 0.3 MB of a batch.
    assert peak < (3_000_000 if call == "send" else 10_000_000)


# Lists


def test_list_is_sent_whole(server: FakeServer) -> None:
    """`sync` puts the list of a source, and gives what it changed."""
    said = {"listed": 5, "added": 2, "updated": 0, "deleted": 1, "unchanged": 4, "held": 0, "refused": []}
    server.script.append(answer(202, said))
    with Client(server.url) as client:
        synced = client.sync(
            "shop", [LOC, {"loc": LOC + "/b", "lastmod": date(2026, 3, 21)}], accept_deletes=True
        )
    assert (synced.listed, synced.added, synced.deleted) == (5, 2, 1)
    (request,) = server.received
    assert (request.method, request.path) == ("PUT", "/v1/sites/main/sources/shop?accept_deletes=true")
    assert request.events == [{"op": "add", "loc": LOC}, {"loc": LOC + "/b", "lastmod": "2026-03-21"}]


def test_list_that_breaks_off_is_not_sent(server: FakeServer) -> None:
    """An error in the iterable is the caller's, and sitemapd hears nothing of the list."""

    def urls() -> Iterator[str]:
        yield LOC
        raise RuntimeError("the cursor is gone")

    with Client(server.url) as client, pytest.raises(RuntimeError, match="cursor"):
        client.sync("shop", urls())
    assert server.received == []


def test_list_is_tried_again_from_its_start(server: FakeServer, pauses: list[float]) -> None:
    """A generator is read once, and its list can go twice all the same."""
    server.script.extend([reset, problem(503, "unavailable"), accept])
    with Client(server.url) as client:
        client.sync("shop", (f"{LOC}/{number}" for number in range(3)))
    assert len(server.received) == 3
    assert len({request.body for request in server.received}) == 1


def test_list_that_leaves_out_too_much(server: FakeServer) -> None:
    """It is a problem with its rule, for the caller to decide."""
    server.script.append(problem(409, "mass-delete"))
    with Client(server.url) as client, pytest.raises(Problem) as caught:
        client.sync("shop", [LOC])
    assert caught.value.rule == "mass-delete"


# Values


class Frequency(Enum):
    """An app's own words."""

    DAILY = "daily"


def test_values_of_an_app_are_converted(server: FakeServer) -> None:
    """UUIDs, paths, dates, enums, tuples and read-only mappings have a form in JSON at any depth."""
    images = (UUID(int=7), PurePosixPath("a/b.jpg"), MappingProxyType({"day": date(2026, 3, 21)}))
    event = {"op": "add", "loc": LOC, "changefreq": Frequency.DAILY, "at": None}
    with Client(server.url) as client:
        client.send([{**event, "ext": MappingProxyType({"images": images, "rating": Decimal("4.5")})}])
    assert server.received[0].events == [
        {
            "op": "add",
            "loc": LOC,
            "changefreq": "daily",
            "ext": {
                "images": ["00000000-0000-0000-0000-000000000007", "a/b.jpg", {"day": "2026-03-21"}],
                "rating": 4.5,
            },
        }
    ]


CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)
DEEP: list[object] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (object(), TypeError),
        (b"bytes", TypeError),
        ({1, 2}, TypeError),
        (float("nan"), ValueError),
        (Decimal("Infinity"), ValueError),
        (CIRCLE, ValueError),
        (DEEP, ValueError),
        ({(1, 2): 3}, TypeError),
        ("x" * 1024 * 1024, ValueError),
    ],
)
def test_what_cannot_be_sent_is_refused_at_the_call(
    server: FakeServer, value: Any, error: type[Exception]
) -> None:
    """The caller gets an error with the URL in it, and nothing is sent."""
    with Client(server.url) as client, pytest.raises(error, match=LOC):
        client.add(LOC, ext={"x": value})
    assert server.received == []


@pytest.mark.parametrize("item", [None, 7, {"op": "add"}, {"op": "add", "loc": 7}, ("add", LOC)])
def test_what_is_no_event_is_refused_at_the_call(server: FakeServer, item: Any) -> None:
    """It is the caller's mistake, told at once."""
    with Client(server.url) as client, pytest.raises(TypeError, match="and not"):
        client.send([item])


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "no address"),
        ("shop.example.com", "no address"),
        ("ftp://x/", "no address"),
        ("https://", "no address"),
        ("https://x:port/", "port"),
        ("https://me:pw@x/", "token="),
        ("https://x/?a=b", "leave out"),
    ],
)
def test_address_that_is_none(url: str, said: str) -> None:
    """An address that can't be one is an error when the client is made."""
    with pytest.raises(ValueError, match=said):
        Client(url)


@pytest.mark.parametrize("token", ["", "smd_x\n", "smd_ü", "smd_\x00"])
def test_token_that_is_none(token: str) -> None:
    """A token that can't be one is an error that does not show it."""
    with pytest.raises(ValueError, match="token") as caught:
        Client("https://x/", token)
    assert "smd_" not in str(caught.value)


@pytest.mark.parametrize("source", ["", "my cms", "x" * 65, "-x"])
def test_source_that_is_none(source: str) -> None:
    """A source's name is checked when it is given."""
    with pytest.raises(ValueError, match="no source"):
        Client("https://x/", source=source)
    with pytest.raises(ValueError, match="no source"):
        Client("https://x/").sync(source, [])


# Processes and TLS


def test_child_after_a_fork_has_its_own_connection(server: FakeServer) -> None:
    """Parent and child go on with the client that the parent made, and never share a connection."""
    with Client(server.url) as client:
        client.add(LOC)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                client.add(LOC)
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        client.add(LOC)
    assert [request.connection for request in server.received] == [1, 2, 1]


def test_tls_is_checked(tmp_path: Path) -> None:
    """A certificate that nobody vouches for is refused; with a context that knows it, it is used."""
    openssl = needs.program("openssl", package="openssl")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    with fake_server(context=serving) as server:
        with (
            Client(server.url, patience=0) as stranger,
            pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            stranger.add(LOC)
        with Client(server.url, context=ssl.create_default_context(cafile=str(certificate))) as client:
            assert client.add(LOC).accepted == 1
            client.add(LOC)
    assert len({request.connection for request in server.received}) == 1
