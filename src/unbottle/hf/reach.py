"""Whether the Hub can be reached: asked once and quickly, where its own client would try for half a minute."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import constants
from huggingface_hub.utils import get_session

SECONDS = 2.0  # for an answer, the search for the address included


@contextmanager
def quick_hub(name: str | Path) -> Iterator[None]:
    """Inside, what is no file or folder here comes from the Hub if that answers, else from its cache or not at all."""
    if Path(name).exists() or constants.is_offline_mode() or reachable():
        yield
        return
    datasets = sys.modules.get("datasets.config")  # has a switch of its own, once it is imported
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
    """Whether the Hub answers, through whatever proxy is set. In a thread: looking up an address has no time limit."""
    answers: list[bool] = []

    def ask() -> None:
        try:
            answers.append(get_session().head(constants.ENDPOINT, timeout=SECONDS).status_code < 500)
        except Exception:  # of whatever client the hub's library uses: there was no answer
            answers.append(False)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return bool(answers) and answers[0]
