"""MAUVE, by its authors' package, on features of a given model."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unbottle.eval.inference import quiet_logging
from unbottle.eval.metrics.tokens import sentences

MODEL = "gpt2-large"
LONGEST = 1024  # tokens of a text


@dataclass(frozen=True, kw_only=True)
class Mauve:
    """Whose hidden states are the features: a name on the hub, or a folder."""

    model: str = MODEL
    seed: int = 25  # of the clusters; the package's own


def mauve(texts: Sequence[str], references: Sequence[str], settings: Mauve) -> float:
    """The area under the divergence curve of the two sets of texts, 0 to 1, in a space cut into clusters.

    A line ends after each sentence, as in the paper. The feature of a text is the last hidden state of its last token.
    """
    try:
        from mauve import compute_mauve
    except ImportError as error:
        raise ValueError(
            "MAUVE needs the package mauve-text, which is not installed: pip install mauve-text (GPLv3)."
        ) from error
    made, true = ([text for text in map(_lines, group) if text] for group in (texts, references))
    if len(made) < 2 or len(true) < 2:
        raise ValueError(f"MAUVE compares sets of texts: {len(made)} summaries and {len(true)} references are too few.")
    features = _features([*made, *true], settings)
    found = compute_mauve(
        p_features=features[: len(made)], q_features=features[len(made) :], seed=settings.seed, verbose=False
    )
    return float(found.mauve)


def implementation(settings: Mauve) -> str:
    version = importlib.metadata.version("mauve-text")
    return f"mauve-text {version}: features of {settings.model}, last token; a line for each sentence; empty texts out"


def _lines(text: str) -> str:
    return "\n".join(sentences(text))


def _features(texts: Sequence[str], settings: Mauve) -> Any:
    import torch
    from transformers import AutoModel, AutoTokenizer

    from unbottle.eval.inference import best_device
    from unbottle.hf.pretrained import NO_CODE, SAFE
    from unbottle.hub_access import quick_hub

    try:
        with quiet_logging(), quick_hub(settings.model):
            model = AutoModel.from_pretrained(settings.model, **SAFE).to(best_device()).eval()
            tokenizer = AutoTokenizer.from_pretrained(settings.model, **NO_CODE)
    except (OSError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(f"MAUVE model {settings.model!r} can not be loaded ({reason}). Give a folder.") from error
    longest = min(LONGEST, getattr(model.config, "max_position_embeddings", None) or LONGEST)
    found = []
    for text in texts:  # one by one: without padding, the last token is the last, whatever the tokenizer
        batch = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt").to(model.device)
        with torch.inference_mode():
            states = model(**batch).last_hidden_state
        found.append(states[0, -1].float().cpu())
    return torch.stack(found).numpy()
