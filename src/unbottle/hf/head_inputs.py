"""Convert the inputs of a model (ids, masks, position ids) to those of its head (words, padding, documents)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional as F

from unbottle.head import Distribution, Head, Past, States
from unbottle.head.inputs import Inputs
from unbottle.hf.model_with_head import ModelWithHead


def states(
    layers: Tensor,
    ids: Tensor | None,
    mask: Tensor | None,
    documents: Tensor | None,
    *,
    past: Past | None,
    unreadable_start: int | None = None,
) -> States:
    """The states of some positions. Unknown words (embeddings were given, not ids) are readable nowhere.

    `unreadable_start` is the id of a decoder start token that is padding: at the first real position it is no word.
    """
    batch, count = layers.shape[:2]
    real = (
        torch.ones((batch, count), dtype=torch.bool, device=layers.device) if mask is None else mask[:, -count:].bool()
    )
    if ids is None:
        return States(
            layers=layers,
            ids=real.new_zeros((batch, count), dtype=torch.long),
            mask=real,
            readable=torch.zeros_like(real),
            documents=documents,
        )
    readable = real
    if unreadable_start is not None:
        before = past.tensors["mask"].sum(1, keepdim=True) if past is not None and past.tensors else 0
        first = real & (before + real.cumsum(1) == 1)
        readable = real & ~(first & (ids == unreadable_start))
    return States(layers=layers, ids=ids, mask=real, readable=readable, documents=documents)


def refuse_empty(**inputs: Tensor | None) -> None:
    """A batch without a row or without a position: models fail somewhere inside, each in its own way."""
    for name, tensor in inputs.items():
        if tensor is not None and not torch.compiler.is_compiling() and 0 in tensor.shape[:2]:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}: expected at least one row and one position. Leave out empty "
                "batches and texts."
            )


def documents_of(position_ids: Tensor | None, past: Past | None, kwargs: dict) -> Tensor | None:
    """Which document each position belongs to, from `seq_idx`, `cu_seq_lens_q`, or position ids that restart."""
    if (sequence := kwargs.get("seq_idx")) is not None:
        documents: Tensor = sequence.long()
        return documents
    if (lengths := kwargs.get("cu_seq_lens_q")) is not None:
        count = int(lengths[-1]) if position_ids is None else position_ids.shape[1]
        places = torch.arange(count, device=lengths.device)
        return torch.searchsorted(lengths[1:-1].long().contiguous(), places, right=True)[None]
    if position_ids is None or position_ids.ndim != 2 or position_ids.shape[1] == 1:
        return None  # one position goes on with the document of the last
    restarts = F.pad(position_ids[:, 1:] <= position_ids[:, :-1], (1, 0))
    documents = restarts.long().cumsum(1)
    if past is not None and past.tensors:
        documents = documents + past.latest("documents")
    return documents


def packed(documents: Tensor | None) -> bool:
    """Whether a row holds several documents. A compiled graph cannot look, and trusts its caller to want no cache."""
    if documents is None or torch.compiler.is_compiling() or documents.is_meta:
        return False
    return bool((documents != documents[:, :1]).any())


def layers_of(model: ModelWithHead, inputs: dict[str, Tensor]) -> Tensor:
    """The layers that the head of a causal model reads, B T L D."""
    wanted = model._wanted_layers(False, model.config.get_text_config().num_hidden_layers)
    outputs = model._backbone(**inputs, use_cache=False, output_hidden_states=wanted)
    return model._layers(outputs.last_hidden_state, outputs.get("hidden_states"))


@contextmanager
def watched(head: Head) -> Iterator[list[tuple[Inputs, Distribution]]]:
    """What the head predicts inside the block. A watch that is set already goes on watching."""
    seen: list[tuple[Inputs, Distribution]] = []
    before = head.watch

    def watch(x: Inputs, distribution: Distribution) -> None:
        seen.append((x, distribution))
        if before is not None:
            before(x, distribution)

    head.watch = watch
    try:
        yield seen
    finally:
        head.watch = before
