"""How much a model can read and write, from its config. T5 and its kin have no limit."""

from __future__ import annotations

from typing import Any


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
