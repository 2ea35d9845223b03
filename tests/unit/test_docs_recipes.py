"""The Django recipe of docs/push.md does what it says, with stand-ins for signals and database."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from tests import markdown

SITE = "https://shop.example.com/"


class Sitemap:
    """Keeps what a sitemap would list."""

    def __init__(self) -> None:
        self.listed: set[str] = set()

    def add(self, loc: str, *, lastmod: object) -> None:
        """List a URL."""
        self.listed.add(loc)

    def delete(self, loc: str) -> None:
        """Take a URL off the list."""
        self.listed.discard(loc)


class Article:
    """A row; `rows` is the table."""

    rows: ClassVar[dict[int, tuple[str, bool]]] = {}
    objects: ClassVar[Any] = SimpleNamespace(
        filter=lambda pk: SimpleNamespace(
            first=lambda: Article(pk, *Article.rows[pk]) if pk in Article.rows else None
        )
    )

    def __init__(self, pk: int, slug: str, published: bool = True) -> None:
        self.pk, self.slug, self.published = pk, slug, published
        self.updated_at = "2026-03-21"

    def get_full_url(self) -> str:
        """Its address."""
        return SITE + self.slug


class Signals:
    """Django's signals: who receives them, and saving and deleting as Django sends them."""

    def __init__(self) -> None:
        self.receivers: dict[str, Callable[..., None]] = {}

    def receiver(self, signal: str, *, sender: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Register a receiver."""

        def register(work: Callable[..., None]) -> Callable[..., None]:
            self.receivers[signal] = work
            return work

        return register

    def save(self, article: Article) -> None:
        """Write a row, with the signals around it."""
        self.receivers["pre_save"](sender=Article, instance=article)
        Article.rows[article.pk] = (article.slug, article.published)
        self.receivers["post_save"](sender=Article, instance=article)

    def delete(self, article: Article) -> None:
        """Delete a row."""
        del Article.rows[article.pk]
        self.receivers["post_delete"](sender=Article, instance=article)


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> tuple[Sitemap, Signals]:
    """Run the recipe's code."""
    signals, sitemap = Signals(), Sitemap()
    names = ("post_delete", "post_save", "pre_save")
    modules: dict[str, dict[str, Any]] = {
        "django": {},
        "django.db": {"transaction": SimpleNamespace(on_commit=lambda work: work())},
        "django.db.models": {},
        "django.db.models.signals": {name: name for name in names},
        "django.dispatch": {"receiver": signals.receiver},
    }
    for name, values in modules.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(Article, "rows", {})
    code = markdown.blocks(markdown.under(markdown.doc("push.md"), "Django"), "python")[0]
    exec(compile(code, "docs/push.md", "exec"), {"Article": Article, "sitemap": sitemap})
    return sitemap, signals


def test_django_takes_the_older_url_down(recipe: tuple[Sitemap, Signals]) -> None:
    """A new slug, unpublishing, both in one save, and a delete leave no URL that is gone."""
    sitemap, signals = recipe
    signals.save(Article(1, "draft", published=False))
    assert sitemap.listed == set()
    signals.save(Article(1, "a"))
    assert sitemap.listed == {SITE + "a"}
    signals.save(Article(1, "b"))
    assert sitemap.listed == {SITE + "b"}
    signals.save(Article(1, "c", published=False))
    assert sitemap.listed == set()
    signals.save(Article(1, "c"))
    signals.delete(Article(1, "c"))
    assert sitemap.listed == set()
