"""MAUVE by its authors' package, on features of a given model."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unbottle.eval.bootstrap import CorpusStatistic, MetricResult
from unbottle.eval.inference import load_pretrained
from unbottle.eval.metrics.metric import REFERENCE, MauveOptions, Metric, MetricInput
from unbottle.eval.metrics.tokens import sentences

if TYPE_CHECKING:
    import numpy as np

LONGEST = 1024  # tokens of a text


def mauve(texts: Sequence[str], references: Sequence[str], options: MauveOptions) -> float:
    """The area under the divergence curve of the two sets of texts, 0 to 1, in a space cut into clusters.

    A line ends after each sentence, as in the paper. The feature of a text is the last hidden state of its last token.
    """
    try:
        from mauve import compute_mauve
    except ImportError as error:
        raise ValueError(
            "MAUVE needs the package mauve-text, which is not installed: pip install mauve-text (GPLv3)."
        ) from error
    generated, true = (
        [text for text in ("\n".join(sentences(text)) for text in group) if text] for group in (texts, references)
    )
    if min(len(generated), len(true)) < 2:
        raise ValueError(
            f"MAUVE compares sets of texts: {len(generated)} summaries and {len(true)} references are too few."
        )
    features = _features([*generated, *true], options)
    size = len(generated)
    result = compute_mauve(p_features=features[:size], q_features=features[size:], seed=options.seed, verbose=False)
    return float(result.mauve)


def implementation(options: MauveOptions) -> str:
    version = importlib.metadata.version("mauve-text")
    return f"mauve-text {version}: features of {options.model}, last token; a line for each sentence; empty texts out"


def _features(texts: Sequence[str], options: MauveOptions) -> np.ndarray:
    import torch
    from transformers import AutoModel

    try:
        model, tokenizer, _ = load_pretrained(AutoModel, options.model)
    except (OSError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(f"MAUVE model {options.model!r} cannot be loaded ({reason}). Give a folder.") from error
    longest = min(LONGEST, getattr(model.config, "max_position_embeddings", None) or LONGEST)
    features = []
    for text in texts:  # one by one: without padding, the last token is the last, whatever the tokenizer
        batch = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt").to(model.device)
        with torch.inference_mode():
            states = model(**batch).last_hidden_state
        features.append(states[0, -1].float().cpu())
    return torch.stack(features).numpy()


def _compute(data: MetricInput) -> dict[str, MetricResult]:
    options = data.options.mauve
    statistic = CorpusStatistic(
        value=mauve(data.texts, data.references, options),
        counted=len(data.texts),
        reason="a text drawn twice would make a cluster of its own",
    )
    return {"mauve": MetricResult(statistic=statistic, implementation=implementation(options))}


METRICS = {"mauve": Metric(compute=_compute, outputs=("mauve",), needs=(REFERENCE,), heavy=True)}
