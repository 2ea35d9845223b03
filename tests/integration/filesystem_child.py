"""Scenarios that need limits, mounts or rights of their own: run by test_filesystem_guard.py."""

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
    watcher.rescan()
    until(lambda: watcher.health()["held_deletes"] == 0)
    world.write("below/new.html")
    world.until_urls(*urls, "below/new.html")
    return {"held": held, "below_kept": below_kept, "root_kept": root_kept, "back": True}


def locked(world: World) -> dict[str, Any]:
    """Files and folders that can't be read, and then can."""
    file = world.write("secret.html")
    world.write("locked/a.html")
    world.write("locked/deep/b.html")
    folder = world.content / "locked"
    watcher = world.watch()
    draft = world.write("draft.txt", "---\ndraft: true\n---\n")
    draft.chmod(0)
    draft.rename(file)
    world.write("marker-1.html")
    until(lambda: "marker-1.html" in world.urls())
    kept = "secret.html" in world.urls()
    file.chmod(0o644)
    until(lambda: "secret.html" not in world.urls())
    folder.chmod(0o444)  # its names can be read, and nothing about them
    assert watcher.stop()
    watcher = world.watch()
    watcher.rescan()
    world.write("marker-2.html")
    until(lambda: "marker-2.html" in world.urls())
    names_kept = {"locked/a.html", "locked/deep/b.html"} <= world.urls()
    folder.chmod(0)
    assert watcher.stop()
    watcher = world.watch()
    below_kept = names_kept and {"locked/a.html", "locked/deep/b.html"} <= world.urls()
    folder.chmod(0o755)
    world.write("locked/deep/c.html")
    world.settle()
    folder.chmod(0)
    folder.rename(world.content / "other")
    world.until_urls("marker-1.html", "marker-2.html")
    (world.content / "other").chmod(0o755)
    world.settle()
    return {"kept": kept, "below_kept": below_kept, "found": "other/deep/c.html" in world.urls()}


def main() -> None:
    """Run one scenario and print what came of it."""
    scenario, folder, redis_url = sys.argv[1:]
    logging.basicConfig(level=logging.INFO)
    world = World(Path(folder), redis_url)
    try:
        if scenario == "unmount":
            found = unmount(world)
        elif scenario == "locked":
            found = locked(world)
        elif scenario == "later":
            found = later(world)
        else:
            found = full_table(world, scenario)
    finally:
        world.close()
    print(json.dumps(found))  # noqa: T201, its answer to the test


if __name__ == "__main__":
    main()
