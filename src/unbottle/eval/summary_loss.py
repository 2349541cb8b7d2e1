"""Loss of true summaries, overall and by whether the document contains the token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from unbottle.eval.inference import evaluating
from unbottle.eval.perplexity import IGNORED, LossSum, TokenGroup, losses_of
from unbottle.progress import Progress

DOCUMENT, ELSEWHERE = "document", "elsewhere"
TokenizedPair = Mapping[str, Tensor]  # input_ids and labels, one dimension each


@dataclass(frozen=True, kw_only=True)
class SummaryLoss:
    """loss = mean of -log p(token | document, tokens before it), perplexity = exp(loss).

    A token is in the group "document" if the document has it, else in "elsewhere", as is the end of every summary.
    """

    tokens: int
    loss: float
    perplexity: float
    groups: dict[str, TokenGroup]
    pairs: list[tuple[float, int]] = field(repr=False)  # sum of losses and tokens of each, for paired intervals

    def padded(self, length: int) -> float:
        """The loss per position of summaries that are padded to `length`, as the paper's tables have it.

        The authors train and evaluate with the padding as labels. After the end there is nothing to know: its loss is
        taken as 0, to which a model falls that is trained so, and ours are not.
        """
        return sum(total for total, _ in self.pairs) / (length * len(self.pairs))


def summary_loss(
    model: PreTrainedModel, pairs: Sequence[TokenizedPair], *, batch: int = 8, report: Progress | None = None
) -> SummaryLoss:
    """The loss over all tokens of all true summaries, their ends included; padding does not count."""
    if not len(pairs):
        raise ValueError("no pairs: there is nothing to predict.")
    overall, sums, by_pair = LossSum(), {DOCUMENT: LossSum(), ELSEWHERE: LossSum()}, list[tuple[float, int]]()
    with evaluating(model):
        for start in range(0, len(pairs), batch):
            rows = [pairs[place] for place in range(start, min(start + batch, len(pairs)))]
            for row, logits in zip(rows, _logits(model, rows), strict=True):
                labels = row["labels"]
                losses = losses_of(logits[: len(labels)], labels.to(logits.device)).cpu()
                in_document = torch.isin(labels, row["input_ids"]) & (labels != model.config.eos_token_id)
                by_pair.append(overall.add(losses))
                sums[DOCUMENT].add(losses, in_document)
                sums[ELSEWHERE].add(losses, ~in_document)
            if report is not None:
                report(start + len(rows), len(pairs), f"{start + len(rows)} of {len(pairs)} summaries")
    loss, perplexity = overall.mean()
    groups = {name: group.of(overall.count) for name, group in sums.items()}
    return SummaryLoss(tokens=overall.count, loss=loss, perplexity=perplexity, groups=groups, pairs=by_pair)


def _logits(model: PreTrainedModel, rows: Sequence[TokenizedPair]) -> Tensor:
    """Logits at every position of every summary, B T V; those behind its end are to be ignored."""
    ids = pad_sequence([row["input_ids"] for row in rows], batch_first=True).to(model.device)
    mask = pad_sequence([torch.ones_like(row["input_ids"]) for row in rows], batch_first=True).to(model.device)
    labels = pad_sequence([row["labels"] for row in rows], batch_first=True, padding_value=IGNORED).to(model.device)
    prepare = getattr(model, "prepare_decoder_input_ids_from_labels")  # noqa: B009  nn.Module's type hides it
    output = model(input_ids=ids, attention_mask=mask, decoder_input_ids=prepare(labels), use_cache=False)
    logits: Tensor = output.logits
    return logits
