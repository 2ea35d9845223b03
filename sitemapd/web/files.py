"""The published files over HTTP: whole, in part, or not at all when the client has them.

1. Only the names that sitemapd gives are looked for, and a symlink under such a name is not followed.
2. The ETag is the digest of the uncompressed bytes, as the state has it. It is taken from the very file that
   is sent, once for each version, so it is right while a rewrite is under way and while Redis is away.
3. A `.xml` is compressed on the way to who takes gzip. That is another representation, so its ETag is weak;
   a range is always one of the plain bytes, and is sent plain.
4. A file of up to `WHOLE` bytes is held in memory for a moment; a larger one is sent in pieces.
"""

from __future__ import annotations

import re
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from email.utils import formatdate, parsedate_to_datetime
from gzip import BadGzipFile, GzipFile
from hashlib import blake2b
from typing import BinaryIO, Literal, NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from sitemap_store.errors import SitemapdError
from sitemap_store.model.site import INDEX_FILE, SHARD_NAME
from sitemap_store.output.folder import Folder, OpenFile
from sitemap_store.shards.compression import gzip_bytes

HEADERS = {"X-Robots-Tag": "noindex", "X-Content-Type-Options": "nosniff"}
"""Every answer has them: crawlers read sitemaps, and nobody should find them as search results."""
CACHE = "no-cache"
"""Keep a copy, and ask each time whether it is still true: the answer is a 304 of a few bytes."""
WHOLE = 1024 * 1024
PIECE = 64 * 1024
GZIP_FROM = 256
"""Smaller files are not worth compressing."""
REMEMBERED = 4096
_TAG = re.compile(r'\s*((?:W/)?"[^"]*")\s*(?:,|$)')
_RANGE = re.compile(r"bytes=\s*(\d{0,18})-(\d{0,18})\s*", re.IGNORECASE)
_QUALITY = re.compile(r"q=([01](?:\.\d{0,3})?)", re.IGNORECASE)


class Span(NamedTuple):
    """The bytes of a range, the last one included."""

    first: int
    last: int


class Files:
    """One site's published files."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._etags: OrderedDict[tuple[str, int, int, int], str] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, request: Request, name: str) -> Response:
        """The answer to a GET or HEAD of a published file's name; 404 for any other."""
        if not (INDEX_FILE.fullmatch(name) or SHARD_NAME.fullmatch(name)):
            return missing()
        try:
            opened = self.folder.open(name)
        except SitemapdError:
            return _unreadable()
        if opened is None:
            return missing()
        keep = False
        try:
            response, keep = self._respond(request, name, opened, self._etag(name, opened))
        except OSError:
            return _unreadable()
        finally:
            if not keep:
                opened.file.close()
        return response

    def index_files(self) -> list[str]:
        """The names of the published index files, by number. Raises Unavailable."""
        found = [match for name in self.folder.published() if (match := INDEX_FILE.fullmatch(name))]
        return [match[0] for match in sorted(found, key=lambda match: int(match[1] or 1))]

    def _respond(self, request: Request, name: str, opened: OpenFile, digest: str) -> tuple[Response, bool]:
        """The response, and whether it still reads the file."""
        etag, modified = f'"{digest}"', opened.modified_ns // 1_000_000_000
        compressed = name.endswith(".gz")
        ranged = None  # of a GET alone (RFC 9110, 14.2)
        if request.method == "GET":
            ranged = span(request.headers, etag, modified, opened.size, time.time())
        encode = (
            not compressed
            and ranged is None
            and opened.size >= GZIP_FROM
            and takes_gzip(request.headers.get("accept-encoding", ""))
        )
        headers = {
            **HEADERS,
            "ETag": f"W/{etag}" if encode else etag,
            "Last-Modified": formatdate(modified, usegmt=True),
            "Cache-Control": CACHE,
        }
        if not compressed:
            headers["Vary"] = "Accept-Encoding"
        status = precondition(request.headers, etag, modified)
        if status != 200:
            return Response(status_code=status, headers=headers), False
        headers["Accept-Ranges"] = "bytes"
        # Said here, so that Starlette adds no charset: the XML declaration says it.
        headers["Content-Type"] = "application/gzip" if compressed else "application/xml"
        if isinstance(ranged, str):
            headers["Content-Range"] = f"bytes */{opened.size}"
            return Response(status_code=416, headers=headers), False
        if request.method == "HEAD":
            if encode:
                headers["Content-Encoding"] = "gzip"
                # Its length is not known before it is compressed; an empty stream has no Content-Length.
                return StreamingResponse(iter(()), headers=headers), False
            part = ranged or Span(0, opened.size - 1)
            headers["Content-Length"] = str(part.last - part.first + 1)
            return _partial(Response(headers=headers), ranged, opened.size), False
        if encode:
            headers["Content-Encoding"] = "gzip"
            if opened.size <= WHOLE:
                return Response(gzip_bytes(opened.file.read(opened.size)), headers=headers), False
            return _Streamed(_compressed(opened.file), opened.file, headers), True
        part = ranged or Span(0, opened.size - 1)
        length = part.last - part.first + 1
        headers["Content-Length"] = str(length)
        opened.file.seek(part.first)
        if length <= WHOLE:
            body = opened.file.read(length)
            return _partial(Response(body, headers=headers), ranged, opened.size), False
        stream = _Streamed(_pieces(opened.file, length), opened.file, headers)
        return _partial(stream, ranged, opened.size), True

    def _etag(self, name: str, opened: OpenFile) -> str:
        key = (name, opened.inode, opened.modified_ns, opened.size)
        with self._lock:
            if (known := self._etags.get(key)) is not None:
                self._etags.move_to_end(key)
                return known
        etag = _digest(opened.file, compressed=name.endswith(".gz"))
        opened.file.seek(0)
        with self._lock:
            self._etags[key] = etag
            if len(self._etags) > REMEMBERED:
                self._etags.popitem(last=False)
        return etag


class _Streamed(StreamingResponse):
    """An answer that reads a file as it goes, and closes it even if the client left before its first byte."""

    def __init__(self, pieces: Iterator[bytes], file: BinaryIO, headers: Mapping[str, str]) -> None:
        super().__init__(pieces, headers=headers)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()


def _unreadable() -> Response:
    return PlainTextResponse("The file can't be read now.\n", 503, headers={**HEADERS, "Retry-After": "5"})


def missing() -> Response:
    """The answer where there is no such file."""
    return PlainTextResponse("There is no such sitemap file.\n", 404, headers=HEADERS)


def _partial(response: Response, ranged: Span | None, size: int) -> Response:
    if ranged is not None:
        response.status_code = 206
        response.headers["Content-Range"] = f"bytes {ranged.first}-{ranged.last}/{size}"
    return response


def _digest(file: BinaryIO, *, compressed: bool) -> str:
    """The digest of the uncompressed bytes; of the bytes as they are when they are no gzip after all."""
    if compressed:
        try:
            return _digest_of(GzipFile(fileobj=file))
        except (BadGzipFile, EOFError, zlib.error):
            file.seek(0)
    return _digest_of(file)


def _digest_of(file: BinaryIO | GzipFile) -> str:
    digest = blake2b(digest_size=16)
    while piece := file.read(PIECE):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(file: BinaryIO, length: int) -> Iterator[bytes]:
    while length > 0 and (piece := file.read(min(PIECE, length))):
        length -= len(piece)
        yield piece


def _compressed(file: BinaryIO) -> Iterator[bytes]:
    squeeze = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    while piece := file.read(PIECE):
        if packed := squeeze.compress(piece):
            yield packed
    yield squeeze.flush()


# RFC 9110, sections 8.8 and 13 (preconditions) and 14 (ranges)


def precondition(headers: Mapping[str, str], etag: str, modified: int) -> Literal[200, 304, 412]:
    """What a GET's or HEAD's preconditions make of it, in the order that RFC 9110, 13.2.2 gives.

    `etag` is the representation's strong one, `modified` its date in epoch seconds.
    """
    if (tags := headers.get("if-match")) is not None:
        if tags.strip() != "*" and etag not in _tags(tags):
            return 412
    elif (date := _date(headers.get("if-unmodified-since"))) is not None and modified > date:
        return 412
    if (tags := headers.get("if-none-match")) is not None:
        known = tags.strip() == "*" or etag in {tag.removeprefix("W/") for tag in _tags(tags)}
        return 304 if known else 200
    date = _date(headers.get("if-modified-since"))
    return 304 if date is not None and modified <= date else 200


def span(headers: Mapping[str, str], etag: str, modified: int, size: int, now: float) -> Span | str | None:
    """The one range that is asked for; None when the whole is to be sent; "none" when it lies outside.

    Several ranges, and what is no range of bytes, are left out of account, as a server may. If-Range
    by date counts only once the file can't have changed twice in its second (RFC 9110, 8.8.2.2).
    """
    found = _RANGE.fullmatch(headers.get("range", ""))
    if found is None or (not found[1] and not found[2]):
        return None
    if (condition := headers.get("if-range")) is not None:
        date = _date(condition) if '"' not in condition else None
        same_date = date is not None and int(date) == modified and now - modified >= 1
        if condition.strip() != etag and not same_date:
            return None
    if not found[1]:
        first, last = max(0, size - int(found[2])), size - 1
        return Span(first, last) if int(found[2]) and size else "none"
    first, last = int(found[1]), int(found[2]) if found[2] else size - 1
    if found[2] and last < first:
        return None
    return Span(first, min(last, size - 1)) if first < size else "none"


def takes_gzip(accepts: str) -> bool:
    """Whether an Accept-Encoding header allows gzip (RFC 9110, 12.5.3)."""
    allowed: dict[str, bool] = {}
    for part in accepts.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        quality = next((match[1] for each in parameters if (match := _QUALITY.fullmatch(each))), "1")
        allowed[name] = float(quality) > 0
    return allowed.get("gzip", allowed.get("x-gzip", allowed.get("*", False)))


def _tags(header: str) -> list[str]:
    return _TAG.findall(header[:8192])


def _date(header: str | None) -> float | None:
    if header is None:
        return None
    try:
        return parsedate_to_datetime(header).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
