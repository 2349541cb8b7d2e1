"""The words that a model wants before a document, where its config keeps them: task_specific_params, as T5's does."""

from __future__ import annotations

from typing import Any

PARAMETERS, TASK, PREFIX = "task_specific_params", "summarization", "prefix"


def prefix_of(model: Any) -> str:
    """Of a model to summarize with: `summarize: ` for T5, nothing for most."""
    found = getattr(model.config, PARAMETERS, None)
    task = found.get(TASK) if isinstance(found, dict) else None
    return str(task.get(PREFIX) or "") if isinstance(task, dict) else ""


def keep_prefix(model: Any, prefix: str) -> None:
    """Into the config, so that whoever loads the model can find it."""
    if prefix_of(model) != prefix:
        found = getattr(model.config, PARAMETERS, None) or {}
        setattr(model.config, PARAMETERS, {**found, TASK: {**found.get(TASK, {}), PREFIX: prefix}})
