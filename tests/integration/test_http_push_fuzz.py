"""The push API against hostile input: raw sockets, and schemathesis on its own OpenAPI document."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from producers.http import Caps
from producers.http.app import OPENAPI
from tests.examples import examples
from tests.integration.http_world import NDJSON, SECRET, HttpWorld, add, ndjson, token
from tests.redis_server import RedisServer

MIB = 1024 * 1024
HEAD = "POST /v1/sites/shop/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
LAST = "Connection: close\r\n"
"""Of a request after which a server has no reason to wait for another."""
QUICK = Caps(wait=1.5, grace=2.0, pace=1_000_000, body=8 * MIB, sync=8 * MIB)


@pytest.fixture(scope="module")
def world(any_redis: RedisServer, parser: str) -> Iterator[HttpWorld]:
    """Give one server for all of the module: whatever it is sent, it must go on."""
    any_redis.flush()
    world = HttpWorld(any_redis.url, caps=QUICK)
    yield world
    world.close()


@pytest.fixture(autouse=True)
def _goes_on(world: HttpWorld) -> Iterator[None]:
    yield
    assert world.post(add("alive")).status_code == 202


def status(received: bytes) -> int:
    """The status of a raw answer; 0 when there was none."""
    return int(received[9:12]) if received.startswith(b"HTTP/1.1 ") else 0


def resident() -> int:
    """This process' resident bytes; the server is a thread of it."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + "x" * 200_000 + "\r\n\r\n", 400),
        (HEAD + "".join(f"X-{n}: {'y' * 100}\r\n" for n in range(5000)) + "\r\n", 400),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20 + "\r\n\r\n", 400),
        (HEAD + "Content-Length: -1\r\n\r\n", 400),
        (HEAD + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (HEAD + "Content-Length: 99999999999999999999\r\n\r\n", 400),
        (HEAD + "Content-Length: 1073741824\r\n\r\n", 413),
        (HEAD + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (HEAD + LAST + "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (HEAD.replace("shop", "..%2f..%2fetc") + LAST + "Content-Length: 0\r\n\r\n", 404),
        (HEAD.replace("shop", "%2e%2e") + LAST + "Content-Length: 0\r\n\r\n", 404),
        (HEAD.replace("shop", "shop%00") + LAST + "Content-Length: 0\r\n\r\n", 404),
        (HEAD.replace("shop", "%ff%fe") + LAST + "Content-Length: 0\r\n\r\n", 404),
    ],
    ids=lambda value: value[:60].encode("unicode_escape").decode() if isinstance(value, str) else str(value),
)
def test_hostile_heads_get_their_status(world: HttpWorld, head: str, expected: int) -> None:
    """Headers that are too large or wrong, lengths that lie and paths that climb get a 4xx."""
    received = world.raw(head.encode("latin-1"))
    assert 400 <= status(received) < 500, received[:200]
    if expected != 400:
        assert status(received) in (expected, 401), received[:200]


@pytest.mark.parametrize("pause", [None, 0.1], ids=["stops", "trickles"])
def test_slow_body_is_ended(world: HttpWorld, pause: float | None) -> None:
    """A body that stops, or trickles, is 408 long before its end, and the connection is closed."""
    answered = threading.Event()

    def trickle(connection: socket.socket) -> None:
        with suppress(OSError):
            while not answered.is_set():
                connection.sendall(b"{")
                answered.wait(pause)

    with closing(socket.create_connection(("127.0.0.1", world.port), timeout=60)) as connection:
        connection.sendall((HEAD + "Content-Length: 1000000\r\n\r\n").encode())
        received = b""
        sender = threading.Thread(target=trickle, args=(connection,), daemon=True)
        sender.start()
        try:
            while b"\r\n\r\n" not in received and (more := connection.recv(4096)):
                received += more
        finally:
            answered.set()
        assert status(received) == 408
        assert b"connection: close" in received.lower()
        sender.join()


def test_huge_bodies_take_no_memory(world: HttpWorld) -> None:
    """A gigabyte declared, streamed without end, as one line or unfolding from gzip ends at the cap."""
    line = b"x" * 65536

    def endless(first: bytes = b"") -> Iterator[bytes]:
        yield first
        for _ in range(16_384):
            yield line

    world.post(ndjson(add("a")))
    before = resident()
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join([bomb.compress(b"\n" * MIB) for _ in range(1024)]) + bomb.flush()
    assert len(packed) < 2 * MIB
    asked: list[Callable[[], httpx.Response]] = [
        lambda: world.post(endless()),
        lambda: world.post(endless(b'["'), "application/json"),
        lambda: world.post(endless(b"["), "application/json"),
        lambda: world.post(packed, Content_Encoding="gzip"),
        lambda: world.post(
            gzip.compress(b'["' + b"a" * (64 * MIB)), "application/json", Content_Encoding="gzip"
        ),
        lambda: world.client.put(
            "v1/sites/shop/sources/cms", content=endless(), headers={"Content-Type": NDJSON}
        ),
    ]
    for ask in asked:
        try:
            assert ask().status_code in (400, 413)
        except Exception as error:  # noqa: BLE001, its type is checked below
            # The server closed while the client still sent: that is what it may do.
            assert type(error).__name__ in ("WriteError", "ReadError", "RemoteProtocolError"), error
    assert resident() - before < 64 * MIB


@hypothesis.settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.binary(max_size=300)
    | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    kind=st.sampled_from(["application/json", NDJSON]),
    packed=st.booleans(),
)
def test_any_bytes_get_an_answer(world: HttpWorld, body: bytes, kind: str, packed: bool) -> None:
    """No body is a server error, and every error says its rule."""
    if packed:
        answer = world.post(gzip.compress(body), kind, Content_Encoding="gzip")
    else:
        answer = world.post(body, kind)
    assert answer.status_code in (202, 400, 422)
    assert "accepted" in answer.json() or answer.json()["rule"]


@hypothesis.settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400))
def test_any_bytes_on_the_wire_are_survived(world: HttpWorld, sent: bytes) -> None:
    """Whatever comes over the socket, the answer is a 4xx or none."""
    assert status(world.raw(sent + b"\r\n\r\n", end=True)) in {0, *range(200, 500)}


@pytest.fixture(scope="module")
def api(any_redis: RedisServer, parser: str) -> Iterator[HttpWorld]:
    """Give a server with a token, for schemathesis."""
    world = HttpWorld(any_redis.url, tokens=(token(),), caps=QUICK)
    yield world
    world.close()


def operations() -> Iterator[APIOperation[Any, Any, Any, Any]]:
    """Give the operations of the API's own OpenAPI document."""
    for found in schemathesis.openapi.from_dict(json.loads(OPENAPI)).get_all_operations():
        assert isinstance(found, Ok), found
        yield found.ok()


@schemathesis.serializer(NDJSON)
def as_lines(context: object, value: object) -> bytes:
    """Send the text that the schema makes, or anything else as one line of JSON."""
    return value.encode("utf-8", "replace") if isinstance(value, str) else ndjson(value)


OPERATIONS: Final = list(operations())
ASKED: Final = [
    pytest.param(each, mode, id=f"{mode.name} {each.label}")
    for each in OPERATIONS
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    # What takes no input can't be asked wrongly.
    if mode is GenerationMode.POSITIVE or each.body or each.query or each.path_parameters
]
# What is no event is refused in the answer and not by the status, so these two don't apply.
EXCLUDED: Final = [positive_data_acceptance, negative_data_rejection]


@pytest.mark.parametrize(("operation", "mode"), ASKED)
def test_api_does_as_its_document_says(
    api: HttpWorld, operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode
) -> None:
    """Status, content type and body of every answer are those of the document, whatever is asked."""

    @hypothesis.settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        case.headers["Authorization"] = f"Bearer {SECRET}"
        case.call_and_validate(base_url=api.server.address.rstrip("/"), excluded_checks=EXCLUDED)

    ask()
