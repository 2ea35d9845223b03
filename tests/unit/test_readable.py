"""Who can read what is published."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from sitemap_store.errors import SitemapdError
from sitemap_store.output.folder import Folder
from sitemapd.readable import check_readable

NAME = "sitemap-pages-1.xml"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder with one published file."""
    found = Folder(tmp_path / "public")
    found.prepare()
    found.put(NAME, b"<xml/>", "w1")
    return found


def test_a_closed_file_is_named(folder: Folder) -> None:
    """A file that nobody else can read is an error with its mode, and one that is meant to be so is none."""
    (folder.path / NAME).chmod(0o600)
    with pytest.raises(SitemapdError, match=rf"{NAME} \(0600\)"):
        check_readable(folder, None)
    check_readable(Folder(folder.path, file_mode=0o600), None)


def test_a_closed_folder_above_is_said(folder: Folder) -> None:
    """Without a user it is said; for a web server's user it is an error."""
    folder.path.parent.chmod(0o750)
    closed = rf"{folder.path.parent} \(0750\)"
    assert f"{folder.path.parent} (0750)" in check_readable(folder, None)
    stranger = next(row.pw_name for row in pwd.getpwall() if row.pw_name == "nobody")
    with pytest.raises(SitemapdError, match=closed):
        check_readable(folder, stranger)


def test_its_owner_can_read_it(folder: Folder) -> None:
    """The owner's bits count for the owner, and no one may be named who is not there."""
    owner = folder.path.owner()
    assert check_readable(folder, owner) == f"{owner} can read it"
    with pytest.raises(SitemapdError, match="no user 'nobody-at-all'"):
        check_readable(folder, "nobody-at-all")
