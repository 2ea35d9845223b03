"""Webhooks: the mappings that docs/push.md shows, on the payloads that it shows, and what can go wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.http.mapping import EVENTS_MAX, MISSING, Rule, Template, each, follow, items, pointer
from producers.http.webhooks import Webhook
from sitemap_store.errors import Refused
from sitemapd.api import push_api
from sitemapd.build import build
from sitemapd.settings import DEFAULT_FILE, load
from tests import markdown

BASE = "https://shop.example.com/"
HEADERS = {"x-github-event": "push", "X-GitHub-Event": "push"}


def example(tmp_path: Path, heading: str, site: str) -> tuple[Webhook, Any]:
    """The mapping under a heading of docs/push.md, and the payload beside it."""
    from sitemapd.api import _webhook

    text = markdown.under(markdown.doc("push.md"), heading)
    (toml,), (payload,) = markdown.blocks(text, "toml"), markdown.blocks(text, "json")
    file = tmp_path / DEFAULT_FILE
    file.write_text(f'[sites.{site}]\nbase_url = "{BASE}"\noutput = "public"\n{toml}')
    parts = build(load(file, {"redis_url": "redis://127.0.0.1:1/"}))
    push_api(parts)
    ((name, settings),) = parts.settings.sites[site].webhooks.items()
    return _webhook(f"sites.{site}.webhooks.{name}", settings), json.loads(payload)


def made(hook: Webhook, payload: Any, headers: dict[str, str] = HEADERS) -> list[tuple[str, ...]]:
    """What a mapping makes: op, path, lastmod."""
    found: list[tuple[str, ...]] = []
    for item in items(hook.rules, payload, headers, BASE):
        assert not isinstance(item, Refused), item.detail
        found.append((item["op"], item["loc"].removeprefix(BASE), item.get("lastmod", "")))
    return found


def test_ghost(tmp_path: Path) -> None:
    """A published post is added, a renamed one moves, a withdrawn or deleted one goes, a draft is nothing."""
    hook, payload = example(tmp_path, "Ghost", "blog")
    when = "2026-03-21T11:22:33.000Z"
    assert made(hook, payload) == [("add", "first-boil/", when)]

    current = payload["post"]["current"]
    renamed = {"post": {"current": current, "previous": {"slug": "old name"}}}
    assert made(hook, renamed) == [("add", "first-boil/", when), ("delete", "old%20name/", "")]
    withdrawn = {"post": {"current": {**current, "status": "draft"}, "previous": {"status": "published"}}}
    assert made(hook, withdrawn) == [("delete", "first-boil/", "")]
    deleted = {"post": {"current": {}, "previous": {"id": "6f", "slug": "gone", "status": "published"}}}
    assert made(hook, deleted) == [("delete", "gone/", "")]
    assert made(hook, {"post": {"current": {**current, "status": "draft"}, "previous": {"title": "x"}}}) == []


def test_strapi(tmp_path: Path) -> None:
    """Published entries of the model are added with an encoded slug; others' models and drafts are not."""
    hook, payload = example(tmp_path, "Strapi", "shop")
    url = "articles/why%20six%20temperatures"
    assert made(hook, payload) == [("add", url, "2026-03-21T11:22:33.000Z")]
    assert made(hook, {**payload, "event": "entry.unpublish"}) == [("delete", url, "")]
    assert made(hook, {**payload, "model": "author"}) == []
    draft = {**payload, "event": "entry.update", "entry": {**payload["entry"], "publishedAt": None}}
    assert made(hook, draft) == []


def test_github(tmp_path: Path) -> None:
    """The files of each commit come in the order of the commits; other branches and files are nothing."""
    hook, payload = example(tmp_path, "GitHub, and others that push commits", "docs")
    when = payload["head_commit"]["timestamp"]
    assert made(hook, payload) == [
        ("add", "guide/tea/", when),
        ("delete", "guide/old/", ""),
        ("update", "guide/water/", when),
    ]
    back = {"added": ["content/guide/old.md"], "removed": [], "modified": []}
    later = {**payload, "commits": [*payload["commits"], back]}
    assert made(hook, later)[-1] == ("add", "guide/old/", when), "what came back in a later commit is there"
    assert made(hook, {**payload, "ref": "refs/heads/next"}) == []
    assert made(hook, payload, {"X-GitHub-Event": "ping"}) == []


def test_keys(tmp_path: Path) -> None:
    """A rule with a key names it in each event, and its delete needs no URL."""
    hook, payload = example(tmp_path, "Keys", "news")
    assert items(hook.rules, payload, {}, BASE) == [
        {"op": "add", "key": "4f7e", "loc": BASE + "news/tea-is-back"}
    ]
    gone = {"type": "delete", "sys": {"id": "4f7e"}}
    assert items(hook.rules, gone, {}, BASE) == [{"op": "delete", "key": "4f7e"}]
    (without,) = items(hook.rules, {"type": "delete"}, {}, BASE)
    assert isinstance(without, Refused)


def rule(loc: str, **options: Any) -> Rule:
    """A rule that adds."""
    return Rule(op="add", loc=Template.parse(loc), **options)


def one(loc: str, payload: Any) -> str:
    """The loc that a template makes, or the rule that it is refused for."""
    (item,) = items((rule(loc),), payload, {}, BASE)
    return item.rule if isinstance(item, Refused) else str(item["loc"])


@pytest.mark.parametrize(
    ("template", "payload", "expected"),
    [
        ("{/url}", {"url": "https://other.example/a b"}, "https://other.example/a b"),
        ("{/url}", {"url": "/a"}, BASE + "a"),
        ("/p/{/slug}", {"slug": "a b/ü?x#y"}, BASE + "p/a%20b%2F%C3%BC%3Fx%23y"),
        ("/p/{/slug:path}", {"slug": "a b/ü?x#y"}, BASE + "p/a%20b/%C3%BC%3Fx%23y"),
        ("/p/{/slug:path}.html", {"slug": "a/b"}, BASE + "p/a/b.html"),
        ("/p/{/slug}", {"slug": "a/../b"}, BASE + "p/a%2F..%2Fb"),
        ("/p/{/slug}", {"slug": "..."}, BASE + "p/..."),
        ("/p/{/slug}", {"slug": ".."}, "mapping"),
        ("/p/{/slug}/", {"slug": "."}, "mapping"),
        ("/p/{/slug:path}", {"slug": "../../"}, "mapping"),
        ("/p/{/slug:path}", {"slug": "a/./b"}, "mapping"),
        ("/p/{/a}{/a}/", {"a": "."}, "mapping"),
        ("{/url}", {"url": "/a/%2e%2E/"}, "mapping"),
        ("{/url}", {"url": "https://shop.example.com/a/../"}, "mapping"),
        ("/p?of={/id}", {"id": "../x"}, BASE + "p?of=..%2Fx"),
        ("/p/{/id}", {"id": 7}, BASE + "p/7"),
        ("/p/{/a~1b/0}", {"a/b": ["x"]}, BASE + "p/x"),
        ("/p/{/slug}", {"slug": ""}, "mapping"),
        ("/p/{/slug}", {"slug": None}, "mapping"),
        ("/p/{/slug}", {"slug": True}, "mapping"),
        ("/p/{/slug}", {"slug": ["a"]}, "mapping"),
        ("/p/{/slug}", {}, "mapping"),
        ("/p/{/slug}", [], "mapping"),
    ],
)
def test_template(template: str, payload: Any, expected: str) -> None:
    """Values are encoded into a path, and taken as they are when alone; without one there is no URL."""
    assert one(template, payload) == expected


@pytest.mark.parametrize("text", ["{", "}", "{}", "{a}", "{0}", "{100}", "{/a", "/a}", "{{/a}}"])
def test_template_that_is_none(text: str) -> None:
    """A template with a reference to nothing is a mistake in the settings."""
    with pytest.raises(ValueError, match=r"\S"):
        Template.parse(text)


def test_condition_is_exact() -> None:
    """A value must be equal and of the same kind; `*` is anything that is there."""
    for value, wanted, holds in (
        ("a", ("a", "b"), True),
        (1, (True,), False),
        (1, (1,), True),
        ("1", (1,), False),
        (None, ("*",), False),
        (0, ("*",), True),
    ):
        found = items((rule("/x", when={"/v": wanted}),), {"v": value}, {}, BASE)
        assert bool(found) == holds, (value, wanted)
    assert items((rule("/x", when={"/v": ("*",)}),), {}, {}, BASE) == []


def test_events_are_bounded() -> None:
    """A payload makes no more events than may be, plus the one that says so."""
    payload = {"urls": ["/x"] * (EVENTS_MAX * 3)}
    assert len(items((rule("{.}", each=pointer("/urls/*")),), payload, {}, BASE)) == EVENTS_MAX + 1


@given(st.recursive(st.none() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)), st.text())
def test_pointer_follows_or_misses(value: Any, text: str) -> None:
    """No pointer breaks on any value, and a plain one picks what following it gives."""
    path = pointer(f"/{text}")
    found = follow(value, path)
    if "*" not in path:
        assert [row[1] for row in each(value, path)] == ([] if found is MISSING else [found])
    else:
        list(each(value, path))
