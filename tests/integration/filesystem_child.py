"""Scenarios that need limits or mounts of their own: run under unshare by test_filesystem_guard.py."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.filesystem_world import World, plain_look, until

LIMITS = Path("/proc/sys/user")


def full_table(world: World, limit: str) -> dict[str, Any]:
    """Start with a limit that is too low, then raise it."""
    low = {"max_inotify_watches": "5", "max_inotify_instances": "0"}[limit]
    (LIMITS / limit).write_text(low)
    watcher = world.watch()
    world.write("new/folder/a.html")
    world.settle()
    told = watcher.health()
    (LIMITS / limit).write_text("10000")
    watcher.rescan()
    until(lambda: watcher.health()["mode"] == "events")
    world.write("after/that/b.html")
    world.settle()
    until(lambda: watcher.health()["problem"] is None)
    after = watcher.health()
    return {"complete": world.urls() == plain_look(world.content), **told, "mode_after_rescan": after["mode"]}


def later(world: World) -> dict[str, Any]:
    """The limit is reached by folders that come while it is watched."""
    (LIMITS / "max_inotify_watches").write_text("30")
    watcher = world.watch()
    before = watcher.health()["mode"]
    for number in range(60):
        world.write(f"more/{number}/a.html")
    world.settle()
    world.write("more/59/b.html")
    world.settle()
    mode = watcher.health()["mode"]
    return {"mode_before": before, "mode": mode, "complete": world.urls() == plain_look(world.content)}


def unmount(world: World) -> dict[str, Any]:
    """A file system is mounted at the root, another one below it; they go and come back."""

    def mount(folder: Path, name: str) -> None:
        store = world.folder / name
        store.mkdir(exist_ok=True)
        folder.mkdir(exist_ok=True)
        subprocess.run(["mount", "--bind", store, folder], check=True)

    def umount(folder: Path) -> None:
        subprocess.run(["umount", folder], check=True)

    below = world.content / "below"
    mount(world.content, "disk")
    mount(below, "disk-below")
    for number in range(150):
        world.write(f"below/{number}.html")
    world.write("a.html")
    watcher = world.watch()
    urls = world.urls()
    assert len(urls) == 151
    umount(below)
    watcher.rescan()
    until(lambda: watcher.health()["held_deletes"] == 150)
    held, below_kept = watcher.health()["held_deletes"], world.urls() == urls
    mount(below, "disk-below")
    watcher.rescan()
    until(lambda: watcher.health()["held_deletes"] == 0)
    umount(below)
    umount(world.content)
    until(lambda: watcher.health()["held_deletes"] == 151)
    root_kept = world.urls() == urls
    mount(world.content, "disk")
    mount(below, "disk-below")
    until(lambda: watcher.health()["held_deletes"] == 0 or watcher.rescan())
    world.write("below/new.html")
    world.until_urls(*urls, "below/new.html")
    return {"held": held, "below_kept": below_kept, "root_kept": root_kept, "back": True}


def main() -> None:
    """Run one scenario and print what came of it."""
    scenario, folder, redis_url = sys.argv[1:]
    logging.basicConfig(level=logging.INFO)
    world = World(Path(folder), redis_url)
    try:
        if scenario == "unmount":
            found = unmount(world)
        elif scenario == "later":
            found = later(world)
        else:
            found = full_table(world, scenario)
    finally:
        world.close()
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
