"""Which folder a site's live services publish to, so that another folder is refused while they do."""

from __future__ import annotations

import logging
import socket
import threading
from typing import Final

from sitemap_store.connection import translated
from sitemap_store.errors import BadSetting, SitemapdError
from sitemap_store.output import Folder
from sitemap_store.store import Store
from sitemapd.build import Parts

log = logging.getLogger(__name__)

SEEN_S: Final = 20
"""How long after its last service's end a folder still counts as the site's."""
EVERY_S: Final = 5.0


def note_output(store: Store, folder: Folder) -> None:
    """Note that a live service sees the site's marker in this folder; nothing when it does not."""
    first = store.partitions[0]
    marker = folder.marker()
    if marker is not None and marker == first.state_id():
        with translated():
            store.client.set(f"{first.prefix}:output", _place(folder), ex=SEEN_S)


def check_output(store: Store, folder: Folder) -> None:
    """Raise BadSetting when live services of this site publish to another folder than this one."""
    with translated():
        found = store.client.get(f"{store.partitions[0].prefix}:output")
    known = found.decode() if isinstance(found, bytes) else ""
    if known and known != _place(folder):
        raise BadSetting(
            setting=f"sites.{store.site.name}.output",
            detail=f"is {folder.path}, but services that run publish site {store.site.name} to {known}.",
            hint="Set the same folder or another site name; or stop them, and start 20 seconds later.",
        )


def keep_noting(parts: Parts, stop: threading.Event) -> None:
    """Note the folders of all sites every few seconds, on a thread of its own, until `stop` is set."""

    def note() -> None:
        while not stop.wait(EVERY_S):
            for name in parts.sites:
                try:
                    note_output(parts.store(name), parts.folder(name))
                except SitemapdError as error:
                    log.debug("Not noted: %s", error, extra={"action": "output_not_noted", "site": name})

    threading.Thread(target=note, name="outputs", daemon=True).start()


def _place(folder: Folder) -> str:
    return f"{folder.path.resolve()} on {socket.gethostname()}"
