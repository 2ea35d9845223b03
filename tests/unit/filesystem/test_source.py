"""The settings of a filesystem source."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from producers.filesystem.source import FilesystemSource
from sitemap_store.errors import BadSetting

PAGE: Final = Path(__file__).parents[3] / "docs" / "filesystem.md"


def source(**options: Any) -> FilesystemSource:
    """A source named pages."""
    return FilesystemSource(**{"name": "pages", "directory": Path("content"), **options})


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("url", "{path}", "must begin with a slash"),
        ("url", "/a?b={path}", "has a ? or #"),
        ("url", "/{path", "brace"),
        ("url", "/{slug}/", "{slug}"),
        ("url", "/{dir}/page", "one address"),
        ("url", "/{path!r}", "{path}"),
        ("url", 5, "is no text"),
        ("include", (), "is empty"),
        ("include", ("",), "no git-ignore pattern"),
        ("exclude", ("a\nb",), "no git-ignore pattern"),
        ("exclude", ("!",), "no git-ignore pattern"),
        ("exclude", ("[z-a]",), "no git-ignore pattern"),
        ("include", ("a\\",), "no git-ignore pattern"),
        ("url", "/../{path}", "dot segment"),
        ("url", "/a/%2e%2E/{path}", "dot segment"),
        ("generator", "wordpress", "none of jekyll, hugo"),
        ("service_pages", "yes", "neither true nor false"),
        ("exclude", (1,), "1 is no text"),
        ("index_files", ("a/b.html",), "no file name"),
        ("strip_extension", "yes", "neither true nor false"),
        ("trailing_slash", "sometimes", "keep, always or never"),
        ("lastmod", ("ctime",), "front-matter, meta, git, content or mtime"),
        ("lastmod_fields", ("last mod",), "no field name"),
        ("polling", "on", "auto, always or never"),
        ("poll_interval", 0, "0.05 to"),
        ("poll_interval", True, "is no number"),
        ("rescan_interval", 0.5, "1 to"),
        ("debounce", -1, "0 to 60"),
        ("debounce_max", 0.01, "0.1 to 600"),
        ("max_delete", 20, "0 to 1"),
        ("max_delete", "20%", "is no number"),
        ("follow_symlinks", 1, "neither true nor false"),
    ],
)
def test_a_bad_value_is_named_with_its_setting(option: str, value: object, said: str) -> None:
    """The sentence names watch.NAME.OPTION and says what would be right."""
    with pytest.raises(BadSetting) as caught:
        source(**{option: value})
    assert caught.value.setting == f"watch.pages.{option}"
    assert said in str(caught.value)


@pytest.mark.parametrize("option", list(FilesystemSource.model_fields))
def test_a_value_of_any_wrong_type_is_one_sentence(option: str) -> None:
    """Whatever a configuration can hold in a setting's place is taken, or named; nothing else is raised."""
    values: list[Any] = [5, -1.5, True, None, "", "text", [], [1], ["a"], [["a"]], {}, {"a": 1}]
    for value in [*values, float("nan"), float("inf"), "a\0b", ["\ud800"]]:
        try:
            source(**{option: value})
        except BadSetting as error:
            assert error.setting.startswith("watch.")
            assert re.fullmatch(r"[^\n]+ (is|has|gives|must) [^\n]+[.}]( [^\n]+[.}])?", str(error)), error


def test_a_bad_name_is_refused() -> None:
    """A source's name goes into every entry and the log, so it can't be anything."""
    with pytest.raises(BadSetting) as caught:
        source(name="my pages\n")
    assert "source" in str(caught.value)


def test_one_value_stands_for_a_list_of_one() -> None:
    """`lastmod = "content"` is the list that it means."""
    assert source(lastmod="content").lastmod == ("content",)
    assert source(exclude=["a", "b"]).exclude == ("a", "b")


def test_a_rescan_interval_of_zero_means_none() -> None:
    """0 switches the periodic comparison off."""
    assert source(rescan_interval=0).rescan_interval == 0


def test_every_setting_is_documented_with_its_default() -> None:
    """The table in docs/filesystem.md names each option once, and its default as TOML."""
    section = PAGE.read_text().split("## Settings")[1].split("\n## ")[0]
    told = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            name, default, _ = (cell.strip() for cell in line.strip("|").split("|", 2))
            told[name.strip("`")] = default.strip("`")
    fields = FilesystemSource.model_fields
    assert set(told) == set(fields) - {"name"}
    for name, default in told.items():
        value = fields[name].default
        if fields[name].is_required() or value is None:
            assert default == ""
        else:
            written = tomllib.loads(f"value = {default}")["value"]
            assert (tuple(written) if isinstance(written, list) else written) == value
