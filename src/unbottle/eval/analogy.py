"""Perplexity where exactly two words are equally likely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import exp, log
from typing import Protocol

from transformers import PreTrainedTokenizerBase as Tokenizer

from unbottle.eval.inference import LanguageModel
from unbottle.eval.next_words import WordProbability, word_probabilities
from unbottle.eval.perplexity import perplexity_of
from unbottle.progress import Progress, silent

FLOOR = 2.0  # exp of the entropy of (1/2, 1/2): no model has a lower perplexity
ALL = "all"


class AnalogyItem(Protocol):
    """A prompt with two equally likely answers, as unbottle.data.analogy.Analogy is."""

    @property
    def relation(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def prompt(self) -> str: ...
    @property
    def answers(self) -> tuple[str, str]: ...
    @property
    def distractors(self) -> tuple[str, str]: ...


@dataclass(frozen=True, kw_only=True)
class AnalogyRow:
    """The result for a kind and a relation; `all` stands for all of them.

    `perplexity` is per word, at least 2. `token_perplexity` spreads the same cross entropy over the tokens that the
    answers have; its least value is `token_floor`, which is 2 if every answer is one token.
    """

    kind: str
    relation: str
    items: int
    perplexity: float
    floor: float
    token_perplexity: float
    token_floor: float
    answer_mass: float  # mean probability of the two answers together
    distractor_mass: float  # mean probability of the two other words of the parallelogram together


@dataclass(frozen=True, kw_only=True)
class AnalogyResult:
    """One row for each kind and relation, for each kind, and for everything, in this order."""

    rows: tuple[AnalogyRow, ...]

    def row(self, kind: str = ALL, relation: str = ALL) -> AnalogyRow:
        return next(row for row in self.rows if (row.kind, row.relation) == (kind, relation))

    @property
    def overall(self) -> AnalogyRow:
        return self.row()

    def to_dict(self) -> dict[str, object]:
        return {"rows": [asdict(row) for row in self.rows]}


def analogy(
    model: LanguageModel,
    tokenizer: Tokenizer,
    items: Sequence[AnalogyItem],
    *,
    batch: int = 32,
    report: Progress = silent,
) -> AnalogyResult:
    """Cross entropy of the true distribution, 1/2 for each answer, against the model's.

    H(item)    = - (log p(answer 1 | prompt) + log p(answer 2 | prompt)) / 2      of whole words, teacher forced
    perplexity = exp(mean of H)  >=  exp(log 2) = 2                               2 iff p = 1/2 for both, always

    The paper's table is an average over the tokens of the answers, so it has values below 2: `token_perplexity`.
    """
    if not items:
        raise ValueError("no analogy to evaluate. Ask for at least one kind, relation and part.")
    queries = [(item.prompt, word) for item in items for word in (*item.answers, *item.distractors)]
    words = word_probabilities(model, tokenizer, queries, batch=batch, report=report)
    scored = [(item, words[4 * index : 4 * index + 4]) for index, item in enumerate(items)]

    kinds = list(dict.fromkeys(item.kind for item in items))
    relations = list(dict.fromkeys(item.relation for item in items))
    rows = []
    for kind, relation in (*product(kinds, relations), *product(kinds, [ALL]), (ALL, ALL)):
        chosen = [scores for item, scores in scored if kind in (item.kind, ALL) and relation in (item.relation, ALL)]
        if chosen:
            rows.append(_row(kind, relation, chosen))
    return AnalogyResult(rows=tuple(rows))


def _row(kind: str, relation: str, scored: Sequence[Sequence[WordProbability]]) -> AnalogyRow:
    answers = [score for item in scored for score in item[:2]]
    entropy = -sum(answer.log_probability for answer in answers) / len(answers)
    tokens = sum(answer.tokens for answer in answers) / len(answers)
    distractors = [score for item in scored for score in item[2:]]
    return AnalogyRow(
        kind=kind,
        relation=relation,
        items=len(scored),
        perplexity=perplexity_of(entropy),
        floor=FLOOR,
        token_perplexity=perplexity_of(entropy / tokens),
        token_floor=exp(log(FLOOR) / tokens),
        answer_mass=_mass(answers),
        distractor_mass=_mass(distractors),
    )


def _mass(words: Sequence[WordProbability]) -> float:
    """The mean probability of both words of an item together."""
    return 2 * sum(exp(word.log_probability) for word in words) / len(words)
