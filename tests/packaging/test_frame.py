"""The project's frame: lock, layout contracts, Makefile, CI script and example."""

import re
import shutil
import stat
import subprocess
import tomllib
import unicodedata
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import needs

ROOT = Path(__file__).parents[2]
PYPROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked(file: str) -> list[str]:
    """Return the lines of a lock, each with the hashes that belong to it."""
    text = (ROOT / file).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def versions(file: str) -> dict[str, str]:
    """Return the locked versions by canonical name."""
    pairs = (line.split()[0].split("==") for line in locked(file))
    return {canonicalize_name(name): version for name, version in pairs}


RUN: Final = [*PYPROJECT["project"]["dependencies"], *PYPROJECT["dependency-groups"]["editable"]]
RUN.extend(wanted for extra in PYPROJECT["project"]["optional-dependencies"].values() for wanted in extra)
DEV: Final = [
    wanted for group in PYPROJECT["dependency-groups"].values() for wanted in group if isinstance(wanted, str)
]


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        *(("requirements.lock", wanted) for wanted in RUN),
        *(("requirements-dev.lock", wanted) for wanted in dict.fromkeys((*RUN, *DEV))),
    ],
)
def test_the_locks_hold_what_pyproject_asks_for(file: str, wanted: str) -> None:
    """Each dependency is locked to a version within its range; `make lock` mends it."""
    requirement = Requirement(wanted)
    assert requirement.specifier.contains(versions(file)[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("file", ["requirements.lock", "requirements-dev.lock"])
def test_the_locks_hold_a_hash_of_each_file(file: str) -> None:
    """Each line is one version with SHA-256 hashes and nothing else, such as an index's address."""
    for line in locked(file):
        assert re.fullmatch(r"[\w.-]+==[\w.]+( ; [^;]+?)?\s+(--hash=sha256:[0-9a-f]{64}\s*)+", line), line


def test_both_locks_hold_the_same_versions() -> None:
    """What runs from a clone, and in the image, is what the tests ran with."""
    assert set(locked("requirements.lock")) <= set(locked("requirements-dev.lock"))


@pytest.mark.parametrize("file", ["Makefile", "Dockerfile"])
def test_pip_checks_the_hashes(file: str) -> None:
    """Each install from a lock has --require-hashes, and no other install fetches a dependency."""
    installs = [
        line
        for line in (ROOT / file).read_text().replace("\\\n", " ").splitlines()
        if re.search(r"(pip|PIP\)) install\b", line)
    ]
    assert installs
    for line in installs:
        assert ("--require-hashes" in line) != ("--no-deps --no-build-isolation" in line), line


def test_every_package_of_the_store_has_its_place_in_the_contracts() -> None:
    """A new package of the store has to take its place in the import contracts."""
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if "sitemap_store.model" in each.get("layers", ()))
    named = {name.strip() for layer in layers for name in layer.split("|")}
    store = ROOT / "sitemap_store"
    found = {
        f"sitemap_store.{path.relative_to(store).parts[0].removesuffix('.py')}"
        for path in store.rglob("*.py")
        if path != store / "__init__.py"
    }
    assert found == named
    pure = next(each["source_modules"] for each in contracts if each["type"] == "forbidden")
    assert {"sitemap_store.model", "sitemap_store.shards", "sitemap_store.errors"} <= set(pure)


@pytest.mark.parametrize(
    ("python", "sentence"),
    [
        ("exit 1", "sitemapd needs Python 3.11 or newer"),
        ('case "$2" in *ensurepip*) exit 1;; esac', "install the package python3-venv"),
    ],
    ids=["an old Python", "a Python without ensurepip"],
)
def test_make_says_what_is_wrong_with_the_python(tmp_path: Path, python: str, sentence: str) -> None:
    """A Python that cannot do it ends `make run` with one sentence that says the way out."""
    make = needs.program("make", package="make")
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    fake = tmp_path / "fake-python"
    fake.write_text(f"#!/bin/sh\n{python}\n")
    fake.chmod(0o755)

    done = subprocess.run(
        [make, "run", f"PYTHON={fake}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert sentence in done.stderr.splitlines()[0]
    assert not (tmp_path / ".venv").exists()


def test_the_ci_script_is_sound() -> None:
    """.ci/run can be started as a program and is well-formed bash."""
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    bash = needs.program("bash", package="bash")
    done = subprocess.run([bash, "-n", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_example_has_what_real_content_has() -> None:
    """The example has folders with an index, both kinds of pages, names that need encoding."""
    pages = [path for path in (ROOT / "examples" / "site").rglob("*") if path.is_file()]
    assert len(pages) >= 20
    assert {path.suffix for path in pages} == {".md", ".html"}
    assert sum(path.name == "index.html" for path in pages) >= 5
    assert any(" " in path.name for path in pages)
    assert any(not path.name.isascii() for path in pages)


def test_names_of_the_example_are_composed() -> None:
    """Non-ASCII names are in NFC, as they are typed, so that every clone has the same URLs."""
    for path in (ROOT / "examples").rglob("*"):
        assert unicodedata.is_normalized("NFC", path.name)
