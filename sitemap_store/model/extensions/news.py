"""News: an article of the last 48 hours (Google's news extension, 0.9)."""

from __future__ import annotations

import re
from typing import Any, Final

from sitemap_store.model.dates import instant_ms
from sitemap_store.model.extensions.codes import LANGUAGES, SHORT_LANGUAGES
from sitemap_store.model.extensions.page import (
    Page,
    read_date,
    read_object,
    read_text,
    shown,
    wrong,
)
from sitemap_store.model.values import escape

FRESH_MS: Final = 48 * 3_600_000
"""How long after its publication an article is news, in milliseconds."""
_IGNORED: Final = frozenset({"access", "genres", "keywords", "stock_tickers"})
_LONG: Final = re.compile(r"[a-z]{3}")


def read_news(raw: object, page: Page) -> dict[str, Any] | None:
    """The article; None for one that lacks what it needs, or is no news any more."""
    if not isinstance(raw, dict):
        page.warn(f"news: it was left out: {wrong(raw, 'is no object').detail}")
        return None
    found = read_object(raw, _FIELDS, _IGNORED, "news", page)
    if missing := [name for name in _FIELDS if name not in found]:
        page.warn(f"news: it was left out: it needs {' and '.join(missing)}.")
        return None
    if instant_ms(found["publication_date"]) + FRESH_MS <= page.now:
        page.warn(f"news: it was left out: {found['publication_date']} is more than 48 hours ago.")
        return None
    return found


def write_news(news: dict[str, Any]) -> str:
    """The `<news:news>` element."""
    publication = news["publication"]
    return (
        f"<news:news><news:publication><news:name>{escape(publication['name'])}</news:name>"
        f"<news:language>{publication['language']}</news:language></news:publication>"
        f"<news:publication_date>{news['publication_date']}</news:publication_date>"
        f"<news:title>{escape(news['title'])}</news:title></news:news>"
    )


def _read_publication(value: object, page: Page) -> dict[str, str]:
    if not isinstance(value, dict):
        raise wrong(value, "is no object with name and language")
    found = read_object(value, {"name": read_text, "language": _read_language}, frozenset(), "news", page)
    if len(found) < 2:
        raise wrong(value, "needs a name and a language that are right")
    return found


def _read_language(value: object, page: Page) -> str:
    text = read_text(value, page).lower()
    if text in ("zh-cn", "zh-tw") or text in LANGUAGES or _LONG.fullmatch(text):
        return text
    language = re.split("[-_]", text)[0]
    language = SHORT_LANGUAGES.get(language, language)
    hint = f"write {shown(language)}" if language in LANGUAGES else "write two or three letters, such as en"
    raise wrong(value, f"is no language of a news publication (zh-cn and zh-tw alone have a region); {hint}")


_FIELDS: Final = {"publication": _read_publication, "publication_date": read_date, "title": read_text}
"""In the order of the schema; all are needed."""
