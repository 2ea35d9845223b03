"""What a session says of a source as a whole, once each: to the log, and to its standing."""

from __future__ import annotations

import logging
from pathlib import Path

from producers.filesystem.source import FilesystemSource
from producers.filesystem.standing import Standing
from producers.filesystem.walk import WatchLimit

log = logging.getLogger(__name__)


def tell_held(held: int, directory: Path, standing: Standing) -> None:
    """Deletes are held back, or (0) are not any more."""
    before = standing.status.get("held_deletes", 0)
    standing.say(held_deletes=held)
    if held and held != before:
        log.error(
            "%d URLs have no file any more: more than max_delete lets a scan delete, or all of them. "
            "They stay in the sitemap. If the files of %s are gone for good, start once with "
            "--accept-deletes; if a disk is not mounted, mount it.",
            held,
            directory,
            extra=standing.extra("deletes_held"),
        )
    elif before and not held:
        log.info(
            "%s: no deletes are held back any more.",
            directory,
            extra=standing.extra("deletes_released"),
        )


def tell_lost(how: str, directory: Path, standing: Standing) -> None:
    """File events were lost, so that everything is looked at anew."""
    log.warning(
        "File events were lost (%s); %s is watched and scanned anew.",
        how,
        directory,
        extra=standing.extra("events_lost"),
    )


def tell_limited(error: WatchLimit, source: FilesystemSource, standing: Standing) -> None:
    """The kernel gives no more watches, so that the source is polled."""
    standing.say(problem=standing.limited)
    log.error(
        "%s can't be watched as a whole: %s. Until then it is polled every %g s.",
        source.directory,
        error.detail,
        source.poll_interval,
        extra=standing.extra("watch_limit"),
    )


def tell_unlisted(directory: Path, standing: Standing) -> None:
    """Most of the files are not listed: that is often a setting and not what was meant."""
    files, unlisted = standing.status["files"], standing.status["unlisted"]
    if 2 * sum(unlisted.values()) > files:
        log.warning(
            "Most files of %s are not listed: %s of %d.",
            directory,
            ", ".join(f"{why} {count}" for why, count in sorted(unlisted.items())),
            files,
            extra=standing.extra("mostly_unlisted"),
        )
