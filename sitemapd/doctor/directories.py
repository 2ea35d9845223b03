"""The check of the content directories: whether the kernel reports changes in all of their folders."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from producers.filesystem.root import Root
from producers.filesystem.selection import Selection
from producers.filesystem.source import FilesystemSource
from producers.filesystem.walk import Tree
from sitemap_store.errors import SitemapdError

INOTIFY: Final = Path("/proc/sys/fs/inotify")


def inotify(sources: list[FilesystemSource], limits: Path = INOTIFY) -> str:
    """Check that the kernel gives as many watches as the content directories have folders.

    `limits` has the files max_user_watches and max_user_instances.
    """
    try:
        watches, instances = (
            int((limits / name).read_text()) for name in ("max_user_watches", "max_user_instances")
        )
    except OSError:
        return "this system has no inotify: the content directories are polled"
    watched = [(source, Root(source.directory, source.name)) for source in sources]
    watched = [(source, root) for source, root in watched if not root.why_polling(source.polling)]
    if len(watched) > instances:
        raise SitemapdError(
            f"{len(watched)} content directories need as many inotify instances, and the kernel gives this "
            f"user {instances}: raise fs.inotify.max_user_instances with sysctl"
        )
    every = (folder for source, root in watched for folder in _folders(source, root))
    folders = sum(1 for _ in islice(every, watches + 1))
    if folders > watches:
        raise SitemapdError(
            f"the content directories have more folders than the {watches:,} inotify watches that the kernel "
            'gives this user: raise fs.inotify.max_user_watches with sysctl, or set polling = "always"'
        )
    return f"{folders:,} of {watches:,} watches are needed, {len(watched)} of {instances:,} instances"


def _folders(source: FilesystemSource, root: Root) -> Iterator[bytes]:
    """The folders that a watcher of the source watches."""
    selection = Selection(source.include, source.exclude, source.generator)
    tree = Tree(source, root.path, selection=selection, report=lambda problem: None, watch=None)
    for listing in tree.walk(b"", []):
        yield listing.folder
