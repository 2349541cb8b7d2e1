"""Tokens: a text whose words may be set apart or copied, c_t or I, with repeated words folded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unbottle.ops import Words, float16_widened, is_accelerator, once, widen


@dataclass(frozen=True)
class Readers:
    """The positions that read a text: each reads the tokens of its document up to a last one; padding reads none.

    Kept as vectors, because positions x tokens is quadratic in the length of a text: `mask` builds it for the positions
    that are left once a part has been cut out.
    """

    documents: Int[Tensor, "B N"]  # of the tokens
    own: Int[Tensor, "B T"]  # the document of each position
    last: Int[Tensor, " T"]  # the last token that each position reads
    real: Bool[Tensor, "B T"]  # False on padding

    def mask(self) -> Bool[Tensor, "B T N"]:
        """Which tokens each position reads, whether they are readable or not."""
        columns = torch.arange(self.documents.shape[1], device=self.documents.device)
        here = self.documents[:, None] == self.own[..., None]
        return here & (columns <= self.last[:, None]) & self.real[..., None]

    def rows(self, rows: slice | Tensor) -> Readers:
        """Some of the positions."""
        return replace(self, own=self.own[:, rows], last=self.last[rows], real=self.real[:, rows])

    def part(self, batch: slice, rows: slice, tokens: int) -> Readers:
        """Some positions of some rows of the batch, and the first tokens."""
        here = self.rows(rows)
        return Readers(self.documents[batch, :tokens], here.own[batch], here.last, here.real[batch])


@dataclass(frozen=True)
class Tokens:
    """The tokens of a text and which of them each position may read.

    Column n stands for the n-th token; the column of a word is that of its first occurrence. A visible token's first
    occurrence is always visible too, so `first` need not know the position.
    """

    ids: Int[Tensor, "B N"]
    first: Int[Tensor, "B N"]  # column of the first occurrence of the same word in the same document
    readable: Bool[Tensor, "B N"]  # whether the token has a word
    keys: Mapping[str, Tensor]  # local embeddings of the tokens, B N D each
    readers: Readers | None = None  # None: every position reads all that is readable

    @staticmethod
    def of(
        ids: Int[Tensor, "B N"],
        readable: Bool[Tensor, "B N"],
        documents: Int[Tensor, "B N"],
        keys: Mapping[str, Tensor],
        readers: Readers | None = None,
    ) -> Tokens:
        """Tokens of a text; what is not readable has no word."""
        words = ids.where(readable, -1)  # no word has this id, so what is not readable is nobody's first occurrence
        return Tokens(words.clamp(min=0), first_occurrence(words, documents), readable, keys, readers)

    @property
    def visible(self) -> Bool[Tensor, "B #T N"]:
        """Which tokens each position may read. Built when a method first asks: it is the largest part of a text."""
        return once(self, "visible", self._visible)

    @property
    def words(self) -> Words:
        """S = {x | x in the text}, each word once."""
        return once(self, "words", self._words)

    def _visible(self) -> Tensor:
        return self.readable[:, None] if self.readers is None else self.readable[:, None] & self.readers.mask()

    def _words(self) -> Words:
        columns = torch.arange(self.ids.shape[1], device=self.ids.device)
        return Words(self.ids[:, None], self.visible & (self.first == columns)[:, None])

    def dot(self, f: Float[Tensor, "B T D"], keys: Float[Tensor, "B N D"]) -> Float[Tensor, "B T N"]:
        """f . key of every token."""
        with float16_widened(f, keys) as (wide, wide_keys):
            return wide.bmm(wide_keys.mT)

    def rows(self, rows: slice | Tensor) -> Tokens:
        """The same tokens as some positions see them."""
        return self if self.readers is None else replace(self, readers=self.readers.rows(rows))

    def part(self, batch: slice, rows: slice, tokens: int) -> Tokens:
        """The first tokens of some rows of the batch, as some positions see them."""
        return Tokens(
            ids=self.ids[batch, :tokens],
            first=self.first[batch, :tokens],
            readable=self.readable[batch, :tokens],
            keys={name: key[batch, :tokens] for name, key in self.keys.items()},
            readers=None if self.readers is None else self.readers.part(batch, rows, tokens),
        )

    def mean(self, scores: Float[Tensor, "B T N"]) -> Float[Tensor, "B T N"]:
        """Token scores -> word scores, the mean over the occurrences a position sees: f . mean(e) = mean(f . e)."""
        scores, size = widen(scores), scores.shape[-1]
        column = self.first[:, None].where(self.visible, size).expand_as(scores)  # what is not seen goes to a spare one
        means = scores.new_zeros((*scores.shape[:-1], size + 1))
        return means.scatter_reduce(-1, column, scores, "mean", include_self=False)[..., :size]

    def logsumexp(self, scores: Float[Tensor, "B T N"]) -> Float[Tensor, "B T N"]:
        """Token scores -> word scores, the log of the sum of exp over the occurrences a position sees."""
        scores = widen(scores).masked_fill(~self.visible, -torch.inf)
        column = self.first[:, None].expand_as(scores)
        highest = torch.full_like(scores, -torch.inf).scatter_reduce(-1, column, scores.detach(), "amax")
        highest = highest.masked_fill(highest == -torch.inf, 0)
        total = self._sum((scores - highest.gather(-1, column)).exp())
        return highest + total.where(total > 0, 1).log()

    def _sum(self, scores: Float[Tensor, "B T N"]) -> Float[Tensor, "B T N"]:
        return torch.zeros_like(scores).scatter_add(-1, self.first[:, None].expand_as(scores), scores)


def first_occurrence(ids: Int[Tensor, "B N"], group: Int[Tensor, "B N"]) -> Int[Tensor, "B N"]:
    """Column of the first token with the same id and group: in a stable order, the first of those that are equal."""
    if _is_one(group):
        words = ids
    else:
        rank = torch.searchsorted(group.sort(dim=1).values, group.contiguous())  # below N, whatever the numbers are
        words = ids + (rank << 32)
    ordered, order = words.sort(dim=1, stable=True)
    return order.gather(1, torch.searchsorted(ordered, words))


def _is_one(group: Int[Tensor, "B N"]) -> bool:
    """Whether all are known to be of one group: only looked at where that is cheap."""
    if torch.compiler.is_compiling() or group.is_meta or is_accelerator(group.device):
        return False
    return bool((group == group[:, :1]).all())
