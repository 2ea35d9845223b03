"""Watches folders by inotify, and passes on the paths that something happened to.

Theory of operation. watchdog's recursive watch answers to events with walks of its own: it hides a
full watch table, reports what was moved away under its old path, and after an overflow takes all
watches off and on again, which can overflow the queue once more. So we use its reader of the
inotify queue (`InotifyFD`) and keep the table of watched folders ourselves, by these rules:

1. A folder is watched first and listed afterwards, by one and the same walk (`walk`): what happens
   in between is in the queue.
2. An event only adds the path that it names to those that wait. Looking at the path adds watches for folders.
3. A folder that is moved away loses its watches with the event that says so. It gets them back,
   under its new path, when that is looked at.
4. An overflow, an unmount and the end of the root's own watch are reported once as `lost`; the owner
   starts again from nothing.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import threading
from collections.abc import Callable
from typing import Final

from watchdog.observers.inotify_c import (
    CallbackId,
    InotifyConstants,
    InotifyEvent,
    InotifyFD,
    Mask,
    WatchDescriptor,
)

from producers.filesystem.paths import is_below, joined
from producers.filesystem.walk import WatchLimit

log = logging.getLogger(__name__)

_MASK: Final = (
    InotifyConstants.IN_ATTRIB
    | InotifyConstants.IN_CLOSE_WRITE
    | InotifyConstants.IN_CREATE
    | InotifyConstants.IN_DELETE
    | InotifyConstants.IN_MOVE
    | InotifyConstants.IN_ONLYDIR
    | InotifyConstants.IN_EXCL_UNLINK
)


class WatchTable:
    """Which folders are watched. `add` gets paths that changed, relative to `root`, on another thread.

    A folder whose permissions changed is added with a slash at its end. `matters` says of a name,
    and whether it is a folder's, whether anything can depend on it. `lost` gets a sentence when events
    are missing from now on. Raises WatchLimit.
    """

    def __init__(
        self,
        root: bytes,
        *,
        add: Callable[[bytes], None],
        matters: Callable[[bytes, bool], bool],
        lost: Callable[[str], None],
        follow: bool = False,
    ) -> None:
        self._root = root
        self._add = add
        self._matters = matters
        self._lost = lost
        self._mask = Mask(_MASK if follow else _MASK | InotifyConstants.IN_DONT_FOLLOW)
        self._lock = threading.Lock()
        self._ids = map(CallbackId, itertools.count(1))
        self._folders: dict[WatchDescriptor, tuple[bytes, CallbackId]] = {}
        self._descriptors: dict[bytes, WatchDescriptor] = {}
        try:
            self._queue = InotifyFD()
        except OSError as error:
            raise _limit(error) from error
        self._queue.start()

    @property
    def folders(self) -> int:
        """How many folders are watched."""
        return len(self._folders)

    @property
    def alive(self) -> bool:
        """Whether the thread that reads the queue still runs."""
        return self._queue.is_alive()

    def close(self) -> None:
        """Give all watches back to the kernel."""
        self._queue.stop()
        if self._queue is not threading.current_thread():
            self._queue.join()

    def watch(self, folder: bytes) -> None:
        """Watch one folder. Raises WatchLimit, or OSError when it is gone or no folder."""
        path = joined(self._root, folder)
        mask = self._mask if folder else Mask(self._mask & ~InotifyConstants.IN_DONT_FOLLOW)
        with self._lock:
            number = next(self._ids)
            try:
                watch = self._queue.add_callback(path, mask, self, number)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EMFILE):
                    raise _limit(error) from error
                raise
            if watch == -1:  # watchdog's answer to "permission denied"
                self._queue.remove_callbacks([(watch, number)])
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fsdecode(path))
            known = self._folders.get(watch)
            if known is not None:
                self._queue.remove_callbacks([(watch, known[1])])
                if self._descriptors.get(known[0]) == watch:
                    del self._descriptors[known[0]]
            self._folders[watch] = (folder, number)
            self._descriptors[folder] = watch

    def on_event(self, event: InotifyEvent) -> None:
        """Pass on what an event names. Called by the reader's thread; never raises."""
        mask = event.mask
        with self._lock:
            known = self._folders.get(event.wd)
            if known is None:
                return
            folder = known[0]
            if mask & InotifyConstants.IN_ISDIR and mask & InotifyConstants.IN_MOVED_FROM:
                self._forget(joined(folder, event.name))
        if mask & InotifyConstants.IN_UNMOUNT:
            self._lost("a file system below the directory was unmounted")
            return
        name, is_folder = event.name, bool(mask & InotifyConstants.IN_ISDIR)
        if not name or not self._matters(name, is_folder):
            return
        if is_folder and mask & InotifyConstants.IN_ATTRIB:
            name += b"/"
        self._add(joined(folder, name))

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        """Forget a folder that is gone. Called by the reader's thread; never raises."""
        with self._lock:
            known = self._folders.get(wd)
            self._drop(wd)
        if known is not None and not known[0]:
            # The one that is made in its place may have the same inode, and no watch.
            self._lost("the directory itself was removed")

    def on_queue_overflow(self) -> None:
        """The kernel dropped events. Called by the reader's thread; never raises."""
        self._lost("the kernel's queue of file events was full (fs.inotify.max_queued_events)")

    def _forget(self, folder: bytes) -> None:
        for path in [path for path in self._descriptors if is_below(path, (folder,))]:
            watch = self._descriptors.pop(path)
            known = self._folders.get(watch)
            self._drop(watch)
            if known is not None:  # where links are followed, one folder may have had two paths
                self._queue.remove_callbacks([(watch, known[1])])

    def _drop(self, watch: WatchDescriptor) -> None:
        known = self._folders.pop(watch, None)
        if known is not None and self._descriptors.get(known[0]) == watch:
            del self._descriptors[known[0]]


def _limit(error: OSError) -> WatchLimit:
    setting = "max_user_instances" if error.errno == errno.EMFILE else "max_user_watches"
    return WatchLimit(
        what="inotify",
        detail=f"the kernel gives no more of them ({error.strerror}): raise fs.inotify.{setting} with sysctl",
    )
