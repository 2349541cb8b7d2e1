"""runs: which folders hold results, and the sections that tell them."""

from __future__ import annotations

from pathlib import Path

from unbottle.files import read_json
from unbottle.report import sections
from unbottle.report.page import Section

COMMANDS = {  # what wrote result.json: who reads it
    "demo": sections.demo_sections,
    "eval perplexity": sections.perplexity_sections,
    "eval probe": sections.next_word_sections,
    "eval summaries": sections.summary_sections,
}
FILES = {"bench.json": sections.bench, "results.json": sections.reproduced}
REMEDY = "run the command that wrote it again."
KNOWN = f"{', '.join(COMMANDS)}, bench, reproduce"


def runs_in(path: Path) -> list[Path]:
    """The folder itself, or the runs directly in it, by name."""
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no such folder. Give folders that --output named: {KNOWN}.")
    if _is_run(path):
        return [path]
    if found := sorted(each for each in path.iterdir() if each.is_dir() and _is_run(each)):
        return found
    raise ValueError(f"{path}: no results in it or in its folders. Give folders that --output named: {KNOWN}.")


def sections_of(folder: Path) -> list[Section]:
    """What a page says about one run."""
    try:
        for name, tell in FILES.items():
            if (folder / name).is_file():
                return tell(folder)
        config, result = (read_json(folder / f"{name}.json", REMEDY) for name in ("config", "result"))
        if config["command"] not in COMMANDS:
            raise ValueError(f"{folder}: results of {config['command']!r} have no page. Known: {KNOWN}.")
        return COMMANDS[config["command"]](folder, config, result)
    except (KeyError, TypeError, IndexError, StopIteration) as error:
        raise ValueError(
            f"{folder}: its results are not as this version writes them ({type(error).__name__}: {error}). Run the "
            "command that made them again."
        ) from error


def _is_run(folder: Path) -> bool:
    whole = (folder / "config.json").is_file() and (folder / "result.json").is_file()
    return whole or any((folder / name).is_file() for name in FILES)
