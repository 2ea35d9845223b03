"""What a session says of a source as a whole, once each: to the log, and to its state."""

from __future__ import annotations

import logging
from pathlib import Path

from producers.filesystem.source import FilesystemSource
from producers.filesystem.state import WatchState
from producers.filesystem.walk import WatchLimit

log = logging.getLogger(__name__)


def log_lost(how: str, directory: Path, state: WatchState) -> None:
    """File events were lost, so that everything is looked at anew."""
    log.warning(
        "File events were lost (%s); %s is watched and scanned anew.",
        how,
        directory,
        extra=state.extra("events_lost"),
    )


def log_limited(error: WatchLimit, source: FilesystemSource, state: WatchState) -> None:
    """The kernel gives no more watches, so that the source is polled."""
    state.update(problem=state.limited)
    log.error(
        "%s can't be watched as a whole: %s. Until then it is polled every %g s.",
        source.directory,
        error.detail,
        source.poll_interval,
        extra=state.extra("watch_limit"),
    )


def log_unlisted(directory: Path, state: WatchState) -> None:
    """Most of the files are not listed: that is often a setting and not what was meant."""
    files, unlisted = state.status["files"], state.status["unlisted"]
    if 2 * sum(unlisted.values()) > files:
        log.warning(
            "Most files of %s are not listed: %s of %d.",
            directory,
            ", ".join(f"{why} {count}" for why, count in sorted(unlisted.items())),
            files,
            extra=state.extra("mostly_unlisted"),
        )
