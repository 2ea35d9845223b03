"""The Dockerfile, as far as it can be held to its word without a Docker engine."""

import fnmatch
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()


def instructions(name: str) -> list[str]:
    """Return what follows each instruction of that name."""
    return [line.removeprefix(name).strip() for line in LINES if line.startswith(name + " ")]


def docker_ignores(path: PurePosixPath) -> bool:
    """Say what .dockerignore makes of a file, by Docker's rules for the patterns that it uses.

    The last pattern that matches the path or a folder above it decides. `name` is matched at the
    root alone, `**/name` at any depth.
    """
    ignored = False
    for line in (ROOT / ".dockerignore").read_text().split():
        pattern = line.removeprefix("!").rstrip("/")
        name = pattern.removeprefix("**/")
        assert "/" not in name, "a third form of pattern: teach it here first"
        depths = [path, *path.parents][:-1]
        if name == pattern:
            depths = depths[-1:]
        if any(fnmatch.fnmatchcase(each.name, name) for each in depths):
            ignored = not line.startswith("!")
    return ignored


def test_the_build_context_holds_what_the_wheel_needs(tmp_path: Path) -> None:
    """What .dockerignore lets through is enough to build a wheel that holds every package."""
    context = tmp_path / "context"
    for top in sorted(ROOT.iterdir()):
        if top.name in {".git", ".venv"}:
            continue
        for path in [top] if top.is_file() else top.rglob("*"):
            relative = path.relative_to(ROOT)
            if path.is_file() and not docker_ignores(PurePosixPath(relative)):
                (context / relative).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, context / relative)
    assert not (context / "tests").exists()

    done = subprocess.run(
        [
            *(sys.executable, "-m", "build", "--wheel", "--no-isolation"),
            *("--outdir", tmp_path / "dist", context),
        ],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert tops >= {"sitemap_store", "producers", "worker", "sitemapd"}


def test_the_image_does_not_run_as_root() -> None:
    """The last user is a number other than 0, so that a cluster can see that it is not root."""
    user = instructions("USER")[-1].split(":")[0]
    assert user.isdigit()
    assert int(user) > 0


def test_the_image_leaves_the_build_tools_behind() -> None:
    """There are two stages, and the second takes the finished environment alone."""
    assert len(instructions("FROM")) == 2
    last_stage = LINES[max(i for i, line in enumerate(LINES) if line.startswith("FROM ")) :]
    copies = [line for line in last_stage if line.startswith("COPY ")]
    assert copies == ["COPY --from=build /opt/sitemapd /opt/sitemapd"]


def test_the_image_says_when_it_is_healthy() -> None:
    """Its health check asks the address that serving answers on."""
    (check,) = instructions("HEALTHCHECK")
    assert "/readyz" in check
    (port,) = instructions("EXPOSE")
    assert f":{port}/" in check


def test_the_image_has_a_python_that_the_project_supports() -> None:
    """Both stages have the same Python, 3.11 or newer."""
    versions = {match[1] for line in instructions("FROM") if (match := re.match(r"python:3\.(\d+)-", line))}
    assert len(versions) == 1
    assert int(versions.pop()) >= 11
