"""Clients of `sitemapd serve` by the thousand: most behave, some are slow, broken or hostile.

1. Each kind of client is a coroutine function in `KINDS`, with its share of all clients. Each client has URLs
   and an address (127.…) of its own, so its answers alone say what must be published of its URLs.
2. A client that behaves sends a request with the same idempotency key until an answer is final.
3. `Notes.expected` is what must be published at the end: the lastmod of each URL whose event was answered
   with 202, None for each other URL that a client named.
4. An answer that a request must not get is a fault: 202 for half a body, or 500 for whatever it is.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import hmac
import json
import random
import re
import resource
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final, NamedTuple

from benchmarks.urls import BASE
from producers.http.auth import hash_of

TOKEN: Final = "smd_known-to-the-clients-of-the-benchmark"
SECRET: Final = "a secret of the benchmark alone"
SETTINGS: Final = f"""
[sites.main.tokens.crowd]
hash = "{hash_of(TOKEN)}"
[sites.main.webhooks.cms]
signature = {{header = "X-Signature", secret = "{SECRET}"}}
[[sites.main.webhooks.cms.rules]]
op = "add"
loc = "/{{/slug}}"
lastmod = "{{/changed}}"
"""
"""What `sitemapd.toml` must have below `[sites.main]`."""
EVENTS: Final = "/v1/sites/main/events"
WEBHOOK: Final = "/v1/sites/main/webhooks/cms"
BEARER: Final = f"Authorization: Bearer {TOKEN}"
JSON: Final = "Content-Type: application/json"
NDJSON: Final = "Content-Type: application/x-ndjson"
GZIP: Final = "Content-Encoding: gzip"

PAUSE_S: Final = 2.0
"""How long a client waits between two requests, on average."""
PATIENCE_S: Final = 60.0
"""How long a client waits for one answer, and how long after the end it may still send the last one again."""
HELD: Final = 110
"""Connections that one idle client holds: twenty of them and the others are more than the server may have."""
TORN: Final = 3000
"""Events of an upload in gzip that breaks off."""
Cut = (OSError, EOFError, TimeoutError)
"""What a connection that the server ended, or that has no answer, raises."""
FINAL: Final = frozenset({202, 422})
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_LOC: Final = re.compile(rb"<loc>([^<]+)</loc>")

Events = dict[str, str | None]
"""URLs with their lastmod, or None for a URL that is not, or no longer, listed."""


class Reply(NamedTuple):
    """An answer."""

    status: int
    head: bytes
    body: bytes

    @property
    def accepted(self) -> int:
        """How many events were taken in, by the answer's own word."""
        return int(json.loads(self.body).get("accepted", 0))


@dataclass(slots=True)
class Notes:
    """What the clients of one process saw."""

    expected: Events = field(default_factory=dict)
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often a request of that name got that status; "cut" is a connection that ended without one."""
    took: list[float] = field(default_factory=list)
    """Seconds of each answer with 202 to a client that behaves."""
    faults: list[str] = field(default_factory=list)

    def join(self, other: Notes) -> None:
        """Add what the clients of another process saw: their URLs are others."""
        self.expected |= other.expected
        self.answers += other.answers
        self.took += other.took
        self.faults += other.faults


class Wire:
    """One connection, for bytes that are as wrong as is wanted. Its methods raise what `Cut` lists."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait while the server takes none."""
        self._writer.write(data)
        async with asyncio.timeout(PATIENCE_S):
            await self._writer.drain()

    async def reply(self) -> Reply:
        """The next answer, whole."""
        async with asyncio.timeout(PATIENCE_S):
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await self._reader.readexactly(int(length[1])) if length else b""
            return Reply(int(head.split(b" ", 2)[1]), head, body)

    def close(self) -> None:
        """End the connection at once."""
        self._writer.transport.abort()


class Client:
    """One client: its dice, its URLs, and the connection that it keeps."""

    def __init__(self, address: tuple[str, int], number: int, notes: Notes, over: asyncio.Event) -> None:
        self.number, self.notes, self.over = number, notes, over
        self.dice = random.Random(number)
        self.known: list[str] = []
        """URLs that it pushed."""
        self._address = address
        self._count = count()
        self._wire: Wire | None = None

    def goes_on(self) -> bool:
        """Whether it is not the end yet."""
        return not self.over.is_set()

    async def pause(self, seconds: float = PAUSE_S) -> None:
        """Wait, until the end at the latest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.over.wait()

    async def connect(self) -> Wire:
        """A connection of this client's address. Raises what `Cut` lists."""
        own = f"127.1.{self.number // 250}.{self.number % 250 + 1}"
        async with asyncio.timeout(PATIENCE_S):
            return Wire(*await asyncio.open_connection(*self._address, local_addr=(own, 0)))

    def fresh(self, name: str) -> tuple[str, str]:
        """A URL that nobody named before, and a lastmod that nothing had before."""
        number = next(self._count)
        return f"{BASE}{name}-{self.number}-{number}", _lastmod(number)

    async def once(self, name: str, *pieces: bytes, wire: Wire | None = None) -> Reply | None:
        """Send bytes on a connection (else a new one, which is closed) and note the answer; None when cut."""
        given = wire
        try:
            wire = wire or await self.connect()
            with suppress(ConnectionError):  # the answer may be there all the same
                for piece in pieces:
                    await wire.send(piece)
            reply = await wire.reply()
        except Cut:
            self.notes.answers[name, "cut"] += 1
            return None
        finally:
            if wire is not None and given is None:
                wire.close()
        self.notes.answers[name, str(reply.status)] += 1
        return reply

    async def never(self, name: str, allowed: Collection[int], *pieces: bytes) -> Reply | None:
        """Send what must be refused, with one of these statuses or by the end of the connection."""
        reply = await self.once(name, *pieces)
        if reply is not None and reply.status not in allowed:
            self.fault(name, reply)
        return reply

    async def insist(self, name: str, request: bytes) -> Reply:
        """Send a request until it is answered for good, on the connection that is kept."""
        give_up: float | None = None
        while True:
            begin = time.perf_counter()
            reply = None
            with suppress(*Cut):
                self._wire = self._wire or await self.connect()
                reply = await self.once(name, request, wire=self._wire)
            if reply is None or b"connection: close" in reply.head.lower():
                self.leave()
            if reply is not None and reply.status not in (409, 429, 503):
                if reply.status == 202:
                    self.notes.took.append(time.perf_counter() - begin)
                if reply.status not in FINAL:
                    self.fault(name, reply)
                return reply
            if self.over.is_set():
                give_up = give_up or time.monotonic() + PATIENCE_S
                if time.monotonic() > give_up:
                    raise TimeoutError(f"{name}: no final answer, the last one was {reply}")
            await asyncio.sleep(self.dice.uniform(0.2, 2.0))

    def leave(self) -> None:
        """End the connection that is kept."""
        if self._wire is not None:
            self._wire.close()
        self._wire = None

    def fault(self, name: str, reply: Reply) -> None:
        """Note an answer that must not be."""
        self.notes.faults.append(f"{name}: {reply.head[:300]!r} {reply.body[:300]!r}")


# Requests


def post(path: str, body: bytes, *headers: str, length: int | None = None) -> bytes:
    """A POST; with a Content-Length that is wrong, if one is given."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", *headers]
    return _head(*lines, f"Content-Length: {len(body) if length is None else length}") + body


def get(path: str, *headers: str) -> bytes:
    """A GET."""
    return _head(f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *headers)


def add(loc: str, lastmod: str) -> dict[str, str]:
    """An event."""
    return {"op": "add", "loc": loc, "lastmod": lastmod}


def one(event: object) -> bytes:
    """An event as a body."""
    return json.dumps(event).encode()


def lines(events: Iterable[object]) -> bytes:
    """Events as NDJSON."""
    return b"".join(one(event) + b"\n" for event in events)


def _head(*rows: str) -> bytes:
    return "\r\n".join([*rows, "", ""]).encode()


def _lastmod(number: int) -> str:
    return f"{datetime(2025, 1, 1, tzinfo=UTC) + timedelta(seconds=number):%Y-%m-%dT%H:%M:%SZ}"


# Clients that behave


async def push_one(client: Client) -> None:
    """Pushes one event a request, as an app does when a page was saved."""
    while client.goes_on():
        event, becomes = _change(client)
        key = f"Idempotency-Key: {client.number}-{next(client._count)}"
        reply = await client.insist("one event", post(EVENTS, one(event), BEARER, JSON, key))
        if reply.status == 202:
            client.notes.expected |= becomes
        await client.pause(client.dice.expovariate(1 / PAUSE_S))


async def push_some(client: Client) -> None:
    """Pushes up to twenty events a request, of which some are refused."""
    while client.goes_on():
        events: list[dict[str, str]] = []
        becomes: Events = {}
        for _ in range(client.dice.randint(2, 20)):
            event, after = _change(client)
            events.append(event)
            becomes |= after
        foreign = f"https://elsewhere.example/{client.number}"
        events.insert(client.dice.randrange(len(events)), add(foreign, "2025-01-01"))
        key = f"Idempotency-Key: {client.number}-{next(client._count)}"
        reply = await client.insist("NDJSON", post(EVENTS, lines(events), BEARER, NDJSON, key))
        if reply.status == 202:
            client.notes.expected |= {**becomes, foreign: None}
            if reply.accepted != len(events) - 1:
                client.fault("NDJSON", reply)
        await client.pause(client.dice.expovariate(1 / PAUSE_S))


async def deliver(client: Client) -> None:
    """Is a CMS, whose webhook signs."""
    while client.goes_on():
        loc, lastmod = client.fresh("cms")
        body = one({"slug": loc.removeprefix(BASE), "changed": lastmod})
        signed = "X-Signature: " + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        if (await client.insist("webhook", post(WEBHOOK, body, JSON, signed))).status == 202:
            client.notes.expected[loc] = lastmod
        await client.pause(client.dice.expovariate(1 / PAUSE_S))


async def crawl(client: Client) -> None:
    """Reads the index and one of its files, as a crawler does: each that is listed is there, and whole."""
    seen = False
    while client.goes_on():
        index = await client.once("file", get("/sitemap.xml"))
        if index is not None and (seen or index.status != 404):
            seen = True
            found = _LOC.findall(index.body)
            if index.status != 200 or not index.body.endswith(b"</sitemapindex>\n") or not found:
                client.fault("index", index)
            else:
                name = client.dice.choice(found).rpartition(b"/")[2].decode()
                file = await client.once("file", get(f"/{name}"))
                if file and not (file.status == 200 and file.body.endswith(b"</urlset>\n")):
                    client.fault(name, file)
        await client.pause(client.dice.expovariate(1 / PAUSE_S))


def _change(client: Client) -> tuple[dict[str, str], Events]:
    """A new URL, or one of the client's own changed or deleted; the event, and what holds after it."""
    loc, lastmod = client.fresh("page")
    if client.known and client.dice.random() < 0.3:
        loc = client.dice.choice(client.known)
        if client.dice.random() < 0.3:
            return {"op": "delete", "loc": loc}, {loc: None}
    else:
        client.known.append(loc)
    return add(loc, lastmod), {loc: lastmod}


# Clients that are slow or broken


async def trickle(client: Client) -> None:
    """Sends a few bytes a second, of a body or of the headers too: stored whole, or not at all."""
    while client.goes_on():
        loc, lastmod = client.fresh("slow")
        body = one(add(loc, lastmod))
        request = post(EVENTS, body, BEARER, JSON, f"Idempotency-Key: {loc}")
        place = client.dice.choice((0, len(request) - len(body), len(request) - len(body)))
        reply, sent = None, False
        wire = None
        with suppress(*Cut):
            wire = await client.connect()
            await wire.send(request[:place])
            pace = client.dice.choice((1.0, 0.5, 0.2))
            while place < len(request):
                step = 1 if client.goes_on() else len(request)
                await wire.send(request[place : place + step])
                place += step
                await client.pause(pace)
            sent = True
            reply = await wire.reply()
        if wire is not None:
            wire.close()
        client.notes.answers["slow", str(reply.status) if reply else "cut"] += 1
        if sent and (reply is None or reply.status in (409, 429, 503)):
            reply = await client.insist("slow, again", request)
        client.notes.expected[loc] = lastmod if reply is not None and reply.status == 202 else None
        if reply is not None and reply.status not in (202, 408):
            client.fault("slow", reply)


async def break_off(client: Client) -> None:
    """Sends what is broken in one way or another: nothing of it is stored."""
    ways = (_cut, _too_long, _too_short, _torn, _no_length, _no_chunks, _no_json)
    while client.goes_on():
        loc, lastmod = client.fresh("broken")
        client.notes.expected[loc] = None
        await client.dice.choice(ways)(client, one(add(loc, lastmod)))
        await client.pause(client.dice.expovariate(1 / PAUSE_S))


async def _cut(client: Client, body: bytes) -> None:
    """The client goes away in the middle of a body, of which whole lines have come."""
    whole = body + b"\n" + body
    with suppress(*Cut):
        wire = await client.connect()
        await wire.send(post(EVENTS, whole, BEARER, NDJSON)[: -len(body) // 2])
        await client.pause(client.dice.choice((0, 0, 1)))
        wire.close()
    client.notes.answers["cut in a body", "left"] += 1


async def _too_long(client: Client, body: bytes) -> None:
    """A Content-Length that is larger than the body; the client waits a little and goes away."""
    with suppress(*Cut):
        wire = await client.connect()
        await wire.send(post(EVENTS, body, BEARER, NDJSON, length=len(body) + 10))
        await client.pause(3)
        wire.close()
    client.notes.answers["length too long", "left"] += 1


async def _too_short(client: Client, body: bytes) -> None:
    await client.never("length too short", (400,), post(EVENTS, body, BEARER, JSON, length=len(body) - 9))


async def _torn(client: Client, body: bytes) -> None:
    torn = gzip.compress(body)[: client.dice.randint(1, len(body) // 2)]
    await client.never("torn gzip", (400,), post(EVENTS, torn, BEARER, NDJSON, GZIP))


async def _no_length(client: Client, body: bytes) -> None:
    head = _head(f"POST {EVENTS} HTTP/1.1", "Host: 127.0.0.1", BEARER, JSON, "Content-Length: 1e3")
    await client.never("length no number", (400,), head + body)


async def _no_chunks(client: Client, body: bytes) -> None:
    head = _head(f"POST {EVENTS} HTTP/1.1", "Host: 127.0.0.1", BEARER, NDJSON, "Transfer-Encoding: chunked")
    chunk = b"%x\r\n%s\r\n" % (len(body), body)
    await client.never("torn chunks", (400,), head + chunk + b"zz\r\n")


async def _no_json(client: Client, body: bytes) -> None:
    await client.never("no JSON", (400,), post(EVENTS, body.replace(b":", b"=", 1), BEARER, JSON))


async def tear(client: Client) -> None:
    """Uploads a long NDJSON in gzip that breaks off: what the answer counts is stored, in order, no more."""
    locs = [f"{BASE}torn-{client.number}-{number}" for number in range(TORN)]
    while client.goes_on():
        lastmod = client.fresh("torn")[1]
        packed = gzip.compress(lines(add(loc, lastmod) for loc in locs))
        torn = packed[: -client.dice.randint(1, len(packed) // 2)]
        reply = await client.never("torn upload", (400, 429, 503), post(EVENTS, torn, BEARER, NDJSON, GZIP))
        if reply is None:
            for loc in locs:  # it may have been cut off at any place
                client.notes.expected.pop(loc, None)
            locs = [f"{loc}x" for loc in locs]
        else:
            client.notes.expected |= dict.fromkeys(locs[: reply.accepted], lastmod)
            for loc in locs:
                client.notes.expected.setdefault(loc, None)
        await client.pause(5 * PAUSE_S)


# Clients that are hostile


async def attack(client: Client) -> None:
    """Tries one attack after the other."""
    ways = (_long_headers, _signatures, _bomb, _signed_bomb, _deep, _huge, _huge_hook, _stranger, _no_http)
    while client.goes_on():
        await client.dice.choice(ways)(client)
        await client.pause(client.dice.expovariate(1 / PAUSE_S))


async def _long_headers(client: Client) -> None:
    size = client.dice.choice((17, 30, 200)) * 1024
    headers = [f"X-{number}: {'x' * 1000}" for number in range(size // 1000)]
    await client.never("headers of 17 KB and more", (431,), post(EVENTS, b"{}", BEARER, JSON, *headers))


async def _signatures(client: Client) -> None:
    header = "X-Signature: " + ",".join(["sha256=" + "0" * 64] * client.dice.choice((9, 130, 1450)))
    await client.never("many signatures", (401, 431), post(WEBHOOK, b"{}", JSON, header))


async def _bomb(client: Client) -> None:
    await client.never("gzip bomb", (413, 429), post(EVENTS, BOMB, BEARER, JSON, GZIP))


async def _signed_bomb(client: Client) -> None:
    header = "X-Signature: " + "0" * 64
    await client.never("gzip bomb, webhook", (413, 429), post(WEBHOOK, BOMB, JSON, GZIP, header))


async def _deep(client: Client) -> None:
    deep = client.dice.choice((b"[", b'{"a":')) * 100_000
    await client.never("deep JSON", (400,), post(EVENTS, deep, BEARER, JSON))


async def _huge(client: Client) -> None:
    request = post(EVENTS, bytes(65536), NDJSON, length=2**30)
    await client.never("a GB without a token", (401,), request, *[bytes(65536)] * 60)


async def _huge_hook(client: Client) -> None:
    header = "X-Signature: " + "0" * 64
    request = post(WEBHOOK, bytes(65536), JSON, header, length=2**20)
    await client.never("a MB with a wrong signature", (401, 429), request, *[bytes(65536)] * 15)


async def _stranger(client: Client) -> None:
    loc, lastmod = client.fresh("stranger")
    client.notes.expected[loc] = None
    wrong = client.dice.choice(("Authorization: Bearer smd_wrong", "X-No: token"))
    await client.never("no token", (401,), post(EVENTS, one(add(loc, lastmod)), JSON, wrong))


async def _no_http(client: Client) -> None:
    await client.never("no HTTP", (400,), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")


async def hold(client: Client) -> None:
    """Holds more and more connections, on which nothing comes, or half a request's headers."""
    held: list[Wire] = []
    while client.goes_on():
        with suppress(*Cut):
            wire = await client.connect()
            held.append(wire)
            if client.dice.random() < 0.5:
                await wire.send(get("/sitemap.xml")[:-2])
        if len(held) > HELD:
            held.pop(0).close()
        client.notes.answers["idle connections", "opened"] += 1
        await client.pause(0.05)
    for wire in held:
        wire.close()


async def ask_and_not_read(client: Client) -> None:
    """Asks for a file again and again, and reads no answer."""
    while client.goes_on():
        with suppress(*Cut):
            wire = await client.connect()
            with suppress(*Cut):
                async with asyncio.timeout(5):
                    while client.goes_on():
                        await wire.send(get("/sitemap.xml") + get("/v1/openapi.json"))
                        await asyncio.sleep(0.001)
            await client.pause(client.dice.uniform(0, 20))
            wire.close()
        client.notes.answers["reads no answer", "left"] += 1


BOMB: Final = gzip.compress(bytes(32 * 1024 * 1024))

Kind = Callable[[Client], Awaitable[None]]
KINDS: Final[tuple[tuple[Kind, int], ...]] = (
    (push_one, 580),
    (push_some, 140),
    (deliver, 30),
    (crawl, 60),
    (trickle, 60),
    (break_off, 60),
    (tear, 3),
    (attack, 50),
    (hold, 12),
    (ask_and_not_read, 5),
)
"""Clients of each kind in a thousand."""


def kinds(clients: int) -> list[Kind]:
    """The kind of each of so many clients, one at least of each kind, in an order without a pattern."""
    rare = [(kind, max(1, clients * share // 1000)) for kind, share in KINDS[1:]]
    each = [kind for kind, number in rare for _ in range(number)]
    each += [push_one] * (clients - len(each))
    random.Random(1).shuffle(each)
    return each


def run(address: tuple[str, int], clients: int, part: slice, seconds: float) -> Notes:
    """Let a part of so many clients go for that long, in a process of their own; what they saw."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return asyncio.run(_run(address, list(enumerate(kinds(clients)))[part], seconds))


async def _run(address: tuple[str, int], clients: list[tuple[int, Kind]], seconds: float) -> Notes:
    notes, over = Notes(), asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    lives = [_live(Client(address, number, notes, over), kind) for number, kind in clients]
    for ended in await asyncio.gather(*lives, return_exceptions=True):
        if isinstance(ended, BaseException):
            notes.faults.append(repr(ended))
    return notes


async def _live(client: Client, kind: Kind) -> None:
    await client.pause(client.dice.uniform(0, PAUSE_S))  # so that they don't all come at once
    try:
        await kind(client)
    finally:
        client.leave()
