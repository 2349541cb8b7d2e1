"""Analogy: one context and the two words that may follow it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

KINDS = ("diagonal", "edge")
PARTS = ("train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class Analogy:
    """A context after which each of two words comes with probability 1/2.

    Of two pairs (king, queen) and (man, woman), `answers` are the words of a diagonal of the parallelogram (king,
    woman), or of an edge (king, queen), in the order in which the prompt mentions them. `distractors` are the two other
    words; the prompt does not mention them.
    """

    relation: str
    kind: str  # of KINDS
    part: str  # of PARTS
    prompt: str  # ends before the space in front of the answer
    answers: tuple[str, str]
    distractors: tuple[str, str]

    def to_dict(self) -> dict[str, object]:
        """Plain data, ready for JSON."""
        return asdict(self)
