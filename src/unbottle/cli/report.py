"""unbottle report: results of earlier runs as one HTML page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from unbottle.cli.options import DryRun

EXAMPLES = """
unbottle report runs/demo
unbottle report runs/perplexity runs/probe --output both.html
unbottle report results/cpu results/bench --title "All results" --output results.html
"""


def report(
    run: Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders of runs, or folders with runs in them.")],
    output: Annotated[Path, typer.Option(metavar="FILE", help="HTML file to write.")] = Path("report.html"),
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the page.")] = "Unbottle: results",
    dry_run: DryRun = False,
) -> None:
    """Make one HTML page of the results of demo, eval perplexity, eval probe, eval summaries, bench and reproduce.

    The page is a single file that contains its pictures and loads nothing.
    """
    from unbottle.cli.output import config_of, prepare_file
    from unbottle.files import write_text

    config = config_of("report", {"runs": run, "output": str(output), "title": title})
    if dry_run:
        print(json.dumps(config, indent=1))
        return
    prepare_file(output)
    from unbottle.report.page import Section, page
    from unbottle.report.sections import find_runs, sections_of

    folders = [folder for path in run for folder in find_runs(Path(path))]
    sections = [
        Section(title=section.title if len(folders) == 1 else f"{folder}: {section.title}", body=section.body)
        for folder in folders
        for section in sections_of(folder)
    ]
    write_text(output, page(title, sections))
    print(f"Written to {output}: {len(folders)} {'run' if len(folders) == 1 else 'runs'}, {len(sections)} sections")
