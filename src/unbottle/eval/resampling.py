"""How sure a number is, and whether two runs differ: by drawing examples again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from unbottle.eval.measured import Corpus, Ratio

LEVEL = 95  # percent
BLOCK = 4_000_000  # numbers drawn at once
WORDS = 1_500_000  # that all rounds of a metric of whole corpora may read
CORPUS_ROUNDS = 200
FEWEST = 20  # rounds; with fewer there is no interval
INTERVAL = "percentile bootstrap over examples"
TEST = "approximate randomisation, two-sided: the two texts of each example change places with probability 1/2"
TOLERANCE = 1e-9  # of sums in another order


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """How often, and from which random numbers."""

    rounds: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rounds < FEWEST:
            raise ValueError(f"rounds {self.rounds}: expected {FEWEST} or more, as a percentile needs them.")

    def of(self, found: Ratio | Corpus) -> int:
        """Rounds for this number. What reads all texts in each round gets as many as cost allows; 0 if too few."""
        if isinstance(found, Ratio):
            return self.rounds
        rounds = min(self.rounds, CORPUS_ROUNDS, WORDS // max(found.words, 1))
        return rounds if rounds >= FEWEST and not found.again else 0


def interval(found: Ratio | Corpus, drawing: Drawing) -> tuple[float, float] | None:
    """The middle 95 % of what the number is on examples drawn with replacement. None below two examples."""
    rounds = drawing.of(found)
    if found.counted < 2 or not rounds:
        return None
    return _middle(_drawn(found, rounds, drawing.seed))


def difference_interval(first: Ratio | Corpus, second: Ratio | Corpus, drawing: Drawing) -> tuple[float, float] | None:
    """The same of first - second, on the same draws for both."""
    rounds = min(drawing.of(first), drawing.of(second))
    if min(first.counted, second.counted) < 2 or not rounds:
        return None
    return _middle(_drawn(first, rounds, drawing.seed) - _drawn(second, rounds, drawing.seed))


def p_value(first: Ratio | Corpus, second: Ratio | Corpus, drawing: Drawing) -> float | None:
    """P(a difference as large as this one, either way), if it made no difference which run wrote which text.

    (1 + rounds with |difference| >= the one seen) / (1 + rounds); a round without a number counts against a difference.
    """
    rounds = min(drawing.of(first), drawing.of(second))
    if first.value is None or second.value is None or not rounds:
        return None
    seen = abs(first.value - second.value)
    if isinstance(first, Ratio) and isinstance(second, Ratio):
        found = np.concatenate([*_swapped(first, second, rounds, drawing.seed)])
    else:
        assert isinstance(first, Corpus)
        assert isinstance(second, Corpus)
        found = _swapped_texts(first, second, rounds, drawing.seed)
    smaller = np.abs(found) < seen - TOLERANCE * max(1.0, seen)
    return float((1 + rounds - smaller.sum()) / (1 + rounds))


def _middle(found: np.ndarray) -> tuple[float, float] | None:
    found = found[~np.isnan(found)]
    if len(found) < FEWEST:
        return None
    low, high = np.percentile(found, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return float(low), float(high)


def _drawn(found: Ratio | Corpus, rounds: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if isinstance(found, Corpus):
        number = len(found.texts)
        scores = []
        for _ in range(rounds):
            places = random.integers(number, size=number)
            texts, references = [found.texts[i] for i in places], [found.references[i] for i in places]
            scores.append(found.score(texts, references))
        return np.array(scores)
    number, parts, wholes = len(found.parts), np.array(found.parts), np.array(found.wholes)
    values = []
    for size in _blocks(rounds, number):
        places = random.integers(number, size=(size, number))
        values.append(_divided(parts[places].sum(1), wholes[places].sum(1)))
    return np.concatenate(values)


def _swapped(first: Ratio, second: Ratio, rounds: int, seed: int) -> Iterator[np.ndarray]:
    random = np.random.default_rng(seed)
    parts, wholes = np.array([first.parts, second.parts]), np.array([first.wholes, second.wholes])
    for size in _blocks(rounds, len(first.parts)):
        swap = random.integers(2, size=(size, len(first.parts))).astype(float)
        moved_parts, moved_wholes = swap @ (parts[1] - parts[0]), swap @ (wholes[1] - wholes[0])
        yield _divided(parts[0].sum() + moved_parts, wholes[0].sum() + moved_wholes) - _divided(
            parts[1].sum() - moved_parts, wholes[1].sum() - moved_wholes
        )


def _swapped_texts(first: Corpus, second: Corpus, rounds: int, seed: int) -> np.ndarray:
    random, found = np.random.default_rng(seed), []
    pairs = [*zip(first.texts, second.texts, strict=True)]
    for _ in range(rounds):
        swap = random.integers(2, size=len(pairs))
        one, other = ([pair[s ^ side] for pair, s in zip(pairs, swap, strict=True)] for side in (0, 1))
        found.append(first.score(one, first.references) - second.score(other, second.references))
    return np.array(found)


def _divided(parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    """Not a number where nothing was counted."""
    found = np.full(len(parts), np.nan)
    np.divide(parts, wholes, out=found, where=wholes > TOLERANCE)
    return found


def _blocks(rounds: int, number: int) -> Iterator[int]:
    most = max(1, BLOCK // max(number, 1))
    for done in range(0, rounds, most):
        yield min(most, rounds - done)
