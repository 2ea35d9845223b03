"""Reads the project's Markdown pages: code blocks, tables, links, headings."""

import re
import textwrap
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
"""The pages for users."""
PAGES: Final = (*DOCS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")

_BLOCK: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE: Final = re.compile(r"`([^`]+)`")


def name(page: Path) -> str:
    """Return a page's path in the repository, which names the cases of a test."""
    return str(page.relative_to(ROOT))


def doc(path: str) -> str:
    """Return the text of a page under docs/."""
    return (ROOT / "docs" / path).read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks in a language, without the indentation that a list gives them."""
    return [textwrap.dedent(body) for _, kind, body in _BLOCK.findall(text) if kind == language]


def prose(text: str) -> str:
    """Return the text without its code blocks."""
    return _BLOCK.sub("", text)


def links(text: str) -> list[str]:
    """Return where the links outside code lead."""
    return _LINK.findall(_CODE.sub("", prose(text)))


def code(text: str) -> list[str]:
    """Return what is written as code within the prose."""
    return _CODE.findall(prose(text))


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as code hosts make them."""
    titles = (title.lower() for _, title in _HEADING.findall(prose(text)))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def headings(text: str, level: int) -> list[str]:
    """Return the headings of a level."""
    return [title for marks, title in _HEADING.findall(prose(text)) if len(marks) == level]


def under(text: str, heading: str) -> str:
    """Return what stands between a heading and the next of its level or above."""
    start = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert start is not None, f"there is no heading {heading!r}"
    end = re.search(rf"^#{{1,{len(start[1])}}} ", text[start.end() :], re.MULTILINE)
    return text[start.end() : start.end() + end.start()] if end else text[start.end() :]


def table(text: str, first: str) -> list[list[str]]:
    """Return the rows of the first table whose first column has that title, without the header."""
    rows: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows and rows[0][0] == first:
            break
        else:
            rows.clear()
    assert rows, f"there is no table of {first!r}"
    assert rows[0][0] == first, f"there is no table of {first!r}"
    return rows[2:]


def plain(cell: str) -> str:
    """Return a table's cell without the marks of code."""
    return cell.replace("`", "")
