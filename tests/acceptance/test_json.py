"""docs/json.md has each field that a command with `--json` prints, and no other."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import click
import pytest
import redis
from click.testing import CliRunner

from sitemap_store.redis.keys import Keys
from sitemapd.cli import cli
from tests import markdown
from tests.acceptance.place import BASE, Place, add, ndjson, settings
from tests.acceptance.until import until
from tests.redis_server import RedisServer

PAGE: Final = markdown.doc("json.md")
TYPES: Final[dict[str, tuple[type, ...]]] = {
    "text": (str,),
    "whole number": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "null": (type(None),),
}
FORMS: Final = {
    "RFC 3339": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z",
    "URL": r"https?://\S+",
    "command": r"sitemapd .+",
}
"""Units of texts → what such a text looks like."""
RARE: Final = {".sites.SITE.producers.SOURCE.overflows was never printed"}
"""What takes more than this test: the kernel's queue of changes overflows."""
SOURCES: Final = """
[sites.main.sections.pages]
changefreq = "daily"
[sites.main.watch.files]
directory = "content"
[sites.main.database.catalogue]
dsn = "sqlite:///shop.db"
setup = "schema.sql"
table = "products"
url = "/p/{slug}"
triggers = "auto"
"""
SCHEMA: Final = """
CREATE TABLE products (id INTEGER PRIMARY KEY, slug TEXT UNIQUE);
INSERT INTO products VALUES (1, 'tea'), (2, 'cup');
"""


@dataclass
class Node:
    """A place in the JSON. A name in capitals stands for any name, and [] for each item."""

    kind: str = ""
    unit: str = ""
    inner: dict[str, Node] = field(default_factory=dict)
    came: bool = False

    @property
    def optional(self) -> bool:
        """Whether the field may be left out."""
        if self.kind:
            return self.kind.endswith(", optional")
        return all(inner.optional for inner in self.inner.values())

    def fits(self, value: Any) -> bool:
        """Whether a value has the documented type and unit."""
        kinds = self.kind.removesuffix(", optional").split(" or ") if self.kind else ["object"]
        return any(_fits(value, kind, self.unit) for kind in kinds)


def _fits(value: Any, kind: str, unit: str) -> bool:
    if kind.startswith("list of "):
        return isinstance(value, list) and all(
            _fits(each, kind.removeprefix("list of ").removesuffix("s"), unit) for each in value
        )
    if kind == "text":
        return isinstance(value, str) and re.fullmatch(FORMS.get(unit, ".*"), value, re.DOTALL) is not None
    return isinstance(value, TYPES[kind]) and isinstance(value, bool) == (kind == "boolean")


def documented(heading: str) -> Node:
    """The table below a heading of the page."""
    root = Node()
    for path, kind, unit, meaning in markdown.table(markdown.under(PAGE, heading), "field"):
        assert meaning, path
        node = root
        for name in markdown.plain(path).replace("[]", ".[]").strip(".").split("."):
            node = node.inner.setdefault(name, Node())
        assert not node.kind, f"{path} stands twice"
        node.kind, node.unit = kind, markdown.plain(unit)
    return root


def differences(node: Node, value: Any, path: str) -> Iterator[str]:
    """Say in what a value that was printed differs from the table."""
    node.came = True
    if isinstance(value, list) and "[]" in node.inner:
        for each in value:
            yield from differences(node.inner["[]"], each, f"{path}[]")
        return
    if not node.fits(value):
        yield f"{path}: {value!r} is printed, and {node.kind or 'object'} ({node.unit}) is documented"
    if not isinstance(value, dict) or "object" in node.kind:
        return
    anything = next((name for name in node.inner if name.isupper()), None)
    for name, each in value.items():
        known = node.inner.get(name, node.inner.get(anything or ""))
        if known is None:
            yield f"{path}.{name} is not documented"
        else:
            yield from differences(known, each, f"{path}.{name}")
    for name in node.inner.keys() - value.keys() - {anything}:
        if not node.inner[name].optional:
            yield f"{path}.{name} is documented, and is not printed"


def missing(node: Node, path: str) -> Iterator[str]:
    """Name the documented fields that were never printed."""
    for name, inner in node.inner.items():
        if not inner.came:
            yield f"{path}.{name} was never printed"
        yield from missing(inner, f"{path}.{name}")


Printed = dict[str, list[Any]]
"""Heading of the page → what was printed."""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory, any_redis: RedisServer) -> Printed:
    """Run each command with `--json` on a service that has sources, sections, refusals and held deletes."""
    any_redis.flush()
    place = Place(tmp_path_factory.mktemp("json"))
    try:
        return _print_all(place, any_redis.url)
    finally:
        place.close()


def _print_all(place: Place, redis_url: str) -> Printed:
    folder, found = place.folder, Printed()
    config = place.configure(settings(redis_url, shard_size=10, compact_below=0) + SOURCES)
    (folder / "schema.sql").write_text(SCHEMA)
    (folder / "content").mkdir()
    (folder / "content" / "a.html").write_text("text")
    (folder / "content" / "b.md").write_text("---\ndraft: true\n---\n")

    def run(heading: str, *arguments: str, given: bytes = b"") -> None:
        """Run the command of a heading, whose words in capitals are no part of it."""
        words = [word for word in heading.split() if not word.isupper()]
        result = CliRunner().invoke(cli, ["--config", str(config), *words, *arguments, "--json"], input=given)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        lines = result.stdout.splitlines() if heading == "tail" else [result.stdout]
        found.setdefault(heading, []).extend(json.loads(line) for line in lines)

    many = [f"{BASE}n/{number}" for number in range(24)]
    service = place.service("run", "--port", "0")
    service.says("Serving at")
    tail = place.service("tail", "--json")
    known = add("c", lastmod="2026-03-21", changefreq="weekly", priority=1)
    run("push", "-", given=ndjson([known, {"op": "add", "loc": "/x"}]))
    run("push", "add", BASE + "d", *many, "--source", "cms", "--wait", "30")
    until(lambda: '"published"' in tail.out and '"refused"' in tail.out, what="tail prints these")
    run("show URL", BASE + "c")
    run("show URL", BASE + "p/tea")
    run("push", "delete", *many[:-12], *many[-11:], "--wait", "30")
    until(lambda: '"accepted"' in tail.out, what="tail prints this")
    run("sync FILE", "-", "--source", "cms", given=ndjson([{"loc": BASE + "d"}, {"loc": many[-12]}]))
    run("sync --leave-scope")
    run("sync --source SOURCE", "catalogue")
    assert place.command("sync", "-", "--source", "cms").code == 1, "an empty list is held back"
    (folder / "sitemap-old.txt").write_text(f"{BASE}old#top\n")
    run("import TARGET", str(folder / "sitemap-old.txt"), "--sections", "--dry-run")
    run("verify", "--count", "2")
    run("status")
    tail.signal(signal.SIGINT)
    tail.ended()
    found["tail"] = [json.loads(line) for line in tail.out.splitlines()]
    assert service.stop() == 0

    (folder / "public" / "sitemap.xml").unlink()
    for heading in ("rejected", "robots", "top", "doctor", "check --state"):
        run(heading)
    run("compact", "--dry-run")
    run("sync --source SOURCE", "catalogue")
    run("triggers status SOURCE", "catalogue")
    run("token NAME", "cms")
    run("token NAME", "cms", "--stdin", "--read-only", given=b"x" * 40)
    with redis.Redis.from_url(redis_url) as client:
        client.hset(Keys("main", 0).aside(), "1", "ValueError: by a record")
        run("status")
        run("backup FILE", str(folder / "site.backup"))
        for heading, arguments in (
            ("restore FILE", [str(folder / "site.backup")]),
            ("restore", []),
            ("restore --discard", []),
        ):
            client.flushall()
            run(heading, *arguments)
    config.write_text(config.read_text().replace("catalogue", "renamed"))
    run("triggers list")
    run("triggers status SOURCE", "renamed")
    run("status")
    return found


@pytest.mark.parametrize("heading", markdown.headings(PAGE, 2))
def test_the_page_has_what_the_command_prints(printed: Printed, heading: str) -> None:
    """Each field that is printed is documented with its type, and each documented one is printed."""
    table = documented(heading)
    if heading == "top":
        # It prints what `status` does, as the page says, and asks no database.
        status, site = (each.inner["sites"].inner["SITE"].inner for each in (documented("status"), table))
        site |= {name: node for name, node in status.items() if name != "held"}
    wrong = {line for value in printed[heading] for line in differences(table, value, "")}
    if heading != "top":
        wrong |= set(missing(table, "")) - RARE
    assert sorted(wrong) == []


def test_each_command_with_json_is_on_the_page() -> None:
    """A command that takes `--json` has a heading, which begins with its words."""
    headings = {re.sub(r" (--|[A-Z]).*", "", heading) for heading in markdown.headings(PAGE, 2)}
    assert headings == {" ".join(words) for words in _taking_json(cli, ())}


def _taking_json(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            assert below is not None
            yield from _taking_json(below, (*words, name))
    elif any("--json" in each.opts for each in command.params):
        yield words
