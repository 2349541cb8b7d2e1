"""PairCorpus: documents and summaries to train on, and to test with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbottle.data import NAMED, PairSource, read_pairs
from unbottle.data.parts import Part, parts_of

TEST = 0.02  # of one file


@dataclass(frozen=True)
class PairCorpus:
    """Rows of id, document and summary. A folder with files train.*, valid.*, test.* has parts of its own, as has a
    data set on the hub; of one file the end is for tests."""

    train: Any
    test: Any

    @staticmethod
    def of(path: str) -> PairCorpus:
        places = parts_of(path, names=NAMED)
        train = read_pairs(_source(path, places["train"]))
        if "test" in places:
            return PairCorpus(train, read_pairs(_source(path, places["test"])))
        start = len(train) - round(len(train) * TEST)
        if not 0 < start < len(train):
            raise ValueError(f"{path}: {len(train)} pairs are too few to keep {TEST:.0%} for a test.")
        return PairCorpus(train.select(range(start)), train.select(range(start, len(train))))

    def training_texts(self) -> Iterator[str]:
        """What a tokenizer may learn from."""
        for row in self.train:
            yield row["document"]
            yield row["summary"]


def _source(path: str, where: Part) -> PairSource:
    """Files under the name of a data set that we know have its columns."""
    named = NAMED.get(Path(path).name)
    columns = {} if named is None else {"text_column": named.text_column, "summary_column": named.summary_column}
    return PairSource(path=where.path, split=where.split, **columns)
