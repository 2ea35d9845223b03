"""docs/wire-format.md says what the code does: fields, examples, rules, records, jobs."""

import ast
import io
import json
from typing import Final

import pytest
from jsonschema import Draft202012Validator

from producers.http.app import EVENT_SCHEMA
from producers.ndjson import LINE_MAX, read_lines
from sitemap_store.errors import Refused
from sitemap_store.model.events import encode
from sitemap_store.model.extensions import EXTENSIONS
from sitemap_store.model.extensions.videos import FIELDS as VIDEO_FIELDS
from sitemap_store.model.site import Site
from sitemap_store.model.wire import FIELDS, OPS, QUEUE, check
from sitemapd.build import build_site
from sitemapd.settings import SiteSettings
from tests import markdown
from tests.markdown import ROOT, plain
from worker.jobs import ALLOWED

NOW: Final = 1_790_000_000_000
SHOP: Final = "https://shop.example.com/"
WIRE: Final = markdown.doc("wire-format.md")
EXTENSIONS_PAGE: Final = markdown.doc("extensions.md")
EVENTS: Final = [*markdown.blocks(WIRE, "json"), *markdown.blocks(EXTENSIONS_PAGE, "json")]
SCHEMA: Final = Draft202012Validator(json.loads(EVENT_SCHEMA))
RULES: Final = [(plain(row[0]), row[2][1:-1]) for row in markdown.table(WIRE, "rule")]
BY_HAND: Final = {
    "too-large": (SHOP, " " * LINE_MAX + "{}"),
    "too-long": (
        SHOP,
        json.dumps({"op": "add", "loc": SHOP.ljust(2048, "a")}),
    ),
    "too-short": ("http://a.b/", '{"op":"add","loc":"http://a.b/"}'),
}
"""The base and the line for rules whose example is too long for a page, or is of another site."""


def shop(base: str = SHOP) -> Site:
    """Return the site of the examples."""
    return build_site("shop", SiteSettings.model_validate({"base_url": base, "output": "public"}))


def test_event_fields_are_as_documented() -> None:
    """docs/wire-format.md lists each field of an event, in order."""
    assert [plain(row[0]) for row in markdown.table(WIRE, "field")] == list(FIELDS)


@pytest.mark.parametrize("block", EVENTS)
def test_events_of_the_page_are_accepted(block: str) -> None:
    """An event shown as JSON keeps every rule, with nothing changed or left out."""
    assert check(json.loads(block), shop(), NOW).warnings == ()


@pytest.mark.parametrize("block", EVENTS)
def test_events_of_the_pages_are_valid_by_the_schema(block: str) -> None:
    """The published JSON Schema takes what the pages show."""
    SCHEMA.validate(json.loads(block))


@pytest.mark.parametrize(
    "ext",
    [
        {"image": []},
        {"images": ["/a.jpg"]},
        {"videos": [{"title": "T"}]},
        {"news": {}},
        {"alternates": "de"},
        [],
    ],
)
def test_the_schema_refuses_wrong_extensions(ext: object) -> None:
    """And so does the service, of a strict event."""
    event = {"op": "add", "loc": SHOP, "ext": ext, "strict": True}
    assert not SCHEMA.is_valid(event)
    with pytest.raises(Refused):
        check(event, shop(), NOW)


def test_the_schema_has_each_field() -> None:
    """Those of an event, of its extensions and of a video."""
    schema = json.loads(EVENT_SCHEMA)
    ext = schema["$defs"]["Ext"]["properties"]
    assert list(schema["properties"]) == list(FIELDS)
    assert list(ext) == list(EXTENSIONS)
    assert list(ext["videos"]["anyOf"][0]["properties"]) == list(VIDEO_FIELDS)


def test_extensions_are_as_documented() -> None:
    """docs/extensions.md has each extension, with its element, in the order in which they are written."""
    rows = markdown.table(EXTENSIONS_PAGE, "extension")
    assert [plain(row[0]) for row in rows] == list(EXTENSIONS)
    assert [plain(row[2]).partition(":")[0] for row in rows] == [each.prefix for each in EXTENSIONS.values()]
    fields = [plain(row[0]) for row in markdown.table(EXTENSIONS_PAGE, "field of a video")]
    assert fields == list(VIDEO_FIELDS)


def test_lines_of_the_page_are_accepted() -> None:
    """A line shown as NDJSON is read and keeps every rule."""
    (block,) = markdown.blocks(WIRE, "ndjson")
    (lines,) = read_lines(io.BytesIO(block.encode()))
    assert [check(item, shop(), NOW).event.op for item in lines.items] == list(OPS)


@pytest.mark.parametrize(("rule", "example"), RULES, ids=[rule for rule, _ in RULES])
def test_each_rule_refuses_its_example(rule: str, example: str) -> None:
    """The example of a rule is refused by that rule and no other."""
    base, line = BY_HAND.get(rule, (SHOP, example))
    (read,) = read_lines(io.BytesIO(line.encode()))
    (refused,) = read.items
    if not isinstance(refused, Refused):
        with pytest.raises(Refused) as caught:
            check(refused, shop(base), NOW)
        refused = caught.value
    assert refused.rule == rule


def test_no_rule_is_missing() -> None:
    """Each code that a refusal is given in the code has its row."""
    found = set()
    for path in (*(ROOT / "sitemap_store").rglob("*.py"), ROOT / "producers" / "ndjson.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                found |= rules_of(node)
    assert {"json", "location", "lastmod", "urgent"} <= found  # each of the ways that they are given
    assert found <= {rule for rule, _ in RULES}


def rules_of(call: ast.Call) -> set[str]:
    """Return the rule codes that a call gives as text."""
    given: list[ast.expr] = [word.value for word in call.keywords if word.arg == "rule"]
    function = call.func.id if isinstance(call.func, ast.Name) else ""
    if function == "_refused" and len(call.args) == 3:
        given.append(call.args[1])
    if function == "_wrong":
        given.append(call.args[0])
    return {str(each.value) for each in given if isinstance(each, ast.Constant)}


def test_records_are_as_documented() -> None:
    """An event of the table is kept in the log as the record beside it."""
    rows = markdown.table(WIRE, "event")
    assert rows
    for event, record in rows:
        checked = check(json.loads(plain(event)), shop(), NOW).event
        assert encode(checked).replace("\t", "⇥") == plain(record)


def test_jobs_are_as_documented() -> None:
    """The queue and the jobs' dotted names are those that a worker listens on and runs."""
    text = markdown.under(WIRE, "RQ jobs")
    assert {plain(row[0]) for row in markdown.table(text, "job")} == set(ALLOWED)
    assert f"The queue is `{QUEUE}`" in text
