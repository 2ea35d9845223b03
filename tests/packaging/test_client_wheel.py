"""The client as apps get it: a distribution of its own that needs no other, beside sitemapd or without it."""

from __future__ import annotations

import email.parser
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.packaging.test_wheel import ROOT, build_wheel

CLIENT = ROOT / "clients" / "python"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the client's wheel."""
    return build_wheel(CLIENT, tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the wheel of sitemapd."""
    return build_wheel(ROOT, tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the Python of an empty environment."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def pip(python: Path, *arguments: str | Path) -> str:
    """Run pip without a network; its output."""
    command = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def installed(python: Path) -> set[str]:
    """The names of the distributions in an environment, but for its tools."""
    rows = pip(python, "list", "--format", "freeze").splitlines()
    return {row.partition("==")[0].replace("_", "-") for row in rows} - {"pip", "setuptools", "wheel"}


def where(python: Path) -> str:
    """Where an environment has the client from."""
    code = "import sitemapd_client; print(sitemapd_client.__file__)"
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_client_brings_no_other_package(wheel: Path, python: Path) -> None:
    """Installed into an empty environment it is alone there, and can be imported."""
    pip(python, "install", "--no-index", wheel)
    assert installed(python) == {"sitemapd-client"}
    assert where(python).startswith(str(python.parents[1]))


def test_client_says_what_it_needs(wheel: Path) -> None:
    """It needs Python 3.9 and nothing else, is typed, and brings its licence and only itself."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.parser.Parser().parsestr(archive.read(name).decode())
    assert metadata["Requires-Python"] == ">=3.9"
    assert metadata.get_all("Requires-Dist") is None
    assert "sitemapd_client/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"sitemapd_client"}
    assert (CLIENT / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_both_have_one_version() -> None:
    """The client is released with sitemapd."""
    first, second = (tomllib.loads((folder / "pyproject.toml").read_text()) for folder in (ROOT, CLIENT))
    assert first["project"]["version"] == second["project"]["version"]


def test_both_have_the_same_files_of_the_client(wheel: Path, whole: Path) -> None:
    """So it does not matter which was installed last."""

    def files(path: Path) -> dict[str, bytes]:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.startswith("sitemapd_client/")]
            return {name: archive.read(name) for name in names}

    assert files(wheel)
    assert files(wheel) == files(whole)


@pytest.mark.long
def test_both_may_stand_in_one_environment(wheel: Path, whole: Path, tmp_path: Path) -> None:
    """Installed one after the other, in either order, both are there and the client can be imported."""
    for first, second in ((wheel, whole), (whole, wheel)):
        folder = tmp_path / first.stem
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = folder / "bin" / "python"
        for each in (first, second):
            pip(python, "install", "--no-index", "--no-deps", "--no-compile", each)
        assert installed(python) == {"sitemapd", "sitemapd-client"}
        assert where(python).startswith(str(folder))


def test_source_distribution_has_the_client(tmp_path: Path) -> None:
    """A wheel of sitemapd can be built from its source distribution."""
    done = subprocess.run(
        [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", tmp_path, ROOT],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    with zipfile.ZipFile(build_wheel(folder, tmp_path)) as wheel:
        assert "sitemapd_client/publisher.py" in wheel.namelist()
