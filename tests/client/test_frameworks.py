"""The snippets of docs/client.md, in the frameworks that they are for, against a real server."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sitemapd_client import Client, Problem, Publisher
from tests import markdown
from tests.client.processes import run
from tests.integration.http_world import HttpWorld
from tests.world import BASE

PAGE = markdown.doc("client.md")

DJANGO = """
import sys
import django
from django.conf import settings
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["__main__"],
)
import __main__
__main__.__path__ = []
__main__.__file__ = "/app.py"
django.setup()
from django.db import connection, models, transaction
class Article(models.Model):
    slug = models.TextField()
    class Meta:
        app_label = "__main__"
    def get_full_url(self):
        return sys.argv[2] + "articles/" + self.slug
exec(open(sys.argv[1]).read())
with connection.schema_editor() as editor:
    editor.create_model(Article)
kept, gone = Article.objects.create(slug="kept"), Article.objects.create(slug="gone")
gone.delete()
try:
    with transaction.atomic():
        Article.objects.create(slug="rolled-back")
        raise KeyError
except KeyError:
    pass
sitemap.close(20)
"""
FLASK = """
import sys
from flask import Flask
app, stored = Flask("app"), []
store = stored.append
exec(open(sys.argv[1]).read())
assert app.test_client().put("/articles/kept").status_code == 204
assert stored == ["kept"]
sitemap.close(20)
"""
FASTAPI = """
import asyncio, sys
from fastapi import FastAPI
app, stored = FastAPI(), []
async def store(slug):
    stored.append(slug)
exec(open(sys.argv[1]).read())
async def put(path):
    said = []
    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}
    async def send(message):
        said.append(message)
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "PUT", "path": path,
             "raw_path": path.encode(), "query_string": b"", "headers": [], "scheme": "http",
             "server": ("x", 80), "client": ("x", 1), "root_path": ""}
    await app(scope, receive, send)
    return said[0]["status"]
assert asyncio.run(put("/articles/kept")) == 200
assert stored == ["kept"]
sitemap.close(20)
"""


@pytest.fixture
def world(redis_url: str) -> Iterator[HttpWorld]:
    """Give a server that takes what this machine sends."""
    world = HttpWorld(redis_url)
    yield world
    world.close()


def snippet(heading: str, world: HttpWorld) -> str:
    """The code below a heading of the page, with the world's address and site."""
    (code,) = markdown.blocks(markdown.under(PAGE, heading), "python")
    assert 'site="main"' in code
    return of_the_world(code, world)


def of_the_world(code: str, world: HttpWorld) -> str:
    """Code of the page, with another address and site."""
    code = code.replace("http://127.0.0.1:8321/", world.server.address)
    return code.replace('site="main"', 'site="shop"').replace("https://shop.example.com/", BASE)


@pytest.mark.parametrize(("heading", "app"), [("Django", DJANGO), ("Flask", FLASK), ("FastAPI", FASTAPI)])
def test_snippet_pushes(world: HttpWorld, tmp_path: Path, heading: str, app: str) -> None:
    """What the app stores is listed, with the snippet's source; what it deletes or rolls back is not."""
    code = tmp_path / "snippet.py"
    code.write_text(snippet(heading, world))
    run(app, str(code), BASE)
    assert world.locs("articles") == {"articles/kept"}


def test_snippets_are_short() -> None:
    """Beside imports, a snippet has five lines, and two that the framework needs in any case."""
    for heading in ("Django", "Flask", "FastAPI"):
        (code,) = markdown.blocks(markdown.under(PAGE, heading), "python")
        lines = [line for line in code.splitlines() if line and not line.startswith(("from ", "import "))]
        assert len(lines) <= 6, heading


def test_start_of_the_page(world: HttpWorld) -> None:
    """The five lines that the page begins with do what they say."""
    (code,) = markdown.blocks(PAGE.partition("## In an app")[0], "python")
    names: dict[str, Any] = {}
    exec(of_the_world(code, world), names)
    names["sitemap"].close(20)
    assert world.locs("shop") == {"tea"}


def test_blocking_client_of_the_page(world: HttpWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """So do those of the blocking client, whose refusals are printed."""
    code = snippet("Client and AsyncClient", world)
    articles = [(f"{BASE}articles/{number}", "2026-03-21") for number in range(3)]
    names: dict[str, Any] = {"articles": [*articles, ("/x", "2026-03-21")]}
    exec(code, names)
    assert world.locs() == {"tea", *(f"articles/{number}" for number in range(3))}
    assert capsys.readouterr().out.startswith("4 /x '/x' is not absolute")
    synced = SimpleNamespace(**vars(names["synced"]))
    assert (synced.added, synced.refused[0].rule) == (3, "not-absolute")


def test_client_and_real_server_agree(world: HttpWorld) -> None:
    """A list that leaves out too much, another's site and a refused event are problems with their rule."""
    with Client(world.server.address, site="shop") as client:
        urls = [f"{BASE}{number}" for number in range(1000)]
        assert client.sync("cms", urls).added == 1000
        with pytest.raises(Problem) as caught:
            client.sync("cms", urls[:10])
        assert (caught.value.status, caught.value.rule) == (409, "mass-delete")
        assert client.sync("cms", urls[:10], accept_deletes=True).deleted == 990
        with pytest.raises(Problem) as caught:
            client.add("/tea")
        assert (caught.value.status, caught.value.rule) == (422, "not-absolute")
        assert caught.value.detail.startswith("'/tea' is not absolute")
        assert client.send(["/tea"]).refused_total == 1
    with Client(world.server.address, site="other") as client, pytest.raises(Problem) as caught:
        client.add(BASE)
    assert caught.value.status == 401


def test_arguments_are_as_documented() -> None:
    """The page lists each argument of a publisher, in order, with its default."""
    rows = markdown.table(markdown.under(PAGE, "Publisher"), "argument")
    described = [(markdown.plain(row[0]), markdown.plain(row[1]).replace("_", "")) for row in rows]
    parameters = list(inspect.signature(Publisher).parameters.values())
    defaults = ["" if each.default is each.empty else json.dumps(each.default) for each in parameters]
    words = {"null": "None", "false": "False"}
    assert described == [
        (each.name, words.get(default, default)) for each, default in zip(parameters, defaults, strict=True)
    ]
