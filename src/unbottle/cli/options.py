"""Options that several commands share, and checks of their values before torch is imported, which takes seconds."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unbottle import hub_access
from unbottle.data.sources import NAMED_TEXTS, PYTHON
from unbottle.data.sources import check_place as check_place  # for the commands
from unbottle.method import Method, UnknownLetterError
from unbottle.train.presets import check_choice as check_choice  # for the commands

if TYPE_CHECKING:
    from unbottle.eval.generation import Prediction


DEMO_MODEL = "smollm2"  # accepted wherever a model is: SmolLM2-135M-Instruct, from the package index
MODEL_HELP = f"A folder or a hub model, with a head or without; or {DEMO_MODEL}."
MODELS_HELP = f"Folders or hub models, with a head or without; or {DEMO_MODEL}."
TEXT_HELP = f"A text file, jsonl, csv, parquet, folder, hub data set, {', '.join(NAMED_TEXTS)} or {PYTHON}."
PLAIN = "plain"  # a row of a comparison: the model without a head
STDIN = "-"

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the full configuration and exit.")]
OutputFolder = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for config.json and result.json.")]
SamplingSeed = Annotated[int, typer.Option(metavar="N", help="Random seed for sampling.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def key_values(pairs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The names and values of --set KEY=VALUE."""
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--set {pair!r}: write KEY=VALUE, as in --set batch=4.")
        yield name.strip().replace("-", "_"), value


def check_method(text: str | None) -> None:
    """Raise MethodError for a method that cannot be parsed; it may have options behind it, as in form=scaled.

    An unknown letter is left to code that imports all partitions.
    """
    name = " ".join(word for word in (text or PLAIN).split() if "=" not in word)
    if name != PLAIN:
        with contextlib.suppress(UnknownLetterError):
            Method.parse(name)


def check_model(path: str | None) -> None:
    """Raise ValueError unless this is a folder with a config.json, a model of the Hub or its cache, or smollm2."""
    if path is not None and not is_demo_model(path):
        hub_access.check_model(path, f", or {DEMO_MODEL}")


def is_demo_model(path: str) -> bool:
    """Whether a path is the name of the demo model; a folder of that name comes first."""
    return path == DEMO_MODEL and not Path(path).exists()


def check_file(path: str | Path | None) -> None:
    """Raise FileNotFoundError for an input file that does not exist; - is stdin."""
    if path is not None and str(path) != STDIN and not Path(path).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


class Dropped:
    """Counts texts that were truncated or empty. `name` is that of the model, where there are several."""

    def __init__(self, read: str, written: str, end: str, *, name: str = "") -> None:
        self.read, self.written, self.end = read, written, end
        self.name = f"{name}: " if name else ""
        self.documents = self.cut = self.tokens = self.empty = 0

    def watch(self, predictions: Iterable[Prediction]) -> Iterator[Prediction]:
        """The predictions, counted as they pass."""
        for prediction in predictions:
            self.documents += 1
            self.cut += prediction.dropped > 0
            self.tokens += prediction.dropped
            self.empty += prediction.empty
            yield prediction

    def tell(self) -> None:
        """Print the counts on stderr, if there are any."""
        if self.cut:
            dropped = f"too long: {self.tokens:,} tokens at the {self.end} were dropped."
            print(f"unbottle: warning: {self.name}{self._subject(self.cut)} {dropped}", file=sys.stderr)
        if self.empty:
            empty = f"empty, and so is the {self.written}."
            print(f"unbottle: note: {self.name}{self._subject(self.empty)} {empty}", file=sys.stderr)

    def _subject(self, count: int) -> str:
        return f"the {self.read} is" if self.documents == 1 else f"{count} of {self.documents} {self.read}s are"
