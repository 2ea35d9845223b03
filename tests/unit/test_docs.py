"""The pages say what the code does: links, settings, commands, keys, times (events: test_docs_wire)."""

import importlib
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import annotated_types
import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sitemap_store.model.wire import OPS
from sitemap_store.redis.keys import KEYS
from sitemapd.build import build
from sitemapd.cli import cli
from sitemapd.settings import DEFAULT_FILE, SectionSettings, Settings, SiteSettings, load
from tests import markdown
from tests.markdown import DOCS, PAGES, ROOT, plain

COMMANDS: Final = tuple(cli.list_commands(click.Context(cli)))


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in os.environ:
        if variable.startswith("SITEMAPD_"):
            monkeypatch.delenv(variable)


@pytest.mark.parametrize("page", PAGES, ids=markdown.name)
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file that exists, and its anchor a heading of that file."""
    for link in markdown.links(page.read_text("utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT)
        assert target.exists(), link
        if anchor:
            assert anchor in markdown.anchors(target.read_text("utf-8")), link


@pytest.mark.parametrize("page", DOCS, ids=markdown.name)
def test_files_of_the_project_exist(page: Path) -> None:
    """A path that begins with a folder of the project leads to a file of it."""
    tops = ("sitemap_store", "producers", "worker", "sitemapd", "deploy", "examples", "docs", "tests")
    for text in markdown.code(page.read_text("utf-8")):
        if re.fullmatch(rf"(?:{'|'.join(tops)})/[\w./-]*", text):
            assert (ROOT / text).exists(), text


def test_every_decision_is_listed() -> None:
    """How it works links to each page of a decision, and each says why, at what cost, and how to undo it."""
    linked = set(markdown.links(markdown.doc("how-it-works.md")))
    for page in sorted((ROOT / "docs" / "adr").iterdir()):
        assert f"adr/{page.name}" in linked
        text = page.read_text("utf-8")
        assert markdown.headings(text, 2) == ["Why", "What it costs", "To undo it"]


# Settings


TOML: Final = [
    pytest.param(block, id=f"{markdown.name(page)}-{place}")
    for page in DOCS
    for place, block in enumerate(markdown.blocks(page.read_text("utf-8"), "toml"), 1)
]


@pytest.mark.parametrize("block", TOML)
def test_toml_loads(tmp_path: Path, block: str) -> None:
    """A block of TOML is a configuration that works, or a part of one: what is required is filled in."""
    file = tmp_path / DEFAULT_FILE
    file.write_text(block, "utf-8")
    sites: dict[str, dict[str, Any]] = tomllib.loads(block).get("sites", {})
    required = {"base_url": "https://shop.example.com/", "output": "public"}
    missing = {
        name: {key: value for key, value in required.items() if key not in site}
        for name, site in sites.items()
    }
    parts = build(load(file, {"sites": missing} if any(missing.values()) else None))
    assert set(parts.sites) == set(sites)
    assert set(parts.sources) == set(parts.databases) == set(sites)


@pytest.mark.parametrize(
    ("heading", "model"),
    [("Top level", Settings), ("A site", SiteSettings), ("A section", SectionSettings)],
)
def test_settings_are_as_documented(heading: str, model: type[BaseModel]) -> None:
    """docs/configuration.md has each setting once, with its type, its default and its bounds."""
    rows = markdown.table(markdown.under(markdown.doc("configuration.md"), heading), "setting")
    assert sorted(plain(row[0]) for row in rows) == sorted(model.model_fields)
    for setting, kind, default, bounds, _ in rows:
        field = model.model_fields[plain(setting)]
        assert kind == kind_of(field), setting
        assert default == default_of(field), setting
        if any(isinstance(each, annotated_types.Ge) for each in field.metadata):
            low, high = (float(number.replace(",", "")) for number in bounds.split(" to "))
            assert (low, high) == bounds_of(field), setting


def kind_of(field: FieldInfo) -> str:
    """Return what the tables call a field's type."""
    annotation = field.annotation
    if get_origin(annotation) is Literal:
        return " or ".join(f'`"{choice}"`' for choice in get_args(annotation))
    kinds: dict[object, str] = {
        str: "text",
        str | None: "text",
        Path: "path",
        bool: "true or false",
        int: "whole number",
        float: "number",
        float | None: "number",
        tuple[str, ...]: "text or list of text",
        frozenset[str]: "list of text",
        frozenset[str] | None: "list of text",
    }
    return "table" if get_origin(annotation) is dict else kinds[annotation]


def default_of(field: FieldInfo) -> str:
    """Return a field's default as the tables have it: TOML as code, or a word."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    shown = str(value) if isinstance(value, Path) else value
    return f"`{json.dumps(shown if isinstance(shown, dict | str | int | float) else sorted(shown))}`"


def bounds_of(field: FieldInfo) -> tuple[float, float]:
    """Return the least and the most that a number may be."""
    lows = [each.ge for each in field.metadata if isinstance(each, annotated_types.Ge)]
    highs = [each.le for each in field.metadata if isinstance(each, annotated_types.Le)]
    return float(str(lows[0])), float(str(highs[0]))


# Commands


def test_every_command_is_documented() -> None:
    """docs/commands.md has a heading for each command, in the order of the help."""
    assert markdown.headings(markdown.doc("commands.md"), 2) == ["Global options", *COMMANDS]


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_options_are_as_documented(name: str | None) -> None:
    """A command's table has its arguments and options in order, with their defaults."""
    context = click.Context(cli)
    command = cli if name is None else cli.get_command(context, name)
    assert command is not None
    text = markdown.under(markdown.doc("commands.md"), name or "Global options")
    if not command.params:
        assert "No options." in text
        return
    rows = markdown.table(text, "option")
    documented = [(plain(row[0]), plain(row[1])) for row in rows]
    if name is None:
        documented = [row if row[0] != "--config" else ("--config", "") for row in documented]
        assert plain(rows[0][1]) == DEFAULT_FILE
    assert documented == [described(param, context) for param in command.params]


def described(param: click.Parameter, context: click.Context) -> tuple[str, str]:
    """Return a parameter's name and default as the tables have them."""
    shown = param.opts[-1] if isinstance(param, click.Option) else (param.name or "").upper()
    value = param.get_default(context)
    default = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    return shown, "required" if param.required else default


def shell_commands(page: Path) -> Iterator[list[str]]:
    """Give the words of each simple command in a page's blocks of shell."""
    for block in markdown.blocks(page.read_text("utf-8"), "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words: list[str] = []
            skip = False
            for word in lexer:
                if word in {"|", "||", "&&", ";", "&"}:
                    yield words
                    words = []
                elif word in {"<", ">", ">>"}:
                    skip = True
                elif skip:
                    skip = False
                else:
                    words.append(word)
            yield words


@pytest.mark.parametrize("page", DOCS, ids=markdown.name)
def test_commands_in_the_pages_parse(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every `sitemapd` in a block of shell is taken by the command line, and every `make` has its target."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        below = command.commands.values() if isinstance(command, click.Group) else ()
        for each in (command, *below):
            monkeypatch.setattr(each, "callback", lambda **_: None)
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for words in shell_commands(page):
        if words and words[0] == "make":
            assert {word for word in words[1:] if "=" not in word} <= targets
        if words and words[0].rpartition("/")[2] == "sitemapd":
            result = CliRunner().invoke(cli, words[1:])
            assert result.exit_code == 0, f"{shlex.join(words)}: {result.output}"
            if "push" in words:
                assert {*OPS, "-"} & set(words)


def test_each_symptom_leads_to_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line takes each command of docs/troubleshooting.md."""
    text = markdown.doc("troubleshooting.md")
    for heading in markdown.headings(text, 2):
        for symptom, command, then in markdown.table(markdown.under(text, heading), "symptom"):
            words = shlex.split(plain(command))
            assert words[0] == "sitemapd", symptom
            group: click.Command = cli
            for name in words[1:]:
                if isinstance(group, click.Group):
                    found = group.get_command(click.Context(group), name)
                    assert found is not None, command
                    group = found
            monkeypatch.setattr(group, "callback", lambda **_: None)
            assert CliRunner().invoke(cli, words[1:]).exit_code == 0, command
            assert then.endswith("."), symptom


def test_the_readme_starts_with_what_works() -> None:
    """The README shows `make run` first, and then each command of its second start."""
    words = [words for words in shell_commands(ROOT / "README.md") if words]
    assert words[0] == ["make", "run"]
    shown = {command[1] for command in words if command[0] == "sitemapd"}
    assert shown == {"init", "run", "push", "wait", "status", "show", "check", "import"}


# Redis keys, times


def test_redis_keys_are_as_documented() -> None:
    """docs/redis-keys.md lists each key of the code once, with its type."""
    rows = markdown.table(markdown.doc("redis-keys.md"), "key")
    assert sorted((plain(row[0]), row[1]) for row in rows) == sorted(
        (key.name, key.type) for key in KEYS.values()
    )
    assert all(all(row) for row in rows)


def test_times_are_as_documented() -> None:
    """docs/reliability.md has each constant with the value that the code has."""
    rows = markdown.table(markdown.doc("reliability.md"), "constant")
    for constant, value, _ in rows:
        module, _, variable = plain(constant).rpartition(".")
        assert value == str(getattr(importlib.import_module(module), variable)), constant


def test_every_crash_of_a_worker_is_documented() -> None:
    """docs/reliability.md has a row for each point at which the tests kill a worker."""
    code = "".join(
        (ROOT / "worker" / name).read_text("utf-8") for name in ("publish.py", "index.py", "merge.py")
    )
    points = re.findall(r'\bfault\("(\w+)"\)', code)
    rows = markdown.table(markdown.doc("reliability.md"), "a worker is killed")
    first = " ".join(row[0] for row in rows)
    assert points
    assert all(f"`{point}`" in first for point in points)
