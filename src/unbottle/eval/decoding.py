"""Decoding: how a model writes, the same for summaries and for texts that go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import GenerationConfig

from unbottle.eval.evaluating import evaluating

SAMPLING = ("top-k", "greedy", "beams")


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How texts are written. The defaults are the paper's for summaries. What a model's own generation config asks for
    (lengths, penalties, beams) is left aside, so that models are compared on equal terms; its special tokens are kept.
    """

    sampling: str = "top-k"  # top-k, greedy or beams
    top_k: int = 10  # words to sample from
    beams: int = 4
    max_length: int = 128  # tokens that are written
    source_length: int = 1024  # tokens that are read; less where the model reads less
    batch: int = 8
    prefix: str | None = None  # before each document; None: what the model's config names, as T5's does, or nothing
    seed: int = 0  # each batch draws its own random numbers from it, whatever came before

    def __post_init__(self) -> None:
        if self.sampling not in SAMPLING:
            raise ValueError(f"sampling {self.sampling!r}: unknown. Known: {', '.join(SAMPLING)}.")
        for name, least in {
            "top_k": 1, "beams": 1, "max_length": 1, "source_length": 2, "batch": 1, "seed": 0,
        }.items():  # fmt: skip
            if getattr(self, name) < least:
                raise ValueError(f"{name} {getattr(self, name)}: give a number of at least {least}.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What was written; `dropped` tokens of what there was to read were not read. Nothing is written of an empty
    document."""

    text: str
    dropped: int = 0
    empty: bool = False


def decoded(
    model: Any, tokenizer: Any, rows: Sequence[Sequence[int]], decoding: Decoding, number: int, *, left: bool = False
) -> Tensor:
    """What model.generate makes of batch `number`; rows of tokens are padded to the right, or to the left."""
    longest = max(len(row) for row in rows)
    known = (tokenizer.pad_token_id, getattr(model.config, "pad_token_id", None), tokenizer.eos_token_id)
    padding = next((i for i in known if i is not None), 0)
    fill = [[padding] * (longest - len(row)) for row in rows]
    hide = [[0] * len(some) for some in fill]
    seen = [[1] * len(row) for row in rows]
    joined = [[*b, *a] if left else [*a, *b] for a, b in zip(rows, fill, strict=True)]
    masked = [[*b, *a] if left else [*a, *b] for a, b in zip(seen, hide, strict=True)]
    batch, mask = (torch.tensor(each, device=model.device) for each in (joined, masked))
    settings = _config(decoding, padding if left else None)
    devices = [] if model.device.type == "cpu" else [model.device]
    kind = "cuda" if model.device.type == "cpu" else str(model.device.type)  # of no device: the processor's state alone
    with evaluating(model), torch.random.fork_rng(devices, device_type=kind):
        torch.manual_seed(int(np.random.SeedSequence([decoding.seed, number]).generate_state(1)[0]))
        made: Tensor = model.generate(input_ids=batch, attention_mask=mask, generation_config=settings)
    return made


def spelled(tokenizer: Any, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def _config(decoding: Decoding, padding: int | None) -> GenerationConfig:
    """Everything that a model may have an opinion on is said; special tokens come from the model."""
    sampled = {"do_sample": True, "top_k": decoding.top_k, "top_p": 1.0, "temperature": 1.0}
    return GenerationConfig(
        **(sampled if decoding.sampling == "top-k" else {"do_sample": False}),
        num_beams=decoding.beams if decoding.sampling == "beams" else 1,
        num_return_sequences=1,
        max_new_tokens=decoding.max_length,
        min_length=0,
        length_penalty=1.0,
        early_stopping=False,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        encoder_no_repeat_ngram_size=0,
        pad_token_id=padding,
        use_cache=True,
    )
