"""What is asked for in a way that can't be: the sentence names what was given, the rule, and the way out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from sitemap_store.errors import BadSetting
from sitemapd.cli import cli
from tests.markdown import ROOT

CONFIG: Final = """
redis_url = "redis://127.0.0.1:1/0"
[sites.main]
base_url = "https://shop.example.com/"
output = "public"
"""
URL: Final = "https://shop.example.com/a"


@pytest.mark.parametrize(
    ("arguments", "value", "way"),
    [
        ("push - " + URL, URL, "leave out"),
        ("push add", "push add", "push add https://"),
        ("push add - " + URL, "push add -", "leave out"),
        ("push remove " + URL, "'remove'", "add, update, delete"),
        ("sync --leave-scope --source cms", "--source", "leave out"),
        ("sync", "--source NAME", "--leave-scope"),
        ("sync - --source a/b", "a/b", "letters"),
        ("token cms --read-only --source cms", "--read-only", "leave out"),
        ("token cms --stdin", "5 characters", "leave out --stdin"),
        ("restore a.backup --discard", "a.backup", "leave out"),
        ("run --output public", "--base-url", "both"),
        ("run content", "content", "[sites.NAME.watch.SOURCE]"),
        ("run --base-url https://x.example/ --output public", "sitemapd.toml", "Leave out"),
        ("watch", "watch", "[sites.NAME.watch.SOURCE]"),
        ("relay catalogue", "'catalogue'", "[sites.NAME.database.SOURCE]"),
        ("triggers status catalogue", "'catalogue'", "[sites.NAME.database.SOURCE]"),
        ("--site shop status", "shop", "main"),
        ("init --base-url https://x.example/", "sitemapd.toml", "--force"),
        ("init --base-url foo", "--base-url: 'foo'", "https://"),
        ("run --base-url foo --output public", "--base-url: 'foo'", "https://"),
        ("check . --base-url https://x.example/?q", "--base-url: 'https://x.example/?q'", "the folder"),
    ],
)
def test_wrong_usage_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, value: str, way: str
) -> None:
    """Exit code 2, and one sentence."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "sitemapd.toml"
    file.write_text(CONFIG)
    words = ["--config", str(file), *arguments.split()]
    result = CliRunner().invoke(cli, words, input="short\n")
    error = result.exception
    said = str(error) if isinstance(error, BadSetting) else result.stderr
    assert isinstance(error, BadSetting) or result.exit_code == 2, (result.output, error)
    assert value in said
    assert way in said


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """The texts that are given to errors of ours in a module, with an x for each value in them."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        if name not in ("UsageError", "BadSetting", "SitemapdError", "Problem"):
            continue
        given = [*node.args, *(each.value for each in node.keywords if each.arg in ("detail", "hint"))]
        texts = [_text(each) for each in given]
        said = " ".join(text for text in texts if " " in text)
        if said and not any(each.arg == "hint" for each in node.keywords):
            yield node.lineno, said


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return ""


@pytest.mark.parametrize("folder", ["sitemapd/commands", "producers/http", "producers/push"])
def test_each_error_says_what_to_do(folder: str) -> None:
    """A sentence of an error has a second part, or a hint: the way out."""
    found = [
        (f"{path.relative_to(ROOT)}:{line}", said)
        for path in sorted((ROOT / folder).glob("*.py"))
        for line, said in sentences(path)
    ]
    assert found or folder == "producers/push"
    assert [each for each in found if ": " not in each[1] and ". " not in each[1]] == []
