"""Every partition, one file each. Importing a file registers its letter."""

from unbottle.head.partitions.context import Context, Encoder
from unbottle.head.partitions.copynet import CopyNet
from unbottle.head.partitions.induction import Induction
from unbottle.head.partitions.local import Local
from unbottle.head.partitions.neighbours import Neighbours
from unbottle.head.partitions.reranker import NestedReranker, Reranker
from unbottle.head.partitions.word_by_word import WordByWord

__all__ = [
    "Context", "CopyNet", "Encoder", "Induction", "Local", "Neighbours", "NestedReranker", "Reranker", "WordByWord",
]  # fmt: skip
