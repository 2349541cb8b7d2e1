"""Words: the set S of a partition, one per position."""

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True)
class Words:
    """A set of distinct words for each position.

    Column s stands for word `ids[b, t, s]`, and is in the set of position t where `present[b, t, s]`.
    `ids` may be shared by all positions (size 1 in T); where a column is not present its id means nothing.
    """

    ids: Int[Tensor, "B #T S"]
    present: Bool[Tensor, "B #T S"]

    def expanded(self, positions: int) -> Int[Tensor, "B T S"]:
        """The ids, written out for every position."""
        return self.ids.expand(-1, positions, -1)

    def target(self, spare: int) -> Int[Tensor, "B #T S"]:
        """Columns to write to: the word where it is present, else a spare column that nobody reads."""
        return self.ids.where(self.present, spare)
