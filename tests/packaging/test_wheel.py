"""The wheel as users get it: what is in it, what it says of itself, and that it runs elsewhere."""

import email.message
import email.parser
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("sitemap_store", "producers", "worker", "sitemapd", "sitemapd_client")
FOLDERS = {"sitemapd_client": ROOT / "clients" / "python"}
"""Where packages lie that are not at the top of the tree."""


def build_wheel(source: Path, into: Path) -> Path:
    """Build the wheel of `source` with the installed hatchling, so without a network."""
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", into, source],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = into.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the wheel of this tree."""
    return build_wheel(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """Give the names of the files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def metadata(wheel: Path, names: set[str]) -> email.message.Message:
    """Give what the wheel says of itself."""
    (name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    with zipfile.ZipFile(wheel) as archive:
        return email.parser.Parser().parsestr(archive.read(name).decode())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the wheel alone installed; its dependencies are the tests' own."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"),
            *("install", "--no-deps", "--no-index", "--target", folder, wheel),
        ],
        check=True,
    )
    return folder


def run_installed(installed: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that finds the installed wheel first, from a folder outside of both trees."""
    return subprocess.run(
        command,
        cwd=installed.parent,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_every_source_file_is_in_the_wheel(package: str, names: set[str]) -> None:
    """Each package brings all of its modules, its Redis scripts and its mark of being typed."""
    folder = FOLDERS.get(package, ROOT)
    tracked = {
        path.relative_to(folder).as_posix()
        for path in (folder / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert f"{package}/py.typed" in tracked
    assert tracked <= names


def test_the_redis_scripts_are_in_the_wheel(names: set[str]) -> None:
    """The .lua files are there: without them the store cannot append."""
    assert any(name.startswith("sitemap_store/") and name.endswith(".lua") for name in names)


def test_nothing_else_is_in_the_wheel(names: set[str]) -> None:
    """No test, benchmark or tool of ours lands in a user's site-packages."""
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == set(PACKAGES)


def test_the_wheel_brings_its_licence(names: set[str], metadata: email.message.Message) -> None:
    """The licence is named, and its text comes along."""
    assert metadata["License-Expression"] == "MIT"
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_wheel_names_what_it_needs(metadata: email.message.Message) -> None:
    """Name, Python and extras are what the documentation says."""
    assert metadata["Name"] == "sitemapd"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra", [])) == {
        *("embedded", "fast", "mysql", "postgres"),
    }


def test_the_changelog_has_an_entry_for_this_version(metadata: email.message.Message) -> None:
    """A version is not published before its changes are written down."""
    headings = [
        line.split()[1] for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")
    ]
    assert metadata["Version"] == headings[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_an_installed_package_is_imported_from_the_wheel(package: str, installed: Path) -> None:
    """Every package of the wheel can be imported where this tree is not."""
    done = run_installed(installed, sys.executable, "-c", f"import {package}; print({package}.__file__)")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(installed)


def test_the_installed_command_answers(installed: Path) -> None:
    """`sitemapd --help` of the wheel's own script ends with 0 and names its commands."""
    done = run_installed(installed, str(installed / "bin" / "sitemapd"), "--help")
    assert done.returncode == 0, done.stderr
    assert "worker" in done.stdout


def test_the_command_is_the_one_that_pyproject_names(names: set[str], wheel: Path) -> None:
    """The script `sitemapd` leads to the command's entry point."""
    (name,) = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(name).decode()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"sitemapd = {project['scripts']['sitemapd']}" in text
