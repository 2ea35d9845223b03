"""What pages inherit from files of the folders above them."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from producers.filesystem.cache import Row
from producers.filesystem.examine import Examiner, Look
from producers.filesystem.generators import GENERATORS
from producers.filesystem.problems import Problem
from producers.filesystem.selection import Selection
from producers.filesystem.source import FilesystemSource
from producers.filesystem.walk import Tree
from sitemap_store.model.dates import instant_ms
from sitemap_store.model.sections import Sections
from sitemap_store.model.site import Site
from sitemap_store.model.urls import UrlRules

NOW = instant_ms("2100-03-21T12:00:00Z")
SITE = Site(name="main", rules=UrlRules(base="https://example.com/"), sections=Sections(()))


class Desk:
    """A folder of files, and what a walk of it lists."""

    def __init__(self, folder: Path, generator: Any, files: Mapping[str, str], **options: Any) -> None:
        self.folder = folder / "content"
        self.problems: list[Problem] = []
        for path, text in files.items():
            self.write(path, text)
        source = FilesystemSource(name="pages", directory=self.folder, generator=generator, **options)
        selection = Selection(source.include, source.left_out, generator)
        report = self.problems.append
        self.root = os.fsencode(self.folder)
        self.tree = Tree(source, self.root, selection=selection, report=report, watch=None)
        self.examiner = Examiner(source, SITE, settle_ns=0, report=report)

    def write(self, path: str, text: str) -> None:
        """Write a file, making its folders."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def rows(self, old: Mapping[str, Row] | None = None) -> dict[str, Row]:
        """The rows of a walk, by path; `old` those of an earlier one."""
        found = {}
        for listed in self.tree.walk(b"", []):
            for name, state in listed.files:
                inherited = self.tree.inheritance.of(listed.folder, name)
                before = (old or {}).get(os.path.join(listed.folder, name).decode())
                row = self.examiner.examine(
                    Look(self.root, listed.folder, name, state, before, NOW, inherited)
                )
                assert row is not None
                found[row.path.decode()] = row
        return found

    def listed(self) -> set[str]:
        """The files that are listed at `NOW`."""
        return {path for path, row in self.rows().items() if row.live}


def test_a_hugo_cascade_reaches_all_below(tmp_path: Path) -> None:
    """The section's page too, and no page beside it, however alike its name is."""
    files = dict.fromkeys(
        ("a/_index.md", "a/one.md", "a/b/two.md", "a/b/c/three.md", "ab/four.md", "a.md"), ""
    )
    desk = Desk(tmp_path, "hugo", files | {"a/_index.md": "---\ncascade: {draft: true}\n---\n"})
    assert desk.listed() == {"ab/four.md", "a.md"}
    assert {row.why for row in desk.rows().values()} == {"draft", ""}


@pytest.mark.parametrize(
    "cascade",
    [
        "---\ncascade:\n  draft: true\n---\n",
        "---\ncascade:\n- draft: true\n---\n",
        "+++\n[cascade]\ndraft = true\n+++\n",
        "+++\n[[cascade]]\ndraft = true\n+++\n",
        '{"cascade": {"draft": true}}',
        "---\ncascade: {build: {render: never}}\n---\n",
        "---\ncascade: {_build: {list: never}}\n---\n",
        "---\ncascade: {headless: true}\n---\n",
        "---\ncascade: {params: {draft: true}}\n---\n",
        "---\ncascade: {publishDate: 2999-01-01}\n---\n",
        "---\ncascade: {expiryDate: 2001-01-01}\n---\n",
        "---\ncascade: {sitemap: {disable: true}}\n---\n",
    ],
)
def test_whatever_keeps_a_page_out_may_come_by_a_cascade(tmp_path: Path, cascade: str) -> None:
    """In each of the three kinds of front matter, as one map or as a list."""
    assert Desk(tmp_path, "hugo", {"_index.md": cascade, "a/b.md": "text"}).listed() == set()


def test_a_pages_own_field_wins_and_then_the_nearest_folders(tmp_path: Path) -> None:
    """A cascade fills in what is not said nearer to the page; a map as a whole."""
    files = {
        "_index.md": "---\ndraft: false\ncascade: {draft: true, sitemap: {priority: 0.3}}\n---\n",
        "a/_index.md": "---\ncascade: [{draft: false}, {draft: true, priority: 1}]\n---\n",
        "a/one.md": "text",
        "a/two.md": "---\ndraft: true\n---\n",
        "a/three.md": "---\nsitemap: {changefreq: daily}\n---\n",
        "b/four.md": "---\ndraft: false\n---\n",
        "b/five.md": "text",
    }
    desk = Desk(tmp_path, "hugo", files)
    assert desk.listed() == {"_index.md", "a/_index.md", "a/one.md", "a/three.md", "b/four.md"}
    rows = desk.rows()
    assert (rows["a/one.md"].priority, rows["a/three.md"].priority) == ("0.3", "")


@pytest.mark.parametrize(
    ("target", "hidden"),
    [
        ("path: /a/**", ["a/one", "a/b/two", "a/b/_index", "a/de.de"]),
        ("path: '{/a,/a/**}'", ["a/_index", "a/one", "a/b/two", "a/b/_index", "a/de.de"]),
        ("path: /A/*", ["a/one", "a/b/_index", "a/de.de"]),
        ("path: '/a/o?e'", ["a/one"]),
        ("path: '/a/[!x]*'", ["a/one", "a/b/_index", "a/de.de"]),
        ("path: /a/one.md", []),
        ("path: a/**", []),
        ("path: /c-d/**", ["C d/Five"]),
        ("kind: section", ["a/_index", "a/b/_index"]),
        ("kind: '{home,section}'", ["_index", "a/_index", "a/b/_index"]),
        ("kind: page", ["a/one", "a/b/two", "a/de.de", "C d/Five", "leaf/index"]),
        ("kind: taxonomy", ["tags/_index"]),
        ("kind: term", ["tags/x/_index"]),
        ("path: /leaf", ["leaf/index"]),
        ("lang: de", ["a/de.de"]),
        ("sites: {matrix: {languages: [fr, 'd*']}}", ["a/de.de"]),
        ("sites: {matrix: {languages: '{fr,de}'}}, kind: page", ["a/de.de"]),
        ("lang: fr", []),
        ("environment: production", ["all"]),
        ("environment: '{staging,production}'", ["all"]),
        ("environment: development", []),
        ("kind: page, path: '/a/**', lang: en", ["a/one", "a/b/two"]),
    ],
)
def test_a_target_narrows_a_cascade(tmp_path: Path, target: str, hidden: list[str]) -> None:
    """By the logical path, the kind, the language in the file's name, and the environment."""
    names = [
        *[
            "_index",
            "a/_index",
            "a/one",
            "a/b/_index",
            "a/b/two",
            "a/de.de",
            "tags/_index",
            "tags/x/_index",
            "leaf/index",
        ],
        "C d/Five",
    ]
    expected = set(names) if hidden == ["all"] else set(hidden)
    for word in ("target", "_target"):
        files = {f"{name}.md": "text" for name in names}
        files["_index.md"] = f"---\ncascade:\n- {word}: {{{target}}}\n  draft: true\n---\n"
        desk = Desk(tmp_path / word, "hugo", files)
        assert {f"{name}.md" for name in names} - desk.listed() == {f"{name}.md" for name in expected}


def test_a_draft_section_hides_its_own_page_alone(tmp_path: Path) -> None:
    """Hugo builds what is below a section that is a draft, in the future or expired."""
    for field in ("draft: true", "publishDate: 2999-01-01", "expiryDate: 2001-01-01", "date: 2999-01-01"):
        files = {"a/_index.md": f"---\n{field}\n---\n", "a/one.md": "text", "a/b/two.md": "text"}
        assert Desk(tmp_path / field, "hugo", files).listed() == {"a/one.md", "a/b/two.md"}


def test_what_is_in_a_leaf_bundle_is_no_page(tmp_path: Path) -> None:
    """A folder with an index file has one page; the rest, however deep, belongs to it."""
    names = (
        "index.md", "a/index.md", "a/notes.md", "a/b/deep.md", "a/b/index.md", "c/index.de.md", "c/x.md",
        "d/index.html", "d/x.html", "e/x.md", "ab/y.md",
    )  # fmt: skip
    desk = Desk(tmp_path, "hugo", dict.fromkeys(names, "text") | {"d/index.html": "<html>"})
    assert desk.listed() == {
        "index.md", "a/index.md", "c/index.de.md", "d/index.html", "d/x.html", "e/x.md", "ab/y.md",
    }  # fmt: skip
    assert desk.rows()["a/notes.md"].why == "no page"
    assert len(Desk(tmp_path, "", {}).listed()) == len(names)


def test_eleventys_directory_data_reach_all_below(tmp_path: Path) -> None:
    """The page's own data win, then those of its data file, then the nearer folder's; maps are merged."""
    files = {
        "content.json": '{"sitemap": {"priority": 0.3, "changefreq": "daily"}}',
        "a/a.json": '{"permalink": false, "eleventyExcludeFromCollections": false}',
        "a/one.md": "text",
        "a/two.md": "---\npermalink: /two/\n---\n",
        "a/three.md": "text",
        "a/three.json": '{"permalink": "/three/"}',
        "a/b/b.11tydata.json": '{"permalink": "/{{ page.fileSlug }}/"}',
        "a/b/b.json": '{"permalink": false}',
        "a/b/four.md": "---\nsitemap: {priority: 0.9}\n---\n",
        "a/b/three.md": "text",
        "c/c.json": '{"eleventyExcludeFromCollections": true}',
        "c/five.md": "text",
        "c/a.json": '{"permalink": "/{{ x }}/"}',
        "d/six.md": "text",
        "d/data.json": "{nothing that Eleventy reads",
    }
    desk = Desk(tmp_path, "eleventy", files)
    assert desk.listed() == {"a/two.md", "a/three.md", "a/b/four.md", "a/b/three.md", "d/six.md"}
    row = desk.rows()["a/b/four.md"]
    assert (row.priority, row.changefreq, desk.problems) == ("0.9", "daily", [])


def test_jekylls_defaults_apply_by_path_and_type(tmp_path: Path) -> None:
    """The longer path wins, then a type; a pattern of addresses changes nothing."""
    config = """
title: A site
defaults:
- scope: {path: ""}
  values: {sitemap: false, permalink: "/:title/"}
- scope: {path: "", type: posts}
  values: {sitemap: true}
- scope: {path: docs}
  values: {sitemap: true}
- scope: {path: /docs/private/}
  values: {published: false}
- scope: {path: "docs/*/secret.md"}
  values: {published: false}
"""
    names = (
        "about.md",
        "_posts/2026-01-01-a.md",
        "docs/a.md",
        "docs/private/b.md",
        "docs/c/secret.md",
        "docsx.md",
    )
    desk = Desk(
        tmp_path, "jekyll", dict.fromkeys(names, "text") | {"_config.yml": config, "docs/_config.yml": "x"}
    )
    assert desk.listed() == {"_posts/2026-01-01-a.md", "docs/a.md"}
    assert desk.problems == []


@pytest.mark.parametrize("generator", ["", "hexo", "astro"])
def test_other_generators_pass_nothing_on(tmp_path: Path, generator: str) -> None:
    """Nor does a source that names no generator, or reads no front matter."""
    files = {
        "_index.md": "---\ncascade: {draft: true}\n---\n",
        "content.json": '{"permalink": false}',
        "_config.yml": "defaults: [{values: {published: false}}]",
        "a/index.md": "",
        "a/b.md": "",
    }
    assert len(Desk(tmp_path / "x", generator, files).listed()) == 3
    assert len(Desk(tmp_path / "y", "hugo", files, front_matter=False).listed()) == 3


@pytest.mark.parametrize(
    ("generator", "parent", "broken", "mended"),
    [
        ("hugo", "a/_index.md", "---\ncascade: [\n---\n", "---\ncascade: {draft: true}\n---\n"),
        ("hugo", "a/_index.md", '{"cascade": {"target": {"kind": "[b-a]"}}}', '{"cascade": {"draft": 1}}'),
        ("eleventy", "a/a.json", '{"permalink": ', '{"permalink": false}'),
        ("jekyll", "_config.yml", "defaults: [", "defaults: [{values: {published: false}}]"),
    ],
)
def test_while_a_parent_cannot_be_read_its_pages_stay(
    tmp_path: Path, generator: str, parent: str, broken: str, mended: str
) -> None:
    """What was known of them is kept, a new one waits, and one warning names the file."""
    desk = Desk(tmp_path, generator, {"a/one.md": "text", "a/two.md": "---\ndraft: true\n---\n"})
    known = desk.rows()
    desk.write(parent, broken)
    desk.write("a/new.md", "text")
    desk.write("a/one.md", "other text")
    rows = desk.rows(known)
    assert rows["a/one.md"] is known["a/one.md"]
    assert not rows["a/new.md"].loc
    told = [trouble for trouble in desk.problems if trouble.kind == "inheritance"]
    assert [trouble.path.decode() for trouble in told] == [parent]
    assert desk.examiner.unchanged(
        known["a/two.md"], os.stat(desk.folder / "a/two.md"), desk.tree.inheritance.of(b"a", b"two.md")
    )
    desk.write(parent, mended)
    assert not desk.rows(rows)["a/one.md"].live


def test_what_a_page_inherits_is_in_its_row(tmp_path: Path) -> None:
    """A page is read again when that is another, and not when a parent changes in what concerns no entry."""
    desk = Desk(
        tmp_path, "hugo", {"_index.md": "---\ncascade: {type: docs}\n---\n", "a.md": "text", "b/c.md": ""}
    )
    state = os.stat(desk.folder / "a.md")
    row = desk.rows()["a.md"]._replace(ctime=state.st_ctime_ns)
    assert row.inherited == 0
    cases = {"{type: blog, color: red}": True, "{priority: 1, draft: true}": False, "{}": True}
    for cascade, same in cases.items():
        desk.write("_index.md", f"---\ncascade: {cascade}\n---\n")
        assert desk.tree.concerns_others(b"", b"_index.md") is (cascade != "{type: blog, color: red}")
        assert desk.examiner.unchanged(row, state, desk.tree.inheritance.of(b"", b"a.md")) is same


def test_a_large_data_file_is_no_parent(tmp_path: Path) -> None:
    """JSON files that carry no page's data are not even opened."""
    desk = Desk(tmp_path, "eleventy", {"a/one.md": "text"})
    (desk.folder / "a/big.json").write_text(json.dumps(["x" * 100] * 50_000))
    assert desk.listed() == {"a/one.md"}
    assert desk.problems == []


@pytest.mark.parametrize("kind", ["folder", "link", "link to nowhere", "pipe"])
def test_what_only_has_the_name_of_a_parent_is_none(tmp_path: Path, kind: str) -> None:
    """Pages inherit from files; from a link where links are followed."""
    desk = Desk(tmp_path, "hugo", {"a/b.md": "text"})
    (tmp_path / "real.md").write_text("---\ncascade: {draft: true}\n---\n")
    for name in ("_index.md", "index.md"):
        place = desk.folder / "a" / name
        if kind == "folder":
            place.mkdir()
        elif kind == "pipe":
            os.mkfifo(place)
        else:
            place.symlink_to(tmp_path / ("real.md" if kind == "link" else "nothing"))
    assert desk.listed() == {"a/b.md"}
    assert desk.problems == []
    if kind == "link":
        assert Desk(tmp_path, "hugo", {}, follow_symlinks=True).listed() == set()


def test_the_documented_table_names_every_generator_that_passes_something_on() -> None:
    """What is inherited for which generator stands in docs/filesystem.md."""
    page = (Path(__file__).parents[3] / "docs/filesystem.md").read_text()
    rows = page.split("| generator | a page inherits from |")[1].split("\n\n")[0].splitlines()[2:]
    assert {row.split("|")[1].strip().strip("`") for row in rows} == {*GENERATORS, "others"}
