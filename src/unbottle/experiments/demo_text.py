"""Act two of the demo: real text, token by token: which tokens are names, which are in the text already, who is better.

The text is the documentation that comes with Python, of which every machine has a copy.
"""

from __future__ import annotations

import hashlib
import importlib
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp
from statistics import fmean

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from unbottle.eval.inference import LanguageModel, evaluating
from unbottle.eval.perplexity import losses_of
from unbottle.eval.proper_nouns import Span, Tagger, tokens_of_words
from unbottle.experiments.corpora import TextParts
from unbottle.experiments.paired import PairedLosses, WindowLosses
from unbottle.experiments.presets import Json
from unbottle.hf.explain import spelled
from unbottle.hf.modeling import HeadMixin
from unbottle.progress import Progress

TEST_SHARE = 0.4  # of the topics
SHORTEST, LONGEST = 16, 64  # tokens of a sentence that is shown
CONTEXT_SHOWN = 64  # tokens before it
SENTENCE_END = re.compile(r"[.:]\s*$|\n\n")
GROUPS = ("names", "context", "new", "all")  # of tokens; context: the text has used them before, new: it has not


@dataclass(frozen=True, kw_only=True)
class Documentation(TextParts):
    """The help topics of Python, in English: 'help("TOPIC")' shows them. Names of things recur within each of them."""

    @classmethod
    def of_python(cls) -> Documentation:
        topics: Mapping[str, str] = importlib.import_module("pydoc_data.topics").topics
        parts: dict[str, list[str]] = {"train": [], "test": []}
        for key, name in sorted((hashlib.sha256(name.encode()).digest(), name) for name in topics):
            parts["test" if key[0] < 256 * TEST_SHARE else "train"].append(topics[name])
        return cls(parts={part: tuple(texts) for part, texts in parts.items()})

    @property
    def description(self) -> str:
        return f"the documentation of Python {platform.python_version()}"

    def fingerprint(self) -> str:
        texts = "\0".join(text for part in self.parts.values() for text in part)
        return hashlib.sha256(texts.encode()).hexdigest()[:16]


NAME = re.compile(r'"([^\W\d][\w.]*)(?:\(\))?"|\*([^\W\d]\w*)\*|\b(\w*(?:_\w|[a-z][A-Z])\w*)')


class DocumentedNames:
    """Names of things in Python's documentation: between double quotes, between asterisks, or with an underscore or a
    capital within the word."""

    name = "documented names"
    version = "1"
    description = 'names in Python\'s documentation: "name", *name*, some_name and someName; no parser'

    def __call__(self, text: str) -> list[Span]:
        return [match.span(match.lastindex or 0) for match in NAME.finditer(text)]


@dataclass(frozen=True, kw_only=True)
class TokenScores:
    """The loss of each token of each window after its first one, and whether the most likely token was right."""

    losses: list[list[float]]
    correct: list[list[int]]

    @classmethod
    def of(cls, model: LanguageModel, windows: Sequence[Mapping[str, torch.Tensor]], report: Progress) -> TokenScores:
        losses, correct = [], []
        with evaluating(model):
            for number in range(len(windows)):
                ids = windows[number]["input_ids"].to(model.device)
                logits = model(input_ids=ids[None], use_cache=False).logits[0, :-1]
                losses.append([round(loss, 5) for loss in losses_of(logits, ids[1:]).tolist()])
                correct.append((logits.argmax(-1) == ids[1:]).int().tolist())
                report(number + 1, len(windows), f"window {number + 1} of {len(windows)}")
        return cls(losses=losses, correct=correct)

    def to_dict(self) -> Json:
        return dict(vars(self))

    def sums(self, members: Sequence[Sequence[bool]]) -> WindowLosses:
        """The sum of the losses of the members of each window, and their number."""
        return [
            (sum(loss for loss, member in zip(row, chosen, strict=True) if member), sum(chosen))
            for row, chosen in zip(self.losses, members, strict=True)
        ]

    def accuracy(self, members: Sequence[Sequence[bool]]) -> float | None:
        pairs = [pair for rows in zip(self.correct, members, strict=True) for pair in zip(*rows, strict=True)]
        right = [value for value, member in pairs if member]
        return fmean(right) if right else None


def token_groups(
    windows: Sequence[Mapping[str, torch.Tensor]], tokenizer: PreTrainedTokenizerBase, tagger: Tagger
) -> dict[str, list[list[bool]]]:
    """Which tokens after the first of each window belong to each of GROUPS."""
    groups: dict[str, list[list[bool]]] = {name: [] for name in GROUPS}
    for number in range(len(windows)):
        ids = windows[number]["input_ids"]
        repeated = (ids[1:, None] == ids[None, :-1]).tril().any(-1).tolist()
        groups["names"].append(tokens_of_words(ids.tolist(), tokenizer, tagger)[1:])
        groups["context"].append(repeated)
        groups["new"].append([not value for value in repeated])
        groups["all"].append([True] * len(repeated))
    return groups


def compare_groups(scores: Mapping[str, Sequence[TokenScores]], groups: Mapping[str, list[list[bool]]]) -> Json:
    """For each group: its share of the tokens; for each model, perplexity and how often its first guess is right.

    `change` is the relative difference of the perplexities of CPR and softmax, with its paired 95 % interval over
    windows. Scores are those of each seed.
    """
    total = sum(map(len, groups["all"]))
    results: Json = {}
    for group, members in groups.items():
        sums = {name: [seed.sums(members) for seed in seeds] for name, seeds in scores.items()}
        count = sum(count for _, count in sums["cpr"][0])
        if not count:
            continue
        paired = PairedLosses.of(sums["cpr"], sums["softmax"])
        results[group] = {
            "share": count / total,
            "models": {
                name: {
                    "perplexity": [exp(sum(loss for loss, _ in seed) / count) for seed in sums[name]],
                    "accuracy": [seed.accuracy(members) for seed in seeds],
                }
                for name, seeds in scores.items()
            },
            "change": exp(paired.difference) - 1,
            "low": None if paired.low is None else exp(paired.low) - 1,
            "high": None if paired.high is None else exp(paired.high) - 1,
            "wins": paired.wins,
        }
    return results


def extreme_sentences(
    windows: Sequence[Mapping[str, torch.Tensor]],
    tokenizer: PreTrainedTokenizerBase,
    softmax: TokenScores,
    cpr: TokenScores,
) -> dict[str, tuple[int, int, int]]:
    """The sentences in which CPR gains and loses most for each token: window, first token, end."""
    gains: list[tuple[float, tuple[int, int, int]]] = []
    for window in range(len(windows)):
        tokens = [spelled(tokenizer, token) for token in windows[window]["input_ids"].tolist()]
        ends = [place + 1 for place, token in enumerate(tokens) if SENTENCE_END.search(token)]
        gain = [one - other for one, other in zip(softmax.losses[window], cpr.losses[window], strict=True)]
        for start, end in pairwise([1, *ends, len(tokens)]):
            if start >= CONTEXT_SHOWN // 2 and SHORTEST <= end - start <= LONGEST:
                gains.append((fmean(gain[start - 1 : end - 1]), (window, start, end)))
    return {"gained": max(gains)[1], "lost": min(gains)[1]} if gains else {}


def marked_text(
    models: Mapping[str, PreTrainedModel],
    tokenizer: PreTrainedTokenizerBase,
    window: torch.Tensor,
    start: int,
    end: int,
) -> Json:
    """The probability that each model gives to the tokens of a sentence, and the partition that set it in the last."""
    ids = window[None, :end]
    targets = ids[0, start:, None]
    probabilities, partitions = {}, []
    for name, model in models.items():
        options = {"output_partitions": True} if isinstance(model, HeadMixin) else {}
        with evaluating(model):
            outputs = model(input_ids=ids.to(model.device), use_cache=False, **options)
        chosen = outputs.logits[0, start - 1 : end - 1].float().softmax(-1).gather(-1, targets)
        probabilities[name] = [round(value, 6) for value in chosen[:, 0].tolist()]
        if options:
            writers = outputs.partitions[0, start - 1 : end - 1].gather(-1, targets)[:, 0].tolist()
            partitions = [outputs.partition_names[writer] for writer in writers]
    tokens = [spelled(tokenizer, token) for token in ids[0].tolist()]
    return {
        "read": tokens[max(0, start - CONTEXT_SHOWN) : start],
        "tokens": tokens[start:],
        "probabilities": probabilities,
        "partitions": partitions,
    }
