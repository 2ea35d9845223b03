"""A server that answers as a test says: any status, slowly, cut off, not at all. It keeps what came."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Received:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int
    """The number of the connection that it came on."""

    @property
    def events(self) -> list[Any]:
        """Its lines."""
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def key(self) -> str:
        """Its idempotency key."""
        return self.headers["idempotency-key"]


Behaviour = Callable[[socket.socket, Received], bool]
"""Answers a request; whether the connection stays open."""


def answer(status: int, said: object = None, **headers: str) -> Behaviour:
    """Answer with JSON, or with bytes as they are."""
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def behave(connection: socket.socket, _: Received) -> bool:
        head = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}"]
        head += [f"{name}: {value}" for name, value in named.items()]
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
        return named.get("Connection") != "close"

    return behave


def accept(connection: socket.socket, received: Received) -> bool:
    """Accept all events of a request, or the list of a source."""
    lines = received.body.count(b"\n") + (not received.body.endswith(b"\n"))
    said = {"accepted": lines, "refused": []}
    if received.method == "PUT":
        names = ("added", "updated", "deleted", "unchanged", "held")
        said = {"listed": lines, **dict.fromkeys(names, 0), "refused": []}
    return answer(202, said)(connection, received)


def problem(status: int, rule: str = "rule", detail: str = "A sentence.", **headers: str) -> Behaviour:
    """Answer with a problem."""
    said = {"title": "T", "status": status, "rule": rule, "detail": detail}
    return answer(status, said, Content_Type="application/problem+json", **headers)


def hang_up(connection: socket.socket, _: Received) -> bool:
    """Close without an answer."""
    return False


def reset(connection: socket.socket, _: Received) -> bool:
    """End the connection by RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def cut_off(connection: socket.socket, _: Received) -> bool:
    """Close in the middle of the answer."""
    connection.sendall(b'HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\n{"accepted":1,')
    return False


def never(connection: socket.socket, _: Received) -> bool:
    """Never answer; the client gives up."""
    with suppress(OSError):
        connection.recv(1)
    return False


def drip(connection: socket.socket, _: Received) -> bool:
    """Answer a byte at a time, for ever."""
    with suppress(OSError):
        connection.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 100000\r\n\r\n")
        while True:
            connection.sendall(b" ")
            time.sleep(0.02)
    return False


def then_close(behaviour: Behaviour) -> Behaviour:
    """Close the connection after the answer, though nothing in it says so."""

    def behave(connection: socket.socket, received: Received) -> bool:
        behaviour(connection, received)
        return False

    return behave


@dataclass
class FakeServer:
    """`script` says how the next requests are answered; when it is empty, all is accepted."""

    script: deque[Behaviour] = field(default_factory=deque)
    received: list[Received] = field(default_factory=list)
    early: bool = False
    """Whether it answers before it reads the body."""
    context: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._count = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address."""
        scheme = "http" if self.context is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}/"

    def close(self) -> None:
        """Stop."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._count += 1
            threading.Thread(target=self._serve, args=(connection, self._count), daemon=True).start()

    def _serve(self, plain: socket.socket, number: int) -> None:
        with suppress(OSError, ValueError), plain:
            connection = plain
            if self.context is not None:
                connection = self.context.wrap_socket(plain, server_side=True)
            self._open.add(connection)
            with connection, connection.makefile("rb") as file:
                while line := file.readline():
                    method, path, _ = line.decode().split()
                    headers = {}
                    while (row := file.readline().decode().strip()) != "":
                        name, _, value = row.partition(":")
                        headers[name.lower()] = value.strip()
                    length = 0 if self.early else int(headers.get("content-length", "0"))
                    body = file.read(length)
                    if len(body) < length:  # its sender was killed: no server takes half a request
                        return
                    received = Received(
                        method=method, path=path, headers=headers, body=body, connection=number
                    )
                    self.received.append(received)
                    behaviour = self.script.popleft() if self.script else accept
                    if not behaviour(connection, received):
                        return


@contextmanager
def fake_server(
    *script: Behaviour, early: bool = False, context: ssl.SSLContext | None = None
) -> Iterator[FakeServer]:
    """A server for a `with` block."""
    server = FakeServer(deque(script), early=early, context=context)
    try:
        yield server
    finally:
        server.close()
