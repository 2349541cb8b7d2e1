"""Shape: a model to measure on, as data. Its weights are random, so nothing is downloaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CAUSAL = ("softmax+cpr:20,100+mi", "softmax+c+mi", "mos")
SEQ2SEQ = ("softmax+cepr:20",)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The config of an architecture, and what to measure unless told otherwise."""

    name: str
    model_type: str
    config: dict[str, Any] = field(
        default_factory=dict, hash=False
    )  # what differs from the defaults of the architecture
    vocabulary: int
    positions: str | None = None  # the option of the config that limits the length
    encoder_decoder: bool = False
    batch: int = 4
    length: int = 200
    source_length: int = 0
    methods: tuple[str, ...] = CAUSAL

    def options(self, length: int = 0) -> dict[str, Any]:
        """Everything the config is built from, with room for so many positions."""
        room = {}
        if self.positions is not None and length > self.config[self.positions]:
            room = {self.positions: length}
        return self.config | room | {"vocab_size": self.vocabulary}


SHAPES = {
    shape.name: shape
    for shape in (
        Shape(
            name="gpt2",  # GPT-2 small: the architecture's defaults
            model_type="gpt2",
            config={"n_positions": 1024},
            vocabulary=50257,
            positions="n_positions",
        ),
        Shape(
            name="t5-small",  # the architecture's defaults
            model_type="t5",
            config={"d_model": 512, "num_layers": 6, "decoder_start_token_id": 0},
            vocabulary=32128,
            encoder_decoder=True,
            batch=8,
            length=64,
            source_length=512,
            methods=SEQ2SEQ,
        ),
        Shape(
            name="bart-base",
            model_type="bart",
            config={
                "d_model": 768,
                "encoder_layers": 6,
                "decoder_layers": 6,
                "encoder_attention_heads": 12,
                "decoder_attention_heads": 12,
                "encoder_ffn_dim": 3072,
                "decoder_ffn_dim": 3072,
                "max_position_embeddings": 1024,
            },
            vocabulary=50265,
            positions="max_position_embeddings",
            encoder_decoder=True,
            batch=8,
            length=64,
            source_length=512,
            methods=SEQ2SEQ,
        ),
        Shape(
            name="smollm2-135m",
            model_type="llama",
            config={
                "hidden_size": 576,
                "intermediate_size": 1536,
                "num_hidden_layers": 30,
                "num_attention_heads": 9,
                "num_key_value_heads": 3,
                "tie_word_embeddings": True,
                "max_position_embeddings": 8192,
            },
            vocabulary=49152,
            positions="max_position_embeddings",
        ),
        Shape(
            name="vocab-152k",  # Qwen2.5-0.5B with a third of its layers: the output layer is most of the work
            model_type="qwen2",
            config={
                "hidden_size": 896,
                "intermediate_size": 4864,
                "num_hidden_layers": 8,
                "num_attention_heads": 14,
                "num_key_value_heads": 2,
                "tie_word_embeddings": True,
                "max_position_embeddings": 32768,
            },
            vocabulary=151936,
            positions="max_position_embeddings",
        ),
    )
}
