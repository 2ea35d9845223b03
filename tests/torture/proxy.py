"""A TCP proxy before Redis that breaks connections and answers with Redis' own errors.

It runs in a thread of its own. Every command is cut out of the stream, so that a change of mode falls between
two commands and never inside one:

1. `pass_on` forwards what comes.
2. `refuse` closes each connection, and each new one.
3. `reset` breaks the connections that are there with RST; new ones are served.
4. `swallow` lets Redis run what is asked and breaks the connection in place of the answer.
5. `answer(text)` has Redis itself answer with that error: the command is replaced by a script that returns
   it, so the order of the answers stays right. A connection that has subscribed is let through, since Redis
   runs no script there.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Final

READS: Final = frozenset(
    [
        "GET",
        "HGET",
        "HMGET",
        "HGETALL",
        "HLEN",
        "HKEYS",
        "HEXISTS",
        "EXISTS",
        "TYPE",
        "TTL",
        "LLEN",
        "LRANGE",
        "LINDEX",
        "ZCARD",
        "ZRANGE",
        "ZRANGEBYSCORE",
        "ZSCORE",
        "ZREVRANGE",
        "SMEMBERS",
        "SCARD",
        "SISMEMBER",
        "SCAN",
        "HSCAN",
        "ZSCAN",
        "XLEN",
        "XRANGE",
        "XREVRANGE",
        "STRLEN",
        "MGET",
        "MEMORY",
        "TIME",
        "INFO",
        "CONFIG",
    ]
)
ALWAYS: Final = frozenset(
    [
        "HELLO",
        "AUTH",
        "CLIENT",
        "PING",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "PSUBSCRIBE",
        "PUNSUBSCRIBE",
        "QUIT",
        "SELECT",
        "MULTI",
        "EXEC",
    ]
)
"""What keeps the protocol going: it is forwarded in every mode."""
_SCRIPT: Final = b"return redis.error_reply(ARGV[1])"
_RESET: Final = struct.pack("ii", 1, 0)


class Commands:
    """Cuts a client's stream into commands."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The commands that are complete now, as they came."""
        self._held += data
        found = []
        while (end := _end(self._held)) is not None:
            found.append(self._held[:end])
            self._held = self._held[end:]
        return found


def _end(data: bytes) -> int | None:
    """Where the first command ends; None while it is not complete."""
    line = data.find(b"\r\n")
    if line < 0:
        return None
    if not data.startswith(b"*"):
        return line + 2
    place = line + 2
    for _ in range(int(data[1:line])):
        line = data.find(b"\r\n", place)
        if line < 0:
            return None
        place = line + 2 + int(data[place + 1 : line]) + 2
    return place if place <= len(data) else None


def name_of(command: bytes) -> str:
    """A command's name."""
    if not command.startswith(b"*"):
        return command.split()[0].decode("latin-1").upper() if command.split() else ""
    return command.split(b"\r\n", 3)[2].decode("latin-1").upper()


def failing(text: str) -> bytes:
    """A command that Redis answers with that error."""
    parts = (b"EVAL", _SCRIPT, b"0", text.encode())
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Proxy:
    """Listens on a port of 127.0.0.1 and forwards to Redis' unix socket."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._refusing = False
        self._swallowing = False
        self._error: tuple[str, bool] | None = None
        self._clients: set[asyncio.StreamWriter] = set()
        self.struck = 0
        """How many commands or connections met a fault."""
        self._loop = asyncio.new_event_loop()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Redis as seen through the proxy."""
        return f"redis://127.0.0.1:{self.port}/0"

    def pass_on(self) -> None:
        """Forward everything."""
        self._refusing = self._swallowing = False
        self._error = None

    def refuse(self) -> None:
        """Close what is there and whatever comes."""
        self._refusing = True
        self.reset()

    def reset(self) -> None:
        """Break every connection with RST."""
        self._do(self._reset_all())

    def switch(self, target: str) -> None:
        """Break every connection; new ones go to another server."""
        self._target = target
        self.reset()

    def swallow(self) -> None:
        """Run commands, and break the connection in place of the answer."""
        self._swallowing = True

    def answer(self, text: str, *, writes_only: bool = False) -> None:
        """Let every command, or everything that is no plain read, fail with that error."""
        self._error = (text, writes_only)

    def close(self) -> None:
        """End the thread and every connection."""
        self.refuse()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._listener.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._listener))
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _reset_all(self) -> None:
        for writer in list(self._clients):
            self._break(writer)

    def _break(self, writer: asyncio.StreamWriter) -> None:
        self.struck += 1
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            self._break(writer)
            return
        try:
            server_reader, server_writer = await asyncio.open_unix_connection(self._target)
        except OSError:
            self._break(writer)
            return
        self._clients.add(writer)
        back = asyncio.ensure_future(self._answers(server_reader, writer))
        try:
            await self._requests(reader, server_writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # either end has gone, and the other is told below
        finally:
            back.cancel()
            self._clients.discard(writer)
            server_writer.transport.abort()
            writer.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        commands, subscribed = Commands(), False
        while data := await reader.read(65536):
            for command in commands.feed(data):
                name = name_of(command)
                subscribed = subscribed or name.endswith("SUBSCRIBE")
                server.write(command if subscribed else self._judged(command, name))
            await server.drain()

    def _judged(self, command: bytes, name: str) -> bytes:
        if self._error is None or name in ALWAYS:
            return command
        text, writes_only = self._error
        if writes_only and name in READS:
            return command
        self.struck += 1
        return failing(text)

    async def _answers(self, server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await server.read(65536):
                if self._swallowing:
                    self._break(writer)
                    return
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # the client has gone
        writer.transport.abort()
