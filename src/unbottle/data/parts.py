"""Where a data set is, and where its parts for training, validation and test are."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from unbottle import reach
from unbottle.data.files import KNOWN, kind
from unbottle.data.named import NAMED, NAMED_TEXTS, TEXT_NAMES

PARTS = ("train", "valid", "test")
SPLITS = {"train": ("train",), "valid": ("validation", "valid", "dev"), "test": ("test",)}  # as the hub calls them
REPOSITORIES = NAMED_TEXTS | {name: pairs.path for name, pairs in NAMED.items()}


class Part(NamedTuple):
    """Where a part is: a file or a data set, and which split of it."""

    path: str
    split: str | None = None


def parts_of(path: str, names: Collection[str] = NAMED_TEXTS) -> dict[str, Part]:
    """Where each part is; a part that a data set does not have is left out, and only `train` is always there.

    A folder with one file train.*, one valid.* and one test.* has all three, as have data sets that are known by name.
    Of others on the hub, their splits decide.
    """
    folder = Path(path).expanduser()
    if folder.is_dir():
        files = {part: sorted(folder.glob(f"{part}*")) for part in PARTS}
        if all(len(found) == 1 for found in files.values()):
            return {part: Part(str(found[0])) for part, found in files.items()}
        return {"train": Part(path)}
    if folder.exists() or not (path in names or on_hub(path)):
        return {"train": Part(path)}  # a file; if there is none, who reads it says so
    if path in names:
        return {part: Part(path, splits[0]) for part, splits in SPLITS.items()}
    from unbottle.data.texts import hub_splits

    there = hub_splits(path)
    found = {part: next((name for name in splits if name in there), None) for part, splits in SPLITS.items()}
    if found["train"] is None:
        raise ValueError(f"{path}: no split 'train' to learn from. There are: {', '.join(there)}.")
    return {part: Part(path, split) for part, split in found.items() if split is not None}


def on_hub(path: str) -> bool:
    """Whether something that is not here may be a data set of the hub: owner/name, or owner/name:config."""
    name = path.partition(":")[0]
    return name.count("/") == 1 and not name.startswith((".", "/", "~")) and not kind(Path(name))


def check_place(path: str, names: Collection[str] = TEXT_NAMES) -> None:
    """Refuse at once what is neither here, nor known by name, nor on the hub. Nothing is read or downloaded."""
    place = Path(path).expanduser()
    if place.exists():
        if place.is_file() and not kind(place):
            raise ValueError(f"{path}: unknown kind of file. Known: {', '.join(KNOWN)}, and .gz of them.")
        return
    if path not in names and not on_hub(path):
        raise FileNotFoundError(
            f"{path}: no such file or folder. Known by name: {', '.join(names)}; a data set on the hub is "
            "owner/name[:config]."
        )
    repository = REPOSITORIES.get(path, path).partition(":")[0]
    if on_hub(repository) and (why := reach.unavailable(repository, reach.DATASET)):
        known = f" ({repository} on the hub)" if repository != path else ""
        raise FileNotFoundError(
            f"{path}{known}: no such file or folder, and no data set on the hub that can be read ({why}). Give a file, "
            "or a folder with train.*, valid.* and test.*"
        )
