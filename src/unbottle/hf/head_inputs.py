"""Convert the inputs of a model (ids, masks, position ids, labels) to those of its head (words, padding, documents)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from unbottle.head import Distribution, Head, Past, States
from unbottle.head.distribution import IGNORED
from unbottle.head.inputs import Inputs
from unbottle.hf.cache import StaticPast
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
    if documents is not None:
        documents = documents.expand(batch, -1)  # position ids of one row may stand for all
    real = layers.new_ones((batch, count), dtype=torch.bool) if mask is None else mask[:, -count:].bool()
    readable = real
    if ids is None:
        ids, readable = torch.zeros_like(real, dtype=torch.long), torch.zeros_like(real)
    elif unreadable_start is not None:
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


def padding_mask(
    mask: object, context_mask: Tensor | None, name: str, *, past: Past | None, documents: Tensor | None
) -> Tensor | None:
    """Which new positions are no padding: `context_mask`, a mask of two dimensions, or what one of four says.

    A head reads the earlier words of its document, so a mask of four dimensions must let attention see the same: it is
    refused where it does not, because the words would be those of other positions.
    """
    if context_mask is not None:
        return context_mask
    if mask is None or (isinstance(mask, Tensor) and mask.ndim == 2):
        return mask
    if not isinstance(mask, Tensor) or mask.ndim != 4 or torch.compiler.is_compiling():
        shape = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(
            f"{name} is {shape}: the head needs to know padding; give context_mask (batch, positions) too."
        )
    seen = (mask if mask.dtype == torch.bool else mask == 0)[:, 0]  # B T N
    count = seen.shape[1]
    start = len(past) if isinstance(past, StaticPast) else seen.shape[2] - count
    new = seen[:, :, start : start + count]
    real = new.diagonal(dim1=1, dim2=2)
    expected = real[:, None] & torch.ones_like(new[0]).tril()
    if documents is not None:
        expected = expected & (documents[:, None] == documents[..., None])
    if not torch.equal(new & real[..., None], expected & real[..., None]):
        raise ValueError(
            f"{name} of four dimensions lets positions see other words than those before them, which is what the head "
            "reads. Give context_mask (batch, positions) to say that this is meant, and position_ids that start again "
            "at each document."
        )
    return real


def shifted(labels: Tensor) -> Tensor:
    """Tokens < n predict n: the label of a position is the next one."""
    return F.pad(labels, (0, 1), value=IGNORED)[..., 1:]


def documents_of(position_ids: Tensor | None, mask: object, past: Past | None, kwargs: dict) -> Tensor | None:
    """Which document each position belongs to, from `seq_idx`, `cu_seq_lens_q`, or position ids that restart.

    Position ids of padding, which a mask of two dimensions tells, start no document.
    """
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
    if isinstance(mask, Tensor) and mask.ndim == 2:
        restarts = restarts & mask[:, -restarts.shape[1] :].bool()
    documents = restarts.long().cumsum(1)
    if past is not None and past.tensors:
        documents = documents + past.latest("documents")
    return documents


def packed(documents: Tensor | None) -> bool:
    """Whether a row holds several documents. A compiled graph cannot look, and trusts its caller to want no cache."""
    if documents is None or torch.compiler.is_compiling() or documents.is_meta:
        return False
    return bool((documents != documents[:, :1]).any())


def layers_of(model: ModelWithHead, inputs: Mapping[str, Any]) -> Tensor:
    """The layers that the head of a causal model reads, B T L D. No cache is used, unless the inputs have one."""
    options = {"use_cache": False, "output_hidden_states": model._wanted_layers()}
    return model._layers(model._backbone(**{**options, **inputs}))


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
