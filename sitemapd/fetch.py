"""Fetches files from hosts that the user named, and from no other.

1. A host is asked only after `allow`. Redirects, at most `REDIRECTS`, lead to allowed hosts or fail.
2. The name is resolved here, and the connection goes to the address that was checked, so a name that changes
   its address in between leads nowhere else. Addresses that are not public are refused (SSRF), unless all are
   allowed, or the host was named by the command and is such an address itself.
3. A fetch ends after `FETCH_S`, whatever the server sends, and after `BYTES_MAX`.
4. No proxy, no cookie and no credential is used.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urljoin, urlsplit

from sitemap_store.check.address import normal_form
from sitemap_store.check.content import READ_MAX
from sitemap_store.errors import Refused, SitemapdError

FETCH_S: Final = 60.0
"""Seconds that one fetch may take, redirects included."""
BYTES_MAX: Final = READ_MAX
"""Bytes of one answer, after a Content-Encoding is undone."""
REDIRECTS: Final = 5
WAIT_MAX_S: Final = 60.0
"""The longest Retry-After that is waited for, once a file."""

_PIECE: Final = 64 * 1024
_REDIRECT: Final = frozenset({301, 302, 303, 307, 308})
_BUSY: Final = frozenset({429, 503})
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class NotFetched(SitemapdError):
    """No answer came, or the address may not be asked: then `is_refused` is true."""

    def __init__(self, detail: str, *, is_refused: bool = False) -> None:
        super().__init__(detail)
        self.is_refused = is_refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answered; `path` has the body of a 200."""

    status: int
    address: str
    """Where the last redirect led to, in its normal form."""
    content_type: str
    """Without parameters, in lower case."""
    content_encoding: str
    headers: Message
    path: Path


class Fetcher:
    """Fetches into files of a folder, which the caller removes."""

    def __init__(self, folder: Path, *, allow_private: bool = False, seconds: float = FETCH_S) -> None:
        self._folder = folder
        self._allow_private = allow_private
        self._seconds = seconds
        self._private_hosts: set[str] = set()
        self._hosts: set[str] = set()
        self._count = 0
        self._agent = f"sitemapd/{version('sitemapd')}"
        self._tls = ssl.create_default_context()

    def allow(self, address: str, *, named: bool = False) -> None:
        """Let the host of an address be asked. `named`: the user gave it, so it may be a private one.

        Raises NotFetched when a named host has no address.
        """
        host = _host(address)
        self._hosts.add(host)
        if named and not any(map(is_public, _resolve(host, 0))):
            self._private_hosts.add(host)

    def allows(self, address: str) -> bool:
        """Whether the host of an address may be asked."""
        return _host(address) in self._hosts

    def fetch(self, address: str) -> Answer:
        """Fetch an address in its normal form; waits once where the server asks for it. Raises NotFetched."""
        answer, wait_s = self._follow(address)
        if wait_s is not None and wait_s <= WAIT_MAX_S:
            time.sleep(wait_s)
            answer, _ = self._follow(address)
        return answer

    def ask(
        self, address: str, *, method: Literal["GET", "HEAD"] = "GET", most: int = BYTES_MAX
    ) -> tuple[Answer, float | None]:
        """Ask once for an address in its normal form, follow nothing, and read only the first `most` bytes.

        Returns the answer, and the seconds that a busy server asks to wait. Raises NotFetched.
        """
        answer, _, wait_s = self._ask(address, time.monotonic() + self._seconds, method, most)
        return answer, wait_s

    def _follow(self, address: str) -> tuple[Answer, float | None]:
        deadline = time.monotonic() + self._seconds
        for _ in range(REDIRECTS + 1):
            answer, to, wait_s = self._ask(address, deadline)
            if answer.status not in _REDIRECT or not to:
                return answer, wait_s
            try:
                address = normal_form(urljoin(address, to))
            except Refused as refused:
                raise NotFetched(f"it redirects to no URL: {refused.detail}") from refused
        raise NotFetched(f"more than {REDIRECTS} redirects")

    def _ask(
        self, address: str, deadline: float, method: str = "GET", most: int = BYTES_MAX
    ) -> tuple[Answer, str, float | None]:
        """One request: the answer, where it redirects to, and how long the server asks to wait."""
        if not self.allows(address):
            raise NotFetched(f"{address} is on a host that was not named", is_refused=True)
        parts = urlsplit(address)
        sock = self._connect(parts.scheme, _host(address), parts.port, deadline)
        # A socket's own time-out begins anew with each byte.
        guard = threading.Timer(max(0.0, deadline - time.monotonic()), _shut, [sock])
        guard.daemon = True
        guard.start()
        try:
            with closing(http.client.HTTPConnection(parts.netloc)) as connection:
                connection.sock = sock
                target = f"{parts.path}?{parts.query}" if parts.query else parts.path
                headers = {"User-Agent": self._agent, "Accept-Encoding": "identity", "Connection": "close"}
                connection.request(method, target, headers=headers)
                with closing(connection.getresponse()) as response:
                    encoding = response.getheader("Content-Encoding", "").lower()
                    answer = Answer(
                        status=response.status,
                        address=address,
                        content_type=response.getheader("Content-Type", "").partition(";")[0].strip().lower(),
                        content_encoding=encoding,
                        headers=response.headers,
                        path=self._file(),
                    )
                    if response.status == 200 and method == "GET":
                        packed = encoding in ("gzip", "x-gzip") and not parts.path.endswith(".gz")
                        _write(answer.path, _body(response, packed=packed, most=most))
                    wait = response.getheader("Retry-After", "") if response.status in _BUSY else ""
                    return answer, response.getheader("Location", ""), _seconds(wait)
        except (OSError, http.client.HTTPException, zlib.error) as error:
            if time.monotonic() >= deadline:
                raise NotFetched(f"no whole answer within {self._seconds:g} s") from error
            raise NotFetched(_plainly(error)) from error
        finally:
            guard.cancel()
            sock.close()

    def _connect(self, scheme: str, host: str, port: int | None, deadline: float) -> socket.socket:
        port = port or (443 if scheme == "https" else 80)
        found = _resolve(host, port)
        may = self._allow_private or host in self._private_hosts
        usable = [each for each in found if may or is_public(each)]
        if not usable:
            detail = f"{host} is {found[0]}, which is no public address; --allow-private allows it"
            raise NotFetched(detail, is_refused=True)
        failure: OSError | None = None
        for each in usable:
            try:
                left = max(0.1, deadline - time.monotonic())
                with ExitStack() as stack:
                    sock = stack.enter_context(socket.create_connection((str(each), port), timeout=left))
                    if scheme == "https":
                        sock = self._tls.wrap_socket(sock, server_hostname=host)
                    stack.pop_all()
                    return sock
            except OSError as error:
                failure = error
        raise NotFetched(f"{host}: {_plainly(failure)}") from failure

    def _file(self) -> Path:
        self._count += 1
        return self._folder / str(self._count)


def is_public(address: Address) -> bool:
    """Whether an address, and the IPv4 address that it may stand for, is one of the public internet."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64:
            inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if not all(each.is_global for each in inner if each is not None):
            return False
        if address.ipv4_mapped is not None:
            return True
    return address.is_global and not address.is_multicast


def _host(address: str) -> str:
    return (urlsplit(address).hostname or "").rstrip(".")


def _resolve(host: str, port: int) -> list[Address]:
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotFetched(
            f"{host} has no address ({_plainly(error)}): correct the name, or see this machine's DNS"
        ) from error
    return [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows]


def _plainly(error: Exception | None) -> str:
    """What an error says without the number that the system has for it."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):
        # Not a TLS socket's own method, which would take its state from the thread that reads.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _body(response: http.client.HTTPResponse, *, packed: bool, most: int) -> Iterator[bytes]:
    unpack = zlib.decompressobj(31)
    size = 0
    while piece := response.read1(_PIECE):
        while piece:
            plain = unpack.decompress(piece, _PIECE) if packed else piece
            piece = unpack.unconsumed_tail if packed else b""
            size += len(plain)
            if size > BYTES_MAX:
                raise NotFetched(f"the answer is larger than {BYTES_MAX:,} bytes")
            yield plain
            if size >= most:
                return
    if (response.length or 0) > 0 or (packed and not unpack.eof and size):
        raise NotFetched("the answer was cut off")


def _write(path: Path, pieces: Iterator[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(pieces)


def _seconds(retry_after: str) -> float | None:
    """How long a Retry-After asks to wait: seconds, or an HTTP date. Source: RFC 9110, 10.2.3."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
