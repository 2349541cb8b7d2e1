"""A disk that is really full in the middle of a checkpoint: a small one, made for the purpose."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiny_training as tiny

from unbottle.train import Result, train_lm

PAGE = 4096
Disk = Callable[[int], Path]


def mount(folder: Path, size: int, *options: str) -> subprocess.CompletedProcess:
    line = ["mount", "-t", "tmpfs", "-o", ",".join([*options, f"size={size}"]), "tmpfs", str(folder)]
    return subprocess.run(line, capture_output=True, text=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Asked for a size in bytes, a disk of that size; asked again, the same one with more room."""
    folder = tmp_path / "disk"

    def of(size: int) -> Path:
        there = folder.exists()
        folder.mkdir(exist_ok=True)
        try:
            done = mount(folder, size, *(["remount"] if there else []))
        except FileNotFoundError:
            pytest.skip("no mount command here: a small disk cannot be made")
        if done.returncode:
            pytest.skip(f"a small disk cannot be made here, which takes the rights of root: {done.stderr.strip()}")
        return folder

    yield of
    if folder.exists():
        subprocess.run(["umount", str(folder)], capture_output=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("whole")
    return folder, train_lm(tiny.model(), tiny.windows(), None, tiny.settings(folder))


def room(folder: Path) -> int:
    """What its files take, in whole pages."""
    return sum(-(-path.stat().st_size // PAGE) * PAGE for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("fits", [0.2, 0.6, 0.9])
def test_a_checkpoint_that_does_not_fit(fits: float, whole: tuple[Path, Result], disk: Disk) -> None:
    """The first one fits and a part of the second; with more room the run ends as if nothing had been."""
    unbroken, result = whole
    checkpoint = room(unbroken / "checkpoints" / "checkpoint-8")
    size = checkpoint + int(fits * checkpoint) // PAGE * PAGE
    folder = disk(size) / "run"
    with pytest.raises(OSError, match=r"^the disk of .* is full\. Files written before are complete: free some space"):
        train_lm(tiny.model(), tiny.windows(), None, tiny.settings(folder))
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["checkpoint-2"]
    assert not [*(folder / ".writing").iterdir()]
    disk(64 << 20)
    found = train_lm(tiny.model(), tiny.windows(), None, tiny.settings(folder))
    assert found.losses == result.losses
    weights = [(path / "model" / "model.safetensors").read_bytes() for path in (folder, unbroken)]
    assert weights[0] == weights[1]
