"""Explanation: the next word as data, and as a table to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

SHOWN = 4  # occurrences of a word in a row of the table


@dataclass(frozen=True, kw_only=True)
class Occurrence:
    """A place a word stands at, and what a method that points at places makes of it.

    `score`: P adds the mean of the scores to the logit; CopyNet adds exp(score) to exp(logit).
    `copied`: the probability that PG, PS or CopyNet copied from here.
    """

    text: str  # "context" or "source"
    position: int  # in `context` or `source` of the explanation
    score: float | None = None
    copied: float | None = None

    def __str__(self) -> str:
        value = self.score if self.copied is None else self.copied
        return str(self.position) if value is None else f"{self.position} ({value:.3g})"


@dataclass(frozen=True, kw_only=True)
class NextWord:
    """One word that may come next.

    `partition` set its logit last, after all of `writers`, in order. `logit` is that of the first softmax,
    `plain_logit` is f_V . w_x. `copied` is the part of its probability that PG, PS or CopyNet copied.
    """

    id: int
    text: str
    probability: float
    partition: str
    writers: tuple[str, ...]
    logit: float
    plain_logit: float
    copied: float | None = None
    occurrences: tuple[Occurrence, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a head predicts after a text, and why.

    `masses` is the probability of all words by what gave it, and sums to one: V, C, PD, R1, ... by last writer; V2, V3
    are the other softmaxes of MoS; COPY is copied probability (PG, PS, CopyNet).
    """

    method: str
    text: str
    context: tuple[str, ...]  # what the decoder reads, token by token
    source: tuple[str, ...]  # what the encoder reads
    words: tuple[NextWord, ...]  # the most likely first
    masses: Mapping[str, float]

    def to_dict(self) -> dict[str, object]:
        """Plain data, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        title = ("word", "id", "probability", "set by", "writers", "logit", "plain", "copied", "stands at")
        table = [title, *(_row(word) for word in self.words)]
        keep = [number for number in range(len(title)) if any(row[number] for row in table[1:])]
        masses = "  ".join(f"{name} {mass:.4f}" for name, mass in self.masses.items())
        lines = _aligned([[row[number] for number in keep] for row in table])
        return "\n".join([f"{self.method}: next word after {self.text!r}", *lines, f"all words: {masses}"])


def _row(word: NextWord) -> tuple[str, ...]:
    return (
        repr(word.text),
        str(word.id),
        f"{word.probability:.4f}",
        word.partition,
        " ".join(word.writers),
        f"{word.logit:.3f}",
        f"{word.plain_logit:.3f}",
        "" if word.copied is None else f"{word.copied:.4f}",
        "; ".join(filter(None, (_places(word, text) for text in ("context", "source")))),
    )


def _places(word: NextWord, text: str) -> str:
    places = [str(occurrence) for occurrence in word.occurrences if occurrence.text == text]
    more = [f"and {len(places) - SHOWN} more"] if len(places) > SHOWN else []
    return f"{text} {', '.join([*places[:SHOWN], *more])}" if places else ""


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width, two spaces apart, numbers to the right."""
    columns = []
    for title, *cells in zip(*table, strict=True):
        width = max(map(len, (title, *cells)))
        number = all(cell.replace(".", "").lstrip("-").isdigit() for cell in cells if cell)
        columns.append([f"{cell:>{width}}" if number else f"{cell:<{width}}" for cell in (title, *cells)])
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
