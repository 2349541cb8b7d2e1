"""What from_pretrained is told wherever a user names a model: nothing that it finds there is run.

The words that a model wants before a document, where its config keeps them: task_specific_params, as T5's does.

How much a model can read and write, from its config. T5 and its kin have no limit.

Texts as tokens, cut where they are too long, with what was cut.

without_bars: a library of Hugging Face shows no bars for a while, and afterwards is as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

NO_CODE: dict[str, Any] = {"trust_remote_code": False}  # else transformers asks at the terminal
SAFE: dict[str, Any] = NO_CODE | {"use_safetensors": True}  # no pickle, which runs code when it is read


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


def source_limit(config: Any) -> int | None:
    """Tokens that the encoder has positions for."""
    return _first(config, "max_encoder_position_embeddings", "max_source_positions", "max_position_embeddings")


def target_limit(config: Any) -> int | None:
    """Tokens that the decoder has positions for."""
    return _first(config, "max_decoder_position_embeddings", "max_target_positions", "max_position_embeddings")


def length_limit(config: Any) -> int | None:
    """Tokens that a causal model has positions for."""
    return _first(config.get_text_config(), "max_position_embeddings", "n_positions")


def _first(config: Any, *names: str) -> int | None:
    return next((int(value) for name in names if (value := getattr(config, name, None)) is not None), None)


def truncated(tokenizer: Any, texts: Sequence[str], most: int) -> list[tuple[list[int], int]]:
    """For each text its tokens, at most `most` with the special ones, and how many were dropped at the end."""
    options: dict[str, Any] = {"return_attention_mask": False, "verbose": False}
    found = tokenizer(list(texts), **options)["input_ids"] if texts else []
    long = [place for place, ids in enumerate(found) if len(ids) > most]
    cut = tokenizer([texts[i] for i in long], truncation=True, max_length=most, **options)["input_ids"] if long else []
    short = dict(zip(long, cut, strict=True))
    return [(list(short.get(i, ids)), len(ids) - len(short.get(i, ids))) for i, ids in enumerate(found)]


@contextmanager
def without_bars(logging: Any, level: int | None = None) -> Iterator[None]:
    """`logging` is that of transformers.utils or of datasets: they have the same functions. `level` is its own for
    the time being; without one, whoever changes it in the block changes it for the block alone."""
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    if level is not None:
        logging.set_verbosity(level)
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
