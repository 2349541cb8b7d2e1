"""Loss of summaries, as a whole and by whether the true next token is in the document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from unbottle.eval.inference import evaluating
from unbottle.eval.perplexity import IGNORED, Group, Tally, losses_of
from unbottle.progress import Progress

DOCUMENT, ELSEWHERE = "document", "elsewhere"
Pair = Mapping[str, Tensor]  # input_ids and labels, one dimension each


@dataclass(frozen=True, kw_only=True)
class SummaryLoss:
    """loss = mean of -log p(token | document, tokens before it), perplexity = exp(loss).

    A token is in the group "document" if the document has it, else in "elsewhere", as is the end of every summary.
    """

    tokens: int
    loss: float
    perplexity: float
    groups: dict[str, Group]
    pairs: list[tuple[float, int]] = field(repr=False)  # sum of losses and tokens of each, for paired intervals


def summary_loss(model: Any, pairs: Sequence[Pair], *, batch: int = 8, report: Progress | None = None) -> SummaryLoss:
    """Over all tokens of all true summaries, their ends included; padding does not count."""
    if not len(pairs):
        raise ValueError("no pairs: there is nothing to predict.")
    overall, tallies, each = Tally(), {DOCUMENT: Tally(), ELSEWHERE: Tally()}, list[tuple[float, int]]()
    with evaluating(model):
        for start in range(0, len(pairs), batch):
            rows = [pairs[place] for place in range(start, min(start + batch, len(pairs)))]
            for row, logits in zip(rows, _logits(model, rows), strict=True):
                labels = row["labels"]
                losses = losses_of(logits[: len(labels)], labels.to(logits.device)).cpu()
                there = torch.isin(labels, row["input_ids"]) & (labels != model.config.eos_token_id)
                here = Tally()
                here.add(losses)
                each.append((here.total, here.count))
                overall.add(losses)
                tallies[DOCUMENT].add(losses, there)
                tallies[ELSEWHERE].add(losses, ~there)
            if report is not None:
                report(start + len(rows), len(pairs), f"{start + len(rows)} of {len(pairs)} summaries")
    whole = overall.group(overall.count)
    assert whole.loss is not None
    assert whole.perplexity is not None
    groups = {name: tally.group(overall.count) for name, tally in tallies.items()}
    return SummaryLoss(tokens=whole.tokens, loss=whole.loss, perplexity=whole.perplexity, groups=groups, pairs=each)


def _logits(model: Any, rows: Sequence[Pair]) -> Tensor:
    """Of every place of every summary, B T V; behind its end they mean nothing."""
    ids = pad_sequence([row["input_ids"] for row in rows], batch_first=True)
    mask = pad_sequence([torch.ones_like(row["input_ids"]) for row in rows], batch_first=True)
    labels = pad_sequence([row["labels"] for row in rows], batch_first=True, padding_value=IGNORED)
    inputs = {"input_ids": ids, "attention_mask": mask}
    shifted = model.prepare_decoder_input_ids_from_labels(labels.to(model.device))
    given = {name: value.to(model.device) for name, value in inputs.items()}
    logits: Tensor = model(**given, decoder_input_ids=shifted, use_cache=False).logits
    return logits
