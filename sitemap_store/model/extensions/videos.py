"""Videos: the films that a page shows (Google's video extension, 1.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from sitemap_store.errors import Refused
from sitemap_store.model.extensions.codes import COUNTRIES
from sitemap_store.model.extensions.page import (
    Page,
    Read,
    as_list,
    read_count,
    read_date,
    read_object,
    read_text,
    read_url,
    read_yes_no,
    shown,
    wrong,
)
from sitemap_store.model.values import escape

MOST: Final = 1_000
"""Videos of one URL."""
TAGS_MOST: Final = 32
_RATING: Final = re.compile(r"([0-4])(?:\.([0-9]{1,9}))?|(5)(?:\.0{1,9})?")
_PLATFORMS: Final = frozenset({"web", "mobile", "tv"})
_IGNORED: Final = frozenset(
    ["category", "gallery_loc", "price", "tvshow", "allow_embed", "autoplay", "id", "content_segment_loc"]
)


def read_videos(raw: object, page: Page) -> list[dict[str, Any]]:
    """The videos that have what they need, in the order in which they came."""
    found: list[dict[str, Any]] = []
    count = 0
    for item in as_list(raw):
        try:
            video = _read_video(item, page)
        except Refused as refused:
            page.warn(f"videos: one was left out: {refused.detail}")
            continue
        count += 1
        if count <= MOST:
            found.append(video)
    if count > MOST:
        page.warn(f"videos: the first {MOST:,} of {count:,} were taken; a URL has no more.")
    return found


def write_videos(videos: list[dict[str, Any]]) -> str:
    """The `<video:video>` elements, their children in the order of the schema."""
    return "".join(
        f"<video:video>{''.join(_write(name, value) for name, value in video.items())}</video:video>"
        for video in videos
    )


def _read_video(item: object, page: Page) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise wrong(item, "is no object")
    video = read_object(item, FIELDS, _IGNORED, "videos", page)
    title = shown(video.get("title", ""))
    for name in ("content_loc", "player_loc"):
        if video.get(name) == page.loc:
            page.warn(f"videos: the {name} of {title} was left out: it is the page, and no video.")
            del video[name]
    missing = [name for name in ("thumbnail_loc", "title", "description") if name not in video]
    if not ("content_loc" in video or "player_loc" in video):
        missing.append("content_loc or player_loc")
    if missing:
        raise Refused(loc="", rule="ext", detail=f"{title} needs {' and '.join(missing)}.")
    return video


def _read_title(value: object, page: Page) -> str:
    return read_text(value, page, page.title_max)


def _read_rating(value: object, page: Page) -> str:
    text = repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    match = _RATING.fullmatch(text) if isinstance(text, str) and len(text) <= 11 else None
    if match is None:
        raise wrong(value, "is no number from 0.0 to 5.0")
    return f"{match[1] or match[3]}.{(match[2] or '').rstrip('0') or '0'}"


def _read_tags(value: object, page: Page) -> list[str]:
    tags: dict[str, None] = {}
    for item in as_list(value):
        try:
            tags[read_text(item, page)] = None
        except Refused as refused:
            page.warn(f"videos: a tag was left out: {refused.detail}")
    if not tags:
        raise wrong(value, "has no tag")
    if len(tags) > TAGS_MOST:
        page.warn(f"videos: the first {TAGS_MOST} of {len(tags)} tags were taken; a video has no more.")
    return list(tags)[:TAGS_MOST]


def _read_relation(
    value: object, page: Page, key: str, known: frozenset[str], why: Mapping[str, str]
) -> dict[str, Any]:
    """What a video is allowed or denied in: codes of a list, each once."""
    if not isinstance(value, dict) or value.get("relationship") not in ("allow", "deny"):
        raise wrong(value, "needs the relationship, allow or deny")
    codes: dict[str, None] = {}
    raw = value.get(key)
    for item in raw.split() if isinstance(raw, str) else as_list(raw):
        code = item if isinstance(item, str) else ""
        code = code.upper() if key == "countries" else code.lower()
        if code in known:
            codes[code] = None
        else:
            hint = why.get(code, f"known are {', '.join(sorted(known)) if len(known) < 9 else 'ISO 3166-1'}")
            page.warn(f"videos: {shown(item)} was left out of {key}: it is no code ({hint}).")
    if not codes:
        raise wrong(value, f"names no {key}")
    return {"relationship": value["relationship"], key: list(codes)}


def _read_uploader(value: object, page: Page) -> dict[str, str]:
    item = value if isinstance(value, dict) else {"name": value}
    found = read_object(
        item, {"name": partial(read_text, most=255), "info": read_url}, frozenset(), "videos", page
    )
    if "name" not in found:
        raise wrong(value, "names nobody in 255 characters at the most")
    if "info" in found and _host(found["info"]) != _host(page.loc):
        page.warn(
            f"videos: the uploader's info was left out: {found['info']} is on another host than the page."
        )
        del found["info"]
    return found


def _host(url: str) -> str:
    return url.split("/", 3)[2]


def _write(name: str, value: Any) -> str:
    match name:
        case "tag":
            return "".join(f"<video:tag>{escape(tag)}</video:tag>" for tag in value)
        case "restriction" | "platform":
            codes = " ".join(value["countries" if name == "restriction" else "platforms"])
            return f'<video:{name} relationship="{value["relationship"]}">{codes}</video:{name}>'
        case "uploader":
            info = f' info="{escape(value["info"])}"' if "info" in value else ""
            return f"<video:uploader{info}>{escape(value['name'])}</video:uploader>"
    return f"<video:{name}>{escape(str(value))}</video:{name}>"


FIELDS: Final[Mapping[str, Read]] = {
    "thumbnail_loc": read_url,
    "title": _read_title,
    "description": partial(read_text, most=2_048),
    "content_loc": read_url,
    "player_loc": read_url,
    "duration": lambda value, page: read_count(value, 1, 28_800),
    "expiration_date": read_date,
    "rating": _read_rating,
    "view_count": lambda value, page: read_count(value, 0, 10**18),
    "publication_date": read_date,
    "tag": _read_tags,
    "family_friendly": read_yes_no,
    "restriction": partial(
        _read_relation, key="countries", known=COUNTRIES, why={"UK": "GB is the United Kingdom's"}
    ),
    "requires_subscription": read_yes_no,
    "uploader": _read_uploader,
    "platform": partial(_read_relation, key="platforms", known=_PLATFORMS, why={}),
    "live": read_yes_no,
}
"""In the order of the schema."""
