"""Runs that leave a Markdown table and a picture behind: benchmarks, experiments of the paper."""

from __future__ import annotations

from pathlib import Path

from unbottle.report.html import picture
from unbottle.report.markdown import markdown
from unbottle.report.page import Section


def bench(folder: Path) -> list[Section]:
    """Of `unbottle bench`."""
    return [_section("Time and memory", folder / "bench.md", folder / "bench.png")]


def reproduced(folder: Path) -> list[Section]:
    """Of `unbottle reproduce`."""
    return [_section(f"The paper's experiment {folder.name}", folder / "table.md", folder / "plot.png")]


def _section(title: str, text: Path, image: Path) -> Section:
    body = markdown(text.read_text(encoding="utf-8"))
    if image.exists():
        body.append(picture(image, title))
    return Section(title=title, body=tuple(body))
