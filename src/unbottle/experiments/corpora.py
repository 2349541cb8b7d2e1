"""Corpus: a text in three parts, as tokens.

PairCorpus: documents and summaries to train on, and to test with.

Sentences: each short text a row of its own, for training.

Tokenizers trained here: byte-level pairs, as GPT-2's, for machines that can not download one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

from unbottle.data import NAMED, PairSource, TextSource, read_pairs, read_texts, split, tokens_of
from unbottle.data.sources import BLOCK, PARTS, Part, files_below, is_python, parts_of
from unbottle.experiments.demo_text import code

PAPER_CUT = (0.96, 0.02, 0.02)


@dataclass(frozen=True)
class Corpus:
    """Tokens of the parts. A folder with files train.*, valid.*, test.* has its own, as has a data set on the hub. What
    is missing is cut off the end of the training text; of one text like the paper's 96/2/2, if nothing else is said."""

    train: Any
    valid: Any
    test: Any

    @staticmethod
    def of(path: str, tokenizer: Any, cut: tuple[float, float, float] = PAPER_CUT, *, column: str = "text") -> Corpus:
        found = {
            part: tokens_of(read_texts(TextSource(path=where.path, column=column, split=where.split)), tokenizer)
            for part, where in parts_of(path).items()
        }
        missing = {part: 0.0 if part in found else share for part, share in zip(PARTS, cut, strict=True)}
        shares = (1 - missing["valid"] - missing["test"], missing["valid"], missing["test"])
        return Corpus(**split(found.pop("train"), shares) | found)


def check_texts(path: str) -> None:
    """Refuse what has no text that can be read, in any of its parts."""
    for where in parts_of(path).values():
        read_texts(TextSource(path=where.path, split=where.split))


def content_of(path: str) -> str | None:
    """Tells a text from any other, whatever it is called; None of a data set on the hub, which is known by its name."""
    if is_python(path):
        return code().fingerprint()
    place = Path(path).expanduser()
    if not place.exists():
        return None
    made = hashlib.sha256()
    for file in files_below(place) if place.is_dir() else [place]:
        made.update(f"{file.relative_to(place).as_posix()} {file.stat().st_size}\n".encode())
        with open(file, "rb") as opened:
            while block := opened.read(BLOCK):
                made.update(block)
    return made.hexdigest()[:16]


def training_texts(path: str) -> Iterator[str]:
    """What a tokenizer may learn from."""
    where = parts_of(path)["train"]
    rows: Iterable[Any] = read_texts(TextSource(path=where.path, split=where.split))
    for row in rows:
        yield row["text"]


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


class Sentences(Dataset):
    """{"input_ids", "labels"} of each text. What is in one text is no context of another."""

    def __init__(self, texts: Sequence[str], tokenizer: Any) -> None:
        self.texts = list(texts)
        self.rows = [torch.tensor(ids) for ids in tokenizer(self.texts, add_special_tokens=False)["input_ids"]]
        self.length = max(map(len, self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[place], "labels": self.rows[place]}

    def fingerprint(self) -> str:
        return hashlib.sha256("\n".join(self.texts).encode()).hexdigest()


END = "<|endoftext|>"
PADDING, START, STOP = "<pad>", "<s>", "</s>"


def train_tokenizer(texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """Of a language model. Deterministic: the same texts give the same tokenizer."""
    tokenizer = _trained(texts, size, [END])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END, pad_token=END)


def train_pair_tokenizer(texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """Of an encoder-decoder model: a text ends with </s>, and padding is a token of its own."""
    tokenizer = _trained(texts, size, [PADDING, START, STOP])
    stop = (STOP, tokenizer.token_to_id(STOP))
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {STOP}", special_tokens=[stop])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=START, eos_token=STOP, pad_token=PADDING)


def _trained(texts: Iterable[str], size: int, special: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
