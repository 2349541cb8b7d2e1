"""Quick checks whether the Hub answers and has a repository; its own client retries for half a minute.

Imports neither torch nor transformers.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi, constants
from huggingface_hub.errors import RepositoryNotFoundError
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import get_session

SECONDS = 2.0  # to wait for an answer, the DNS lookup included
PATIENCE = 10.0  # seconds to wait for an answer about one repository
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")  # other names are not looked up on the Hub
MODEL, DATASET = "model", "dataset"


@contextmanager
def quick_hub(name: str | Path) -> Iterator[None]:
    """Within this context, a repository comes from the Hub if it answers, else from the cache or not at all."""
    if Path(name).exists() or constants.is_offline_mode() or reachable():
        yield
        return
    datasets = sys.modules.get("datasets.config")  # has its own switch once it is imported
    before = [(module, module.HF_HUB_OFFLINE) for module in (constants, datasets) if module is not None]
    for module, _ in before:
        module.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, value in before:
            module.HF_HUB_OFFLINE = value  # type: ignore[attr-defined]


@functools.cache
def reachable() -> bool:
    """Whether the Hub answers. Asked in a thread, because a DNS lookup has no time limit."""
    answers: list[bool] = []

    def ask() -> None:
        try:
            answers.append(get_session().head(constants.ENDPOINT, timeout=SECONDS).status_code < 500)
        except Exception:  # which one depends on the HTTP client of huggingface_hub
            answers.append(False)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return bool(answers) and answers[0]


def check_model(path: str, otherwise: str = "") -> None:
    """Raise ValueError unless this is a folder with a config.json, or a model of the Hub or its cache.

    `otherwise` is what else may be given, for the end of the message.
    """
    config, advice = Path(path) / "config.json", f"Give a folder that save_pretrained wrote{otherwise}."
    if config.is_file():
        try:
            json.loads(config.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"model {path!r} has a config.json that is not valid JSON. Save the model again."
            ) from error
    elif Path(path).exists() or not HUB_NAME.fullmatch(path):
        raise ValueError(f"model {path!r} has no config.json. {advice}")
    elif why := unavailable(path):
        raise ValueError(f"model {path!r} is no folder here, and {why}. {advice}")


def unavailable(name: str, kind: str = MODEL) -> str:
    """Why a repository cannot be loaded, empty if it can. Gated repositories count as available."""
    if cached(name, kind):
        return ""
    if constants.is_offline_mode():
        return "HF_HUB_OFFLINE is set, and it is not in the cache"
    if not reachable():
        return "the Hub cannot be reached"
    try:
        HfApi().repo_info(name, repo_type=kind, timeout=PATIENCE)
    except RepositoryNotFoundError:
        return f"the Hub has no public {kind} of this name"
    except Exception:  # no answer: the download will tell
        return ""
    return ""


def cached(name: str, kind: str) -> bool:
    """Whether files of a repository are in the local cache."""
    if any((Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=name, repo_type=kind) / "snapshots").glob("*")):
        return True
    prepared = Path(os.environ.get("HF_DATASETS_CACHE") or Path(constants.HF_HOME) / "datasets")
    folder = name.replace("/", "___").lower()  # how datasets spells it
    return kind == DATASET and prepared.is_dir() and any(path.name.lower() == folder for path in prepared.iterdir())
