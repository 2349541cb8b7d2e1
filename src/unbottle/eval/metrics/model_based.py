"""Metrics that load a model: FactCC and other entailment classifiers, and MAUVE, by its authors' package."""

from __future__ import annotations

import functools
import importlib.metadata
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers import PreTrainedTokenizerBase as Tokenizer

from unbottle.eval.bootstrap import CorpusStatistic
from unbottle.eval.inference import best_device
from unbottle.eval.metrics.metric import (
    REFERENCE,
    SOURCE,
    EntailmentOptions,
    MauveOptions,
    Metric,
    MetricInput,
    MetricResult,
)
from unbottle.eval.metrics.tokens import sentences
from unbottle.hf.pretrained import NO_CODE, SAFE, length_limit
from unbottle.hub_access import quick_hub

LOUD = ("huggingface_hub", "transformers")
SUPPORTED = ("correct", "entailment", "entailed", "supported", "supports", "consistent", "factual")
LONGEST_PAIR = 512  # tokens of a source and a sentence, where a checkpoint does not say
LONGEST_TEXT = 1024  # tokens of a text for MAUVE


class AutoClass(Protocol):
    """AutoModel, AutoModelForSequenceClassification, ..."""

    def from_pretrained(self, pretrained_model_name_or_path: str, **kwargs: Any) -> Any: ...


@contextmanager
def quiet_logging() -> Iterator[None]:
    """No log messages of the Hugging Face libraries: errors are raised, and need not be logged as well."""
    levels = {name: logging.getLogger(name).level for name in LOUD}
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def load_pretrained(auto: AutoClass, what: str, name: str, advice: str) -> tuple[PreTrainedModel, Tokenizer, list[str]]:
    """A model on the best device, in evaluation mode, its tokenizer, and weights that its checkpoint does not have.

    A failure is a ValueError that says what cannot be loaded, why, and ends with the advice.
    """
    try:
        with quiet_logging(), quick_hub(name):
            model, info = auto.from_pretrained(name, output_loading_info=True, **SAFE)
            tokenizer = AutoTokenizer.from_pretrained(name, **NO_CODE)
    except (OSError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(f"{what} model {name!r} cannot be loaded ({reason}). {advice}") from error
    return model.to(best_device()).eval(), tokenizer, sorted(info["missing_keys"])[:3]


def entailed(
    summaries: Sequence[str],
    sources: Sequence[str],
    options: EntailmentOptions,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[list[float | None], str]:
    """For each summary the share of its sentences that the source supports, None without a sentence; and a note."""
    model, tokenizer = load_classifier(options.model)
    label = label_of(model.config, options)
    pairs = [(i, sentence) for i, summary in enumerate(summaries) for sentence in sentences(summary)]
    supported, count, cut = [0] * len(summaries), [0] * len(summaries), set[int]()
    known = (getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length)
    longest = min([LONGEST_PAIR, *(int(length) for length in known if length and length > 0)])
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


def load_classifier(name: str) -> tuple[PreTrainedModel, Tokenizer]:
    """A classifier and its tokenizer. A checkpoint without a trained classifier is refused."""
    loaded = _attempt(name)
    if isinstance(loaded, ValueError):
        raise loaded
    return loaded


@functools.lru_cache(maxsize=1)  # for the second of two runs; failures too
def _attempt(name: str) -> tuple[PreTrainedModel, Tokenizer] | ValueError:
    advice = "Give a folder with a sequence classifier and its tokenizer, or a name on the hub."
    try:
        model, tokenizer, missing = load_pretrained(AutoModelForSequenceClassification, "entailment", name, advice)
    except ValueError as error:
        return error
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


def _factcc(data: MetricInput) -> dict[str, MetricResult]:
    options = data.options.entailment
    values, note = entailed(data.texts, data.sources, options, lambda done, total: data.report(done / total, "factcc"))
    label = "the label that means support" if options.label is None else f"label {options.label}"
    code = f"{options.model} by transformers: share of a summary's sentences with {label} given the source"
    return {"factcc": MetricResult.mean(values, code, note)}


def mauve(texts: Sequence[str], references: Sequence[str], options: MauveOptions) -> float:
    """The area under the divergence curve of the two sets of texts, 0 to 1, in a space cut into clusters.

    A line ends after each sentence, as in the paper. The feature of a text is the last hidden state of its last token.
    """
    compute_mauve = load_mauve()
    generated, true = (
        tuple(text for text in ("\n".join(sentences(text)) for text in group) if text) for group in (texts, references)
    )
    if min(len(generated), len(true)) < 2:
        raise ValueError(
            f"MAUVE compares sets of texts: {len(generated)} summaries and {len(true)} references are too few."
        )
    features = {"p_features": mauve_features(generated, options), "q_features": _reference_features(true, options)}
    return float(compute_mauve(**features, seed=options.seed, verbose=False).mauve)


def load_mauve() -> Callable[..., Any]:
    """The authors' function, or a ValueError if their package is not installed."""
    try:
        from mauve import compute_mauve
    except ImportError as error:
        raise ValueError(
            "MAUVE needs the package mauve-text, which is not installed: pip install mauve-text (GPLv3)."
        ) from error
    function: Callable[..., Any] = compute_mauve
    return function


@functools.lru_cache(maxsize=1)  # the same for all runs on a data set
def _reference_features(texts: tuple[str, ...], options: MauveOptions) -> np.ndarray:
    return mauve_features(texts, options)


@functools.lru_cache(maxsize=1)  # for the references and all runs
def load_features_model(name: str) -> tuple[PreTrainedModel, Tokenizer]:
    model, tokenizer, _ = load_pretrained(AutoModel, "MAUVE", name, "Give a folder.")
    return model, tokenizer


def mauve_features(texts: Sequence[str], options: MauveOptions) -> np.ndarray:
    model, tokenizer = load_features_model(options.model)
    longest = min(LONGEST_TEXT, length_limit(model.config) or LONGEST_TEXT)
    features = []
    for text in texts:  # one by one: without padding, the last token is the last, whatever the tokenizer
        batch = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt").to(model.device)
        with torch.inference_mode():
            states = model(**batch).last_hidden_state
        features.append(states[0, -1].float().cpu())
    return torch.stack(features).numpy()


def mauve_implementation(options: MauveOptions) -> str:
    version = importlib.metadata.version("mauve-text")
    return f"mauve-text {version}: features of {options.model}, last token; a line for each sentence; empty texts out"


def _mauve(data: MetricInput) -> dict[str, MetricResult]:
    options = data.options.mauve
    statistic = CorpusStatistic(
        value=mauve(data.texts, data.references, options),
        counted=len(data.texts),
        reason="a text drawn twice would make a cluster of its own",
    )
    return {"mauve": MetricResult(statistic=statistic, implementation=mauve_implementation(options))}


METRICS = {
    "mauve": Metric(compute=_mauve, outputs=("mauve",), needs=(REFERENCE,), heavy=True),
    "factcc": Metric(compute=_factcc, outputs=("factcc",), needs=(SOURCE,), heavy=True),
}
