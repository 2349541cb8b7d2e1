"""Scores of continuations: R1, R1C, R1P, R1PC, R2, P Ratio, CIDEr, NIST."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from unbottle.eval.metrics import cider as cider_metric
from unbottle.eval.metrics import nist as nist_metric
from unbottle.eval.metrics import rouge as rouge_metric
from unbottle.eval.proper_nouns import Tagger, words_of

Row = dict[str, Any]  # prompt, reference, continuation


def scores(rows: Sequence[Row], tagger: Tagger) -> dict[str, float | None]:
    """The paper's eight numbers. ROUGE in percent; None where no text has a proper noun.

    R1 and R2 compare a continuation with its reference, R1C with its prompt; R1P and R1PC do so with proper nouns
    alone, over the pairs of texts in which there are any. A continuation and its reference are tagged with the prompt
    before them. P Ratio is the number of proper nouns in all continuations divided by that in all references.
    """
    if not rows:
        raise ValueError("no continuations to score.")
    r1, r1c, r1p, r1pc, r2 = list[float](), list[float](), list[float](), list[float](), list[float]()
    made_names, true_names = 0, 0
    for row in rows:
        against = rouge_metric.rouge(row["continuation"], row["reference"])
        r1.append(against["rouge1"])
        r2.append(against["rouge2"])
        r1c.append(rouge_metric.rouge(row["continuation"], row["prompt"])["rouge1"])
        prompt = words_of(row["prompt"], tagger(row["prompt"]))
        made, true = (names_after(row["prompt"], row[which], tagger) for which in ("continuation", "reference"))
        made_names, true_names = made_names + len(made), true_names + len(true)
        for found, wanted in ((r1p, true), (r1pc, prompt)):
            if made or wanted:
                found.append(rouge_metric.rouge(" ".join(made), " ".join(wanted))["rouge1"])
    texts, references = [row["continuation"] for row in rows], [row["reference"] for row in rows]
    return {
        "R1": mean(r1),
        "R1C": mean(r1c),
        "R1P": mean(r1p),
        "R1PC": mean(r1pc),
        "R2": mean(r2),
        "P Ratio": made_names / true_names if true_names else None,
        "CIDEr": cider_metric.cider(texts, references),
        "NIST": nist_metric.nist(texts, references),
    }


def names_after(prompt: str, text: str, tagger: Tagger) -> list[str]:
    """Proper nouns of a text, tagged as what follows its prompt."""
    start = len(prompt) + 1
    whole = f"{prompt} {text}"
    return words_of(whole, [(first, end) for first, end in tagger(whole) if first >= start])


def implementations(tagger: Tagger) -> dict[str, str]:
    """Whose code each number is."""
    rouge, proper = rouge_metric.implementation(), f"proper nouns by {tagger.description}"
    names = f"{proper}; {rouge}; pairs of texts without any are left out"
    return {
        "R1": rouge,
        "R1C": f"{rouge}; against the prompt",
        "R1P": names,
        "R1PC": f"{names}; against the prompt",
        "R2": rouge,
        "P Ratio": proper,
        "CIDEr": cider_metric.IMPLEMENTATION,
        "NIST": nist_metric.implementation(),
    }


def mean(values: Iterable[float]) -> float | None:
    found = [*values]
    return sum(found) / len(found) if found else None
