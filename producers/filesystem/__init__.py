"""The filesystem producer: keeps a content directory's pages in the sitemap. See `Watcher`."""

from producers.filesystem.source import FilesystemSource
from producers.filesystem.watcher import Watcher

__all__ = ["FilesystemSource", "Watcher"]
