"""Options that several commands share, and checks of their values before torch is imported, which takes seconds."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from unbottle import hub_access
from unbottle.data.sources import NAMED_TEXTS, PYTHON
from unbottle.data.sources import check_place as check_place  # for the commands
from unbottle.method import Method, UnknownLetterError
from unbottle.train.presets import check_choice as check_choice  # for the commands

DEMO_MODEL = "smollm2"  # accepted wherever a model is: SmolLM2-135M-Instruct, from the package index
MODEL_HELP = f"A folder or a hub model, with a head or without; or {DEMO_MODEL}."
MODELS_HELP = f"Folders or hub models, with a head or without; or {DEMO_MODEL}."
TEXT_HELP = f"A text file, jsonl, csv, parquet, folder, hub data set, {', '.join(NAMED_TEXTS)} or {PYTHON}."
PLAIN = "plain"  # a row of a comparison: the model without a head
STDIN = "-"


def option(metavar: str | None, text: str, *names: str, **settings: Any) -> Any:
    """An option of a command, for Annotated: what --help calls its value, its help, and names other than its own."""
    return typer.Option(*names, metavar=metavar, help=text, **settings)


def argument(metavar: str, text: str) -> Any:
    return typer.Argument(metavar=metavar, help=text)


def flag(name: str, text: str, **settings: Any) -> Any:
    return option(None, text, name, **settings)


AsJson = Annotated[bool, flag("--json", "Print JSON.")]
DryRun = Annotated[bool, flag("--dry-run", "Print the full configuration and exit.")]
OutputFolder = Annotated[Path | None, option("DIR", "Folder for config.json and result.json.")]

ModelsArgument = Annotated[list[str], argument("MODEL...", MODELS_HELP)]
TaggerOption = Annotated[str, option("TAGGER", "Tagger of proper nouns: auto, spacy, spacy:PATH, nltk or rules.")]
BatchSize = Annotated[int, option("N", "Batch size.")]
SampledBatch = Annotated[int, option("N", "Batch size; another batch size gives other samples.")]


def key_values(pairs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The names and values of --set KEY=VALUE."""
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--set {pair!r}: write KEY=VALUE, as in --set batch=4.")
        yield name.strip().replace("-", "_"), value


def check_method(*texts: str | None) -> None:
    """Raise MethodError for a method that cannot be parsed; it may have options behind it, as in form=scaled.

    An unknown letter is left to code that imports all partitions.
    """
    for text in texts:
        name = " ".join(word for word in (text or PLAIN).split() if "=" not in word)
        if name != PLAIN:
            with contextlib.suppress(UnknownLetterError):
                Method.parse(name)


def check_model(*paths: str | None) -> None:
    """Raise ValueError unless each is a folder with a config.json, a model of the Hub or its cache, or smollm2."""
    for path in paths:
        if path is not None and not is_demo_model(path):
            hub_access.check_model(path, f", or {DEMO_MODEL}")


def is_demo_model(path: str) -> bool:
    """Whether a path is the name of the demo model; a folder of that name comes first."""
    return path == DEMO_MODEL and not Path(path).exists()


def check_file(*paths: str | Path | None) -> None:
    """Raise FileNotFoundError for an input file that does not exist; - is stdin."""
    for path in paths:
        if path is not None and str(path) != STDIN and not Path(path).exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
