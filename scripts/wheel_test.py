"""Build the wheel, install it where nothing else is, and use it there: python scripts/wheel_test.py

Each stage of scripts/smoke_test.py gets an environment that has the wheel, the packages that the wheel asks for and
what those ask for, and no others: links to those of the running environment, so nothing is downloaded and an undeclared
dependency is missing. The release workflow does the same with pip in an empty environment.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
EXTRAS = {"core": (), "demo": ("train", "demo")}  # stages of smoke_test.py
SHIPPED = ("unbottle/py.typed", "unbottle/report/templates/page.html", "unbottle/experiments/paper.tsv")


def build(folder: Path) -> Path:
    """The wheel, made from the source distribution, as a release is."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {*SHIPPED} <= {*names}, "the wheel lacks files"
    strays = [name for name in names if not name.startswith(("unbottle/", f"unbottle-{wheel.name.split('-')[1]}"))]
    assert not strays, f"the wheel has {strays}"
    return wheel


def required(requirements: list[str], extras: tuple[str, ...], seen: set[tuple[str, str]]) -> Iterator[str]:
    """The distributions that these requirements need here, each with its own."""
    for line in requirements:
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                yield name
                inner = importlib.metadata.requires(name) or []
                yield from required(inner, (extra,) if extra else (), seen)


def environment(folder: Path, wheel: Path, extras: tuple[str, ...]) -> Path:
    """The Python of an environment with this wheel and what it requires."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    install = ["install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--target", site, wheel]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    (about,) = importlib.metadata.distributions(name="unbottle", path=[str(site)])
    for name in {*required(about.requires or [], extras, set())}:
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(distribution.locate_file(top))).resolve())
    return folder / "bin" / "python"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        for stage, extras in EXTRAS.items():
            python = environment(Path(folder) / stage, wheel, extras)
            subprocess.run([python, "-I", ROOT / "scripts" / "smoke_test.py", stage], check=True, cwd=folder)


if __name__ == "__main__":
    main()
