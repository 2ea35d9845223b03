"""Which files are pages."""

import pytest

from producers.filesystem.selection import Selection, is_service_page, never_a_page

HTML_AND_MARKDOWN = ("*.html", "*.md")


def pages(selection: Selection, *paths: str) -> set[str]:
    """The paths that are pages, their folders being entered first."""
    found = set()
    for path in paths:
        folder, _, name = path.encode().rpartition(b"/")
        if selection.reaches(folder) and selection.is_page(folder, name):
            found.add(path)
    return found


@pytest.mark.parametrize(
    "name",
    [
        ".hidden.html",
        ".#page.md",
        "#page.md#",
        "page.md~",
        "~$page.html",
        ".page.html.Ab12Cd",
        ".page.md.swp",
        "page.swp",
        "4913",
        "page.html___jb_tmp___",
        "page.html___jb_old___",
        "page.html.part",
        "page.html.tmp",
        "page.html.bak",
        ".git",
        ".sitemapignore",
        ".two\nlines.html",
    ],
)
def test_leftovers_of_editors_are_never_pages(name: str) -> None:
    """Dot files, backups and half-written files are no pages, even when everything is included."""
    assert never_a_page(name.encode())
    assert not Selection(("*",), ()).is_page(b"", name.encode())


@pytest.mark.parametrize("name", ["page.html", "a#b.html", "4913.html", "tmp.md", "a~b.md", "bak"])
def test_names_that_only_look_like_leftovers_are_pages(name: str) -> None:
    """The rule is about whole names: a page about tmp files is a page."""
    assert not never_a_page(name.encode())


def test_only_included_files_are_pages() -> None:
    """What no pattern of include matches is no page."""
    found = pages(Selection(HTML_AND_MARKDOWN, ()), "a.html", "b/c.md", "d.css", "html", "x.html.gz")
    assert found == {"a.html", "b/c.md"}


def test_include_may_name_folders() -> None:
    """Patterns with a slash are relative to the directory, as git has it."""
    selection = Selection(("/docs/**/*.html", "legal.txt"), ())
    found = pages(selection, "docs/a/b.html", "docs/b.html", "a.html", "legal.txt", "x/legal.txt")
    assert found == {"docs/a/b.html", "docs/b.html", "legal.txt", "x/legal.txt"}


def test_an_excluded_folder_takes_all_below_it_along() -> None:
    """A folder that is left out isn't entered, so nothing below it can be a page."""
    selection = Selection(HTML_AND_MARKDOWN, ("drafts/", "/vendor", "*.part.html"))
    found = pages(
        selection, "drafts/a.html", "x/drafts/y/a.html", "vendor/a.html", "x/vendor/a.html", "a.part.html"
    )
    assert found == {"x/vendor/a.html"}
    assert not selection.enters(b"x", b"drafts")


def test_a_sitemapignore_speaks_for_its_folder() -> None:
    """Its patterns are relative to the folder it lies in."""
    selection = Selection(HTML_AND_MARKDOWN, ())
    selection.set_ignore(b"blog", b"# not yet\n/secret.html\nold/\n")
    found = pages(
        selection, "secret.html", "blog/secret.html", "blog/x/secret.html", "blog/old/a.html", "old/a.html"
    )
    assert found == {"secret.html", "blog/x/secret.html", "old/a.html"}


def test_a_deeper_sitemapignore_overrules_the_one_above_and_exclude() -> None:
    """`!` takes back what a folder above, or the setting, left out."""
    selection = Selection(HTML_AND_MARKDOWN, ("b.html",))
    selection.set_ignore(b"", b"a.html\n")
    selection.set_ignore(b"blog", b"!a.html\n!b.html\n")
    found = pages(selection, "a.html", "b.html", "blog/a.html", "blog/b.html", "blog/x/a.html")
    assert found == {"blog/a.html", "blog/b.html", "blog/x/a.html"}


def test_a_sitemapignore_that_goes_is_forgotten() -> None:
    """Once the file is gone, what it left out is a page again."""
    selection = Selection(HTML_AND_MARKDOWN, ())
    selection.set_ignore(b"blog", b"*.html\n")
    assert pages(selection, "blog/a.html") == set()
    selection.set_ignore(b"blog", None)
    assert pages(selection, "blog/a.html") == {"blog/a.html"}


def test_names_that_are_no_text_are_matched_by_their_bytes() -> None:
    """A name that is no UTF-8 can be a page, and can be left out."""
    selection = Selection(HTML_AND_MARKDOWN, ("ma*ana.html",))
    assert not selection.is_page(b"", b"ma\xf1ana.html")
    assert selection.is_page(b"", b"\xffman.html")
    selection.set_ignore(b"", b"\xff*.html\n")
    assert not selection.is_page(b"", b"\xff.html")


@pytest.mark.parametrize("name", ["About.HTML", "x.HTM", "a.Md", "b.MARKDOWN", "c.html"])
def test_the_case_of_a_suffix_makes_no_difference(name: str) -> None:
    """Cameras, Windows and old tools write suffixes in capitals."""
    for include in (("*.html", "*.htm", "*.md", "*.markdown"), ("*.HTML", "*.Htm", "*.MD", "/*.markdown")):
        selection = Selection(include, ())
        assert selection.is_page(b"", name.encode())
        assert selection.matters(name.encode(), False)


@pytest.mark.parametrize(
    "path",
    [
        "404.html", "404.md", "500.html", "50x.html", "404/index.html", "de/404.html", "pt-BR/500.htm",
        "4xx.html", "google1234.html", "google0f1e2d3c4b5a6978.html", "BingSiteAuth.xml",
        "yandex_0123456789abcdef.html", "baidu_verify_codeva-x1.html", "pinterest-ab12.html",
    ],
)  # fmt: skip
def test_service_pages_are_told_by_their_names(path: str) -> None:
    """Error pages and verification files at the top of a site are not what people look for."""
    assert is_service_page(path.encode())


@pytest.mark.parametrize(
    "path",
    ["products/404.html", "2404.html", "404-not-a-band.html", "600.html", "google.html", "google-maps.html",
     "blog/google1234.html", "yandex.html", "archive/500/index.html"],
)  # fmt: skip
def test_names_that_only_look_like_service_pages_are_listed(path: str) -> None:
    """A product with the number 404 is a page."""
    assert not is_service_page(path.encode())


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfprivate.html\nold/\n",
        b"private.html\r\nold/\r\n",
        "\ufeffprivate.html\r\nold/".encode("utf-16-le"),
        b"private.html\rold/\r",
        b"!\nprivate.html\n[z-a]\nold/\na\\\n",
    ],
)
def test_a_sitemapignore_is_read_as_it_was_meant(text: bytes) -> None:
    """A byte order mark, the line ends of Windows and a bad line leave the other patterns as they are."""
    selection = Selection(("*.html",), ())
    bad = selection.set_ignore(b"", text)
    assert not selection.is_page(b"", b"private.html")
    assert not selection.enters(b"", b"old")
    assert selection.is_page(b"", b"public.html")
    assert len(bad) == (3 if text.startswith(b"!") else 0)
    assert all("is no git-ignore pattern" in sentence for sentence in bad)
    assert [sentence.split(",")[0] for sentence in bad] in ([], ["line 1", "line 3", "line 5"])
