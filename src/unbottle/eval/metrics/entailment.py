"""FactCC and other entailment classifiers: the share of a summary's sentences that its source supports."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from transformers import AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from unbottle.eval.bootstrap import MetricResult, RatioStatistic
from unbottle.eval.inference import load_pretrained
from unbottle.eval.metrics.metric import SOURCE, EntailmentOptions, Metric, MetricInput
from unbottle.eval.metrics.tokens import sentences

SUPPORTED = ("correct", "entailment", "entailed", "supported", "supports", "consistent", "factual")
LONGEST = 512  # tokens, where a checkpoint does not say


def entailed(
    summaries: Sequence[str],
    sources: Sequence[str],
    options: EntailmentOptions,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[list[float | None], str]:
    """For each summary the share of its sentences that the source supports, None without a sentence; and a note."""
    model, tokenizer = load(options.model)
    label = label_of(model.config, options)
    pairs = [(i, sentence) for i, summary in enumerate(summaries) for sentence in sentences(summary)]
    supported, count, cut = [0] * len(summaries), [0] * len(summaries), set[int]()
    known = (getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length)
    longest = min([LONGEST, *(int(length) for length in known if length and length > 0)])
    for start in range(0, len(pairs), options.batch):
        batch = pairs[start : start + options.batch]
        labels, full = _classify(model, tokenizer, [(sources[i], sentence) for i, sentence in batch], longest)
        for (i, _), predicted, is_full in zip(batch, labels, full, strict=True):
            supported[i] += predicted == label
            count[i] += 1
            cut |= {i} if is_full else set()
        report(start + len(batch), len(pairs))
    note = f"{len(cut)} sources fill all {longest} tokens: longer ones are cut" if cut else ""
    return [share / total if total else None for share, total in zip(supported, count, strict=True)], note


def load(name: str) -> tuple[PreTrainedModel, Tokenizer]:
    """A classifier and its tokenizer. A checkpoint without a trained classifier is refused."""
    loaded = _attempt(name)
    if isinstance(loaded, ValueError):
        raise loaded
    return loaded


@functools.lru_cache(maxsize=1)  # for the second of two runs; failures too
def _attempt(name: str) -> tuple[PreTrainedModel, Tokenizer] | ValueError:
    try:
        model, tokenizer, missing = load_pretrained(AutoModelForSequenceClassification, name)
    except (OSError, ValueError, ImportError) as error:
        return ValueError(
            f"entailment model {name!r} cannot be loaded ({' '.join(str(error).split())[:300]}). Give a folder with a "
            "sequence classifier and its tokenizer, or a name on the hub."
        )
    if missing:
        return ValueError(f"entailment model {name!r} has no trained classifier: its file lacks {', '.join(missing)}.")
    return model, tokenizer


def label_of(config: PretrainedConfig, options: EntailmentOptions) -> int:
    """The number of the label that means support."""
    names = {int(number): str(name) for number, name in (config.id2label or {}).items()}
    wanted = None if options.label is None else options.label.lower()
    matching = [
        number
        for number, name in names.items()
        if (name.lower() in SUPPORTED if wanted is None else wanted in (name.lower(), str(number)))
    ]
    if len(matching) != 1:
        raise ValueError(
            f"entailment label {options.label!r} of {options.model!r}: which one means that the source supports "
            "the sentence? Give its name or number. There are: "
            f"{', '.join(f'{number} {name}' for number, name in names.items())}."
        )
    return matching[0]


def _classify(
    model: PreTrainedModel, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], longest: int
) -> tuple[list[int], list[bool]]:
    """The label of each pair, and whether it fills all tokens."""
    sources, claims = [source for source, _ in pairs], [claim for _, claim in pairs]
    # The longer of the two is cut first: the source, as long as it is longer than the sentence.
    batch = tokenizer(
        sources, claims, truncation="longest_first", max_length=longest, padding=True, return_tensors="pt"
    )
    with torch.inference_mode():
        labels = model(**batch.to(model.device)).logits.argmax(-1)
    return labels.tolist(), (batch["attention_mask"].sum(-1) >= longest).tolist()


def _compute(data: MetricInput) -> dict[str, MetricResult]:
    options = data.options.entailment
    values, note = entailed(
        data.texts, data.sources, options, lambda done, total: data.report(done / total, "factcc")
    )  # fmt: skip
    statistic = RatioStatistic.mean(values)
    return {"factcc": MetricResult(statistic=statistic, implementation=options.description(), note=note)}


METRICS = {"factcc": Metric(compute=_compute, outputs=("factcc",), needs=(SOURCE,), heavy=True)}
