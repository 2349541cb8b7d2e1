"""Whether a source entails what its summary says, by a classifier of pairs of texts: FactCC, or any other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from unbottle.eval.inference import quiet_logging
from unbottle.eval.metrics.tokens import sentences

FACTCC = "manueldeprada/FactCC"  # the published checkpoint; its labels are CORRECT and INCORRECT
SUPPORTED = ("correct", "entailment", "entailed", "supported", "supports", "consistent", "factual")
LONGEST = 512  # tokens, where a checkpoint does not say


@dataclass(frozen=True, kw_only=True)
class Entailment:
    """A checkpoint, from the hub or a folder, and which of its labels means that the source supports the sentence.

    `label` is a name or a number; None takes the one label with a name that means it (CORRECT of FactCC, ENTAILMENT).
    """

    model: str = FACTCC
    label: str | None = None
    batch: int = 16

    def description(self) -> str:
        label = "the label that means support" if self.label is None else f"label {self.label}"
        return f"{self.model} by transformers: share of a summary's sentences with {label} given the source"


def entailed(
    summaries: Sequence[str],
    sources: Sequence[str],
    entailment: Entailment,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[list[float | None], str]:
    """For each summary the share of its sentences that the source supports, None without a sentence; and a note."""
    model, tokenizer = load(entailment.model)
    label = label_of(model.config, entailment)
    pairs = [(i, sentence) for i, summary in enumerate(summaries) for sentence in sentences(summary)]
    right, number, cut = [0] * len(summaries), [0] * len(summaries), set[int]()
    longest = _longest(model, tokenizer)
    for start in range(0, len(pairs), entailment.batch):
        batch = pairs[start : start + entailment.batch]
        labels, long = _labels(model, tokenizer, [(sources[i], sentence) for i, sentence in batch], longest)
        for (i, _), found, is_long in zip(batch, labels, long, strict=True):
            right[i] += found == label
            number[i] += 1
            cut |= {i} if is_long else set()
        report(start + len(batch), len(pairs))
    note = f"{len(cut)} sources fill all {longest} tokens: longer ones are cut" if cut else ""
    return [r / n if n else None for r, n in zip(right, number, strict=True)], note


def load(name: str) -> tuple[Any, Any]:
    """A classifier and its tokenizer. A checkpoint without a trained classifier is refused."""
    found = _attempt(name)
    if isinstance(found, ValueError):
        raise found
    return found


@functools.lru_cache(maxsize=1)  # for the second of two runs; a failure too
def _attempt(name: str) -> tuple[Any, Any] | ValueError:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from unbottle.eval.inference import best_device
    from unbottle.hf.pretrained import NO_CODE, SAFE
    from unbottle.hub_access import quick_hub

    try:
        with quiet_logging(), quick_hub(name):
            model, info = AutoModelForSequenceClassification.from_pretrained(name, output_loading_info=True, **SAFE)
            tokenizer = AutoTokenizer.from_pretrained(name, **NO_CODE)
    except (OSError, ValueError, ImportError) as error:
        return ValueError(
            f"entailment model {name!r} can not be loaded ({' '.join(str(error).split())[:300]}). Give a folder with a "
            "sequence classifier and its tokenizer, or a name on the hub."
        )
    if info["missing_keys"]:
        missing = ", ".join(sorted(info["missing_keys"])[:3])
        return ValueError(f"entailment model {name!r} has no trained classifier: its file lacks {missing}.")
    return model.to(best_device()).eval(), tokenizer


def label_of(config: Any, entailment: Entailment) -> int:
    """The number of the label that means support."""
    names = {int(number): str(name) for number, name in config.id2label.items()}
    listed = ", ".join(f"{number} {name}" for number, name in names.items())
    if entailment.label is None:
        found = [number for number, name in names.items() if name.lower() in SUPPORTED]
    else:
        wanted = entailment.label.lower()
        found = [number for number, name in names.items() if wanted in (name.lower(), str(number))]
    if len(found) != 1:
        raise ValueError(
            f"entailment label {entailment.label!r} of {entailment.model!r}: which one means that the source supports "
            f"the sentence? Give its name or number. There are: {listed}."
        )
    return found[0]


def _labels(model: Any, tokenizer: Any, pairs: list[tuple[str, str]], longest: int) -> tuple[list[int], list[bool]]:
    import torch

    sources, claims = [source for source, _ in pairs], [claim for _, claim in pairs]
    # The longer of the two is cut first: the source, as long as it is longer than the sentence.
    batch = tokenizer(
        sources, claims, truncation="longest_first", max_length=longest, padding=True, return_tensors="pt"
    )
    with torch.inference_mode():
        labels = model(**batch.to(model.device)).logits.argmax(-1)
    return labels.tolist(), (batch["attention_mask"].sum(-1) >= longest).tolist()


def _longest(model: Any, tokenizer: Any) -> int:
    known = (getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length)
    return min([LONGEST, *(int(length) for length in known if length and length > 0)])
