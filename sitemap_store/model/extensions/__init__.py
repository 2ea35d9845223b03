"""Extensions: what a sitemap says of a URL beside its date: alternates, images, videos and news.

1. They travel as one JSON object, keyed by the extension's name. On the way in it is checked once; from
   there on it is canonical text: the keys and the fields in one order, no white space.
2. What is wrong costs as little as it can: an optional field itself, a needed one its image, video or
   article, a list without the page its alternates. The URL is never lost, and each loss is a sentence.
3. An update names the extensions that it replaces, `null` (or an empty list) for one that goes. What it
   does not name stays.
4. A URL's extension has at most `BYTES_MAX` bytes of XML, so that a file holds any URL with all four.

Sources: Google's pages on image, video and News sitemaps and on localized versions, and its XSD files.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sitemap_store.model.dates import instant_ms
from sitemap_store.model.extensions.alternates import read_alternates, write_alternates
from sitemap_store.model.extensions.images import read_images, write_images
from sitemap_store.model.extensions.news import FRESH_MS, read_news, write_news
from sitemap_store.model.extensions.page import Page, shown
from sitemap_store.model.extensions.videos import read_videos, write_videos
from sitemap_store.model.protocol import IMAGE_NS, NEWS_NS, VIDEO_NS, XHTML_NS

BYTES_MAX: Final = 2_500_000
"""The most bytes of XML that one extension of a URL may have: a thousand long images fit."""
_SURE: Final = BYTES_MAX // 12
"""Characters of JSON that can't become more than that: no markup and no entity is 12 times its JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """How one extension is read, and how it becomes XML."""

    prefix: str
    namespace: str
    read: Callable[[object, Page], Any]
    """A value from outside → the one that is stored, empty for none; what is wrong becomes warnings."""
    write: Callable[[Any], str]
    """The stored value → its escaped child elements of url."""


EXTENSIONS: Final[Mapping[str, Extension]] = {
    "alternates": Extension(prefix="xhtml", namespace=XHTML_NS, read=read_alternates, write=write_alternates),
    "images": Extension(prefix="image", namespace=IMAGE_NS, read=read_images, write=write_images),
    "videos": Extension(prefix="video", namespace=VIDEO_NS, read=read_videos, write=write_videos),
    "news": Extension(prefix="news", namespace=NEWS_NS, read=read_news, write=write_news),
}
"""In the order in which they stand in a url."""


def read_extensions(raw: object, page: Page) -> dict[str, Any]:
    """Check what an event says of extensions; None for one that is to go, or is not there.

    What is wrong becomes warnings of `page`, and what remains of an extension is kept; one of which nothing
    remains is not in the result.
    """
    if type(raw) is not dict and not isinstance(raw, Mapping):  # the first takes a third of the time
        page.warn(f"ext: {shown(raw)} was left out: it is no JSON object keyed by the extension's name.")
        return {}
    for name in raw:
        if name not in EXTENSIONS:
            near = difflib.get_close_matches(str(name), EXTENSIONS, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(EXTENSIONS)}."
            page.warn(f"ext: {shown(name)} was left out: there is no such extension. {hint}")
    found: dict[str, Any] = {}
    for name, extension in EXTENSIONS.items():
        if name not in raw:
            continue
        value = raw[name]
        if value is None or value == []:
            found[name] = None
        elif checked := extension.read(value, page):
            size = 0 if len(_encode(checked)) <= _SURE else len(extension.write(checked).encode())
            if size > BYTES_MAX:
                page.warn(
                    f"{name}: all were left out: {size:,} bytes of XML are over the {BYTES_MAX:,} of a URL."
                )
            else:
                found[name] = checked
    return found


def canonical(values: Mapping[str, Any]) -> str:
    """Extensions as the one text that the log, the snapshot and the renderer use; "" for none.

    `values` are those of `read_extensions`. An extension that is None is left out.
    """
    there = {name: values[name] for name in EXTENSIONS if values.get(name) is not None}
    return _encode(there) if there else ""


def canonical_update(values: Mapping[str, Any]) -> str | None:
    """What an update says of extensions as text for the log; None where it says nothing."""
    return _encode({name: values[name] for name in EXTENSIONS if name in values}) if values else None


def merge(ext: str, update: str) -> str:
    """Extensions after an update: what it names is replaced, and what it says null of is gone.

    What a source notes there for itself, which no file shows (the watcher's `digest`), stays.
    """
    values = (json.loads(ext) if ext else {}) | json.loads(update)
    names = [*EXTENSIONS, *sorted(values.keys() - EXTENSIONS.keys())]
    there = {name: values[name] for name in names if values.get(name) is not None}
    return _encode(there) if there else ""


def news_until(ext: str) -> int | None:
    """When the article of a URL is no news any more, in epoch milliseconds; None where there is none."""
    # Within text JSON escapes quotes, so this can only be a key.
    if '"news":' not in ext:
        return None
    return instant_ms(json.loads(ext)["news"]["publication_date"]) + FRESH_MS


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
