"""File systems that tell of no changes."""

from pathlib import Path
from typing import Final

import pytest

from producers.filesystem.root import Root, silent_mount

TABLE: Final = rb"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /proc rw - proc proc rw
30 22 0:40 / /srv/nfs rw,relatime shared:9 master:3 - nfs4 server:/export rw
31 22 0:41 / /srv/my\040share rw - cifs //server/share rw
32 22 0:42 / /home/u/remote rw - fuse.sshfs u@h: rw
33 22 8:1 /var/www /srv/bound rw - ext4 /dev/sda1 rw
34 22 0:43 / /app rw - virtiofs app rw
35 34 0:44 / /app/local rw - tmpfs tmpfs rw
36 22 0:45 / /over rw - nfs server:/a rw
37 22 0:46 / /over rw - tmpfs tmpfs rw
broken line
"""


@pytest.mark.parametrize(
    ("directory", "kind"),
    [
        (b"/srv/www", None),
        (b"/", "nfs4"),
        (b"/srv", "nfs4"),
        (b"/srv/nfs", "nfs4"),
        (b"/srv/nfs/a/b", "nfs4"),
        (b"/srv/nfs-else", None),
        (b"/srv/my share/a", "cifs"),
        (b"/home/u/remote", "fuse.sshfs"),
        (b"/home/u", "fuse.sshfs"),
        (b"/srv/bound/a", None),
        (b"/app/content", "virtiofs"),
        (b"/app/local/content", None),
        (b"/over/a", None),
    ],
)
def test_a_silent_file_system_is_found(directory: bytes, kind: str | None) -> None:
    """The mount that holds the directory decides, and every mount below it."""
    found = silent_mount(directory, TABLE)
    assert (found[1] if found else None) == kind


def test_this_machines_table_can_be_read() -> None:
    """A folder of the tests' own lies on a file system that tells changes, or says what it is."""
    why = Root(Path("/proc/self"), "pages").why_polling("auto")
    assert why == "" or why.endswith("which tells no changes")
