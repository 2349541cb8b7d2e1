"""Partition: a set of words that gets its own score. Subclass it, register it, done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from torch import Tensor

from unbottle.head.config import HeadConfig
from unbottle.head.inputs import Inputs
from unbottle.head.projection import Needs
from unbottle.method import Letter, register_letter
from unbottle.ops import Logits, Words


class Partition(ABC):
    """Answers two questions, which words and what score; eq:logit_general is the loop around it.

    `order` says when it writes: higher comes later and wins. `keys` are the projections of `needs` that give the
    tokens of a text their local embeddings. `where` and `what` are its two answers for people, in plain text, with
    `now` for what the logit is; `unbottle methods` puts them together.
    """

    order: int
    name: str
    where: str = "x in S"
    what: str = "its own score"
    needs: Sequence[Needs] = ()
    keys: Sequence[str] = ()

    @abstractmethod
    def words(self, x: Inputs, logits: Logits) -> Words:
        """The set S of each position."""

    @abstractmethod
    def score(self, x: Inputs, words: Words, now: Tensor) -> Tensor:
        """The new logits of these words, B T S; `now` is what they are."""


PARTITIONS: dict[str, Callable[[HeadConfig], list[Partition]]] = {}


def register(letter: Letter, build: Callable[[HeadConfig], list[Partition]]) -> None:
    """Make a letter of the method language stand for the partitions that `build` returns."""
    register_letter(letter)
    PARTITIONS[letter.letter] = build
