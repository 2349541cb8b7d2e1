"""What can be refused at once: importing torch and transformers takes seconds, and a typo should not."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from unbottle import reach
from unbottle.data.named import NAMED_TEXTS, PYTHON
from unbottle.data.parts import check_place
from unbottle.spec import Method, UnknownLetterError

HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")  # what else is missing is not looked for there
DEMO_MODEL = "smollm2"  # known wherever a model is taken: SmolLM2-135M-Instruct, from the package index
MODEL_HELP = f"A folder or a hub model, with a head or without; or {DEMO_MODEL}."
MODELS_HELP = f"Folders or hub models, with a head or without; or {DEMO_MODEL}."
TEXT_HELP = f"A text file, jsonl, csv, parquet, folder, hub data set, {', '.join(NAMED_TEXTS)} or {PYTHON}."
PLAIN = "plain"  # a row of a comparison: the model as it came
STDIN = "-"

__all__ = [
    "DEMO_MODEL",
    "HUB_NAME",
    "MODELS_HELP",
    "MODEL_HELP",
    "TEXT_HELP",
    "check_choice",
    "check_file",
    "check_method",
    "check_model",
    "check_place",
    "is_demo_model",
]


def check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"{name} {value!r}: unknown. Known: {', '.join(known)}.")


def check_method(text: str | None) -> None:
    """A method, or one with options behind it (form=steady). A letter that is not known here is left to those who
    import all partitions."""
    name = " ".join(word for word in (text or PLAIN).split() if "=" not in word)
    if name != PLAIN:
        with contextlib.suppress(UnknownLetterError):
            Method.parse(name)


def check_model(path: str | None) -> None:
    """A folder with a config.json that is JSON, a model that the hub has or its cache holds, or that of the demo."""
    if path is None or is_demo_model(path):
        return
    config = Path(path) / "config.json"
    if config.is_file():
        try:
            json.loads(config.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"model {path!r} has a config.json that is no valid JSON. Save the model again."
            ) from error
    elif Path(path).exists() or not HUB_NAME.fullmatch(path):
        raise ValueError(f"model {path!r} has no config.json. Give a folder that save_pretrained wrote.")
    elif why := reach.unavailable(path):
        raise ValueError(
            f"model {path!r} is no folder here, and {why}. Give a folder that save_pretrained wrote, or {DEMO_MODEL}."
        )


def is_demo_model(path: str) -> bool:
    """A folder of that name comes first."""
    return path == DEMO_MODEL and not Path(path).exists()


def check_file(path: str | Path | None) -> None:
    """A file that is to be read; - is stdin."""
    if path is not None and str(path) != STDIN and not Path(path).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
