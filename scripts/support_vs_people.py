"""How well `support` and its neighbours agree with people who judged summaries, sentence by sentence.

    python scripts/support_vs_people.py mturk_cnndm.jsonl [--tagger auto]

The file is that of QAGS (Wang et al. 2020): a line for each article, with summary sentences and three votes on each,
yes if the article supports it. Printed is the AUC: the probability that a measure puts a sentence that the majority
calls supported above one that it does not, ties counting half; with a 95 % bootstrap interval over articles.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unbottle.eval.metrics.extractive import coverage, density, novelty, support
from unbottle.eval.proper_nouns import Tagger, tagger
from unbottle.tables import Table

ROUNDS = 1000


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A sentence of a summary, and whether most people found it in the article."""

    article: int
    text: str
    source: str
    supported: bool


def read(path: Path) -> list[Judged]:
    judgements = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n")):
        if not line:
            continue
        row = json.loads(line)
        for sentence in row["summary_sentences"]:
            votes = [vote["response"] == "yes" for vote in sentence["responses"]]
            judgements.append(
                Judged(
                    article=number,
                    text=sentence["sentence"],
                    source=row["article"],
                    supported=2 * sum(votes) > len(votes),
                )
            )
    return judgements


def auc(values: Sequence[float], truth: Sequence[bool]) -> float | None:
    """P(value of a true one > value of a false one) + P(equal) / 2."""
    yes = np.array([value for value, true in zip(values, truth, strict=True) if true])
    no = np.array([value for value, true in zip(values, truth, strict=True) if not true])
    if not len(yes) or not len(no):
        return None
    above = (yes[:, None] > no[None, :]).mean() + (yes[:, None] == no[None, :]).mean() / 2
    return float(above)


def interval(values: Sequence[float], judged: Sequence[Judged]) -> tuple[float, float]:
    """Whole articles are drawn again: their sentences are not independent."""
    members: dict[int, list[int]] = {}
    for place, sentence in enumerate(judged):
        members.setdefault(sentence.article, []).append(place)
    groups, random, areas = [*members.values()], np.random.default_rng(0), []
    for _ in range(ROUNDS):
        places = [place for group in random.integers(len(groups), size=len(groups)) for place in groups[group]]
        drawn = auc([values[place] for place in places], [judged[place].supported for place in places])
        areas += [] if drawn is None else [drawn]
    low, high = np.percentile(areas, [2.5, 97.5])
    return float(low), float(high)


def row(name: str, values: Sequence[float | None], judged: Sequence[Judged]) -> list[str]:
    said = [(value, sentence) for value, sentence in zip(values, judged, strict=True) if value is not None]
    numbers, those = [value for value, _ in said], [sentence for _, sentence in said]
    area = auc(numbers, [sentence.supported for sentence in those])
    if area is None:
        return [name, str(len(said)), "", ""]
    low, high = interval(numbers, those)
    return [name, str(len(said)), f"{area:.3f}", f"{low:.3f} to {high:.3f}"]


def main(path: Path, tag: Tagger) -> None:
    judged = read(path)
    supported = [support(sentence.text, sentence.source, tag) for sentence in judged]
    novel = {n: [novelty(sentence.text, sentence.source, n) for sentence in judged] for n in (1, 2, 3)}
    measures: dict[str, list[float | None]] = {
        "support, sentences with a name or number": supported,
        "support, 1 for the others": [1.0 if value is None else value for value in supported],
        "copy-rate (coverage)": [coverage(sentence.text, sentence.source) for sentence in judged],
        "copy-density": [density(sentence.text, sentence.source) for sentence in judged],
        **{f"1 - novel-{n}": [None if value is None else 1 - value for value in novel[n]] for n in novel},
    }
    print(
        Table(
            ["measure", "sentences", "AUC", "95 %"], [row(name, v, judged) for name, v in measures.items()]
        ).markdown()
    )
    yes = sum(sentence.supported for sentence in judged)
    print(f"\n{len(judged)} sentences, of which people call {yes} supported. Names by {tag.description}.")
    for truth in (True, False):
        of_them = [
            v for v, sentence in zip(supported, judged, strict=True) if sentence.supported == truth and v is not None
        ]
        less = sum(value < 1 for value in of_them)
        print(f"{'Supported' if truth else 'Not supported'}: {less} of {len(of_them)} have support below 1.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tagger", default="auto")
    arguments = parser.parse_args()
    main(arguments.data, tagger(arguments.tagger))
