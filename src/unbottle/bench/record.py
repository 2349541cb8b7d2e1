"""What a run leaves in a folder: bench.md, bench.json and, where matplotlib is installed, bench.png."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unbottle.bench.row import Row
from unbottle.bench.settings import Settings


def as_json(rows: Sequence[Row], settings: Settings, machine: dict[str, Any], *, interrupted: bool) -> str:
    """Everything that was told, found and measured."""
    data = {
        "settings": settings.to_dict(),
        "machine": machine,
        "interrupted": interrupted,
        "rows": [row.to_dict() for row in rows],
    }
    return json.dumps(data, indent=1) + "\n"


def prepare(folder: Path) -> None:
    """Make the folder, or refuse, before anything is measured."""
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / ".writable"
    probe.touch()
    probe.unlink()


def save(
    folder: Path,
    document: str,
    rows: Sequence[Row],
    settings: Settings,
    machine: dict[str, Any],
    *,
    interrupted: bool = False,
) -> list[Path]:
    """The files that were written."""
    written = {
        folder / "bench.md": document + "\n",
        folder / "bench.json": as_json(rows, settings, machine, interrupted=interrupted),
    }
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    picture = folder / "bench.png"
    try:
        from unbottle.bench.plot import plot
    except ImportError:
        return [*written]
    if rows:
        plot(rows, picture)
    return [*written, picture] if rows else [*written]
