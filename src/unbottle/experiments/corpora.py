"""Corpora of experiments: texts as tokens, the standard library of Python, pairs of document and summary, sentences,
and byte-level tokenizers trained on them."""

from __future__ import annotations

import hashlib
import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from unbottle.data import NAMED, PairSource, TextSource, Windows, read_pairs, read_texts, split, tokens_of
from unbottle.data.sources import BLOCK, PARTS, SAMPLE, Part, files_below, is_python, parts_of
from unbottle.data.text import library_files, library_root, read, sample_pairs
from unbottle.data.tokens import token_pieces
from unbottle.files import explain_full_disk, file_lock

PAPER_FRACTIONS = (0.96, 0.02, 0.02)


@dataclass(frozen=True)
class Corpus:
    """The tokens of the training, validation and test part of a text."""

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray

    @staticmethod
    def read(
        path: str,
        tokenizer: PreTrainedTokenizerBase,
        fractions: tuple[float, float, float] = PAPER_FRACTIONS,
        *,
        column: str = "text",
        folder: Path | None = None,
    ) -> Corpus:
        """Read a text. A folder with files train.*, valid.*, test.* has its own parts, as has a data set on the hub.

        Missing parts are cut off the end of the training text, by default in the paper's fractions of 96/2/2. With a
        `folder`, texts are streamed, and their tokens are written there and mapped: nothing needs to fit into memory.
        """
        tokens = {}
        for part, place in parts_of(path).items():
            source = TextSource(path=place.path, column=column, split=place.split, streaming=folder is not None)
            if folder is None:
                tokens[part] = tokens_of(read_texts(source), tokenizer)
            else:
                tokens[part] = tokens_on_disk(source, tokenizer, folder / f"{part}.int32")
        valid, test = (0.0 if part in tokens else share for part, share in zip(PARTS[1:], fractions[1:], strict=True))
        return Corpus(**split(tokens.pop("train"), (1 - valid - test, valid, test)) | tokens)


def tokens_on_disk(source: TextSource, tokenizer: PreTrainedTokenizerBase, path: Path) -> np.ndarray:
    """The tokens of a text as a mapped file, which is written unless it exists."""
    with file_lock(path.with_name(f".{path.name}.lock")), explain_full_disk(path.parent):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            with open(part, "wb") as file:
                for piece in token_pieces(read_texts(source), tokenizer):
                    piece.tofile(file)
            os.replace(part, path)
    if not path.stat().st_size:
        return np.zeros(0, dtype=np.int32)
    return np.memmap(path, dtype=np.int32, mode="r")


def check_texts(path: str) -> None:
    """Raise if any part of a text cannot be read."""
    for source in parts_of(path).values():
        read_texts(TextSource(path=source.path, split=source.split, streaming=True))


def training_texts(path: str) -> Iterator[str]:
    """The texts of the training part, for a tokenizer to learn from."""
    source = parts_of(path)["train"]
    rows: Iterable[dict[str, str]] = read_texts(TextSource(path=source.path, split=source.split, streaming=True))
    for row in rows:
        yield row["text"]


def content_hash(path: str) -> str | None:
    """A hash of the content of a file or folder, whatever its name; None for a data set on the hub."""
    if is_python(path):
        return standard_library().fingerprint()
    place = Path(path).expanduser()
    if not place.exists():
        return None
    digest = hashlib.sha256()
    for file in files_below(place) if place.is_dir() else [place]:
        digest.update(f"{file.relative_to(place).as_posix()} {file.stat().st_size}\n".encode())
        with open(file, "rb") as opened:
            while block := opened.read(BLOCK):
                digest.update(block)
    return digest.hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class TextParts(ABC):
    """Texts in parts that share none: to train a model from scratch, to train heads, and held out."""

    parts: dict[str, tuple[Any, ...]]

    @property
    @abstractmethod
    def description(self) -> str:
        """What the text is."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash, which differs between versions of Python."""

    def texts(self, part: str) -> Iterator[str]:
        return iter(self.parts[part])

    def windows(
        self, part: str, tokenizer: PreTrainedTokenizerBase, *, length: int, tokens: int, per_file: int
    ) -> tuple[Windows, int]:
        """Windows of at least `tokens` tokens in all, and the number of texts that they come from.

        At most `per_file` windows come from the middle of a text: files begin with what they are about and end with
        what tests them. No window has words of two texts.
        """
        chunks: list[np.ndarray] = []
        wanted = -(-tokens // length)
        num_windows = num_texts = 0
        for text in self.texts(part):
            if num_windows >= wanted:
                break
            ids = tokens_of([{"text": text}], tokenizer)
            count = min(per_file, len(ids) // length, wanted - num_windows)
            start = (len(ids) - count * length) // 2
            chunks.append(ids[start : start + count * length])
            num_windows, num_texts = num_windows + count, num_texts + bool(count)
        if num_windows < wanted:
            raise ValueError(
                f"{self.description} has {num_windows * length:,} tokens for the part {part!r}, and {tokens:,} are "
                "needed. Is it complete? Use a Python that was installed with its source."
            )
        return Windows(np.concatenate(chunks), length, whole=True), num_texts


LICENCE = "PSF License Agreement"
LIBRARY_PARTS = {"base": 115, "train": 230, "test": 256}  # a file belongs to the first part above its hash's first byte


@dataclass(frozen=True, kw_only=True)
class StandardLibrary(TextParts):
    """The source code of Python's standard library, which every machine has.

    Programs define names and use them again a few lines later, so the next token is often one of the context.
    """

    root: Path
    parts: dict[str, tuple[Path, ...]]

    @property
    def description(self) -> str:
        return f"the standard library of Python {platform.python_version()}"

    def fingerprint(self) -> str:
        paths = (path for part in self.parts.values() for path in part)
        lines = sorted(f"{path.relative_to(self.root)} {path.stat().st_size}" for path in paths)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def texts(self, part: str) -> Iterator[str]:
        return map(read, self.parts[part])


def standard_library(root: Path | None = None) -> StandardLibrary:
    """The library of the running Python, or of another `root`. The part of a file depends on its name alone."""
    root = library_root() if root is None else root
    parts: dict[str, list[tuple[bytes, Path]]] = {part: [] for part in LIBRARY_PARTS}
    for key, path in library_files(root):
        parts[next(part for part, limit in LIBRARY_PARTS.items() if key[0] < limit)].append((key[1:], path))
    return StandardLibrary(
        root=root, parts={part: tuple(path for _, path in sorted(files)) for part, files in parts.items()}
    )


COMPARED_PARTS = {"train": "train", "valid": "base", "test": "test"}  # no model is trained from scratch here
WINDOWS_PER_FILE = 2  # maximum: many files say more than long ones
FRACTIONS = (0.8, 0.1, 0.1)  # of a text without parts of its own


def read_windows(
    data: str, tokenizer: PreTrainedTokenizerBase, length: int, tokens: dict[str, int]
) -> dict[str, Windows]:
    """Windows of each part of a text, with at least so many tokens."""
    if is_python(data):
        library, options = standard_library(), {"length": length, "per_file": WINDOWS_PER_FILE}
        return {
            part: library.windows(COMPARED_PARTS[part], tokenizer, tokens=count, **options)[0]
            for part, count in tokens.items()
        }
    corpus = Corpus.read(data, tokenizer, FRACTIONS)
    return {part: spread_windows(getattr(corpus, part), length, count, part) for part, count in tokens.items()}


def spread_windows(tokens: np.ndarray, length: int, wanted: int, part: str) -> Windows:
    """Whole windows at equal distances: the first ones of a text would come from one or two articles."""
    available, count = len(tokens) // length, -(-wanted // length)
    if available < count:
        raise ValueError(
            f"the part {part!r} of the text has {len(tokens):,} tokens, and {count * length:,} are wanted. Give more "
            "text, or ask for fewer tokens."
        )
    starts = [index * available // count * length for index in range(count)]
    return Windows(np.concatenate([tokens[start : start + length] for start in starts]), length, whole=True)


HELD_OUT_SHARE = 0.02  # of the training part, for each part that a corpus does not have


@dataclass(frozen=True)
class PairCorpus:
    """Pairs of document and summary, to train on, to choose settings with, and to test with; columns are id, document
    and summary."""

    train: datasets.Dataset
    valid: datasets.Dataset
    test: datasets.Dataset

    @staticmethod
    def read(path: str) -> PairCorpus:
        """Read pairs. A folder with files train.*, valid.*, test.* has its own parts, as has a data set on the hub;
        parts that are missing are cut off the end of the training part."""
        if path == SAMPLE and not Path(path).exists():
            rows = datasets.Dataset.from_list([{"id": str(n), **pair} for n, pair in enumerate(sample_pairs())])
            return PairCorpus(rows.select(range(12, len(rows))), rows.select(range(8, 12)), rows.select(range(8)))
        found = {part: read_pairs(_pair_source(path, source)) for part, source in parts_of(path, names=NAMED).items()}
        train = found["train"]
        for part in ("test", "valid"):
            if part not in found:
                train, found[part] = _cut(train, round(len(found["train"]) * HELD_OUT_SHARE), path)
        return PairCorpus(train, found["valid"], found["test"])

    def training_texts(self) -> Iterator[str]:
        """The texts of the training part, for a tokenizer to learn from."""
        for row in self.train:
            yield row["document"]
            yield row["summary"]


def _cut(pairs: datasets.Dataset, count: int, path: str) -> tuple[datasets.Dataset, datasets.Dataset]:
    """All pairs but the last `count`, and those."""
    start = len(pairs) - count
    if not 0 < start < len(pairs):
        raise ValueError(f"{path}: {len(pairs)} pairs are too few to hold out {HELD_OUT_SHARE:.0%}.")
    return pairs.select(range(start)), pairs.select(range(start, len(pairs)))


def _pair_source(path: str, part: Part) -> PairSource:
    """A folder that is named after a known data set has its columns."""
    named = NAMED.get(Path(path).name)
    columns = {} if named is None else {"text_column": named.text_column, "summary_column": named.summary_column}
    return PairSource(path=part.path, split=part.split, **columns)


class Sentences(Dataset):
    """Short texts to train on, each a row of its own: {"input_ids", "labels"}. No text is the context of another.

    A text may come as two parts, of which only the second has labels.
    """

    def __init__(self, texts: Sequence[str | tuple[str, str]], tokenizer: PreTrainedTokenizerBase) -> None:
        parts = [("", text) if isinstance(text, str) else text for text in texts]
        self.texts = ["".join(both) for both in parts]

        def tokens(number: int) -> list[list[int]]:
            texts = [both[number] for both in parts]
            ids: list[list[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
            return ids

        rows = [*zip(tokens(0), tokens(1), strict=True)]
        self.rows = [torch.tensor([*read, *learnt]) for read, learnt in rows]
        self.labels = [torch.tensor([*[IGNORED] * len(read), *learnt]) for read, learnt in rows]
        self.length = max(map(len, self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index], "labels": self.labels[index]}

    def fingerprint(self) -> str:
        whole = "\n".join(self.texts) + "".join(f" {(labels == IGNORED).sum()}" for labels in self.labels)
        return hashlib.sha256(whole.encode()).hexdigest()


IGNORED = -100  # a label without a loss
END = "<|endoftext|>"
PADDING, START, STOP = "<pad>", "<s>", "</s>"


def train_tokenizer(texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer for a causal model, as GPT-2's. The same texts give the same tokenizer."""
    tokenizer = _train_bpe(texts, size, [END])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END, pad_token=END)


def train_pair_tokenizer(texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """The same for an encoder-decoder model: a text ends with </s>, and padding is a token of its own."""
    tokenizer = _train_bpe(texts, size, [PADDING, START, STOP])
    stop = (STOP, tokenizer.token_to_id(STOP))
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {STOP}", special_tokens=[stop])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=START, eos_token=STOP, pad_token=PADDING)


def _train_bpe(texts: Iterable[str], size: int, special: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
