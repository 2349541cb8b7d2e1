"""AnyLab: the folder in which experiments share a tokenizer, backbones and trained models. Everything is made once.

Lab: where language models are trained.

SummaryLab: where encoder-decoder models are trained on documents and summaries.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
)
from transformers.utils import logging

from unbottle.data import Pairs, Windows
from unbottle.eval.inference import best_device
from unbottle.experiments.corpora import (
    Corpus,
    PairCorpus,
    check_texts,
    content_of,
    train_pair_tokenizer,
    train_tokenizer,
    training_texts,
)
from unbottle.experiments.presets import PRESETS, SUMMARY_PRESETS, Backbone
from unbottle.experiments.row_spec import Variant
from unbottle.files import explain_full_disk, file_lock, read_json, write_json
from unbottle.hf.pretrained import NO_CODE, SAFE, prefix_of
from unbottle.hub_access import quick_hub
from unbottle.progress import Progress
from unbottle.train import train_lm, train_summarize

CONTENT = "content"  # of the text
SETTINGS = "lab.json"


def silent(done: float, total: float, text: str) -> None:
    """Nobody watches."""


class AnyLab(ABC):
    """What is in the folder already is not made again; a folder of other settings is refused.

    Several processes may work in one folder: what one of them makes, the others wait for.
    """

    presets: ClassVar[Mapping[str, Any]]  # by name
    models: ClassVar[Any]  # the Auto class that loads them
    form: ClassVar[str] = "paper"  # of heads: these experiments are the paper's

    def __init__(
        self, folder: Path, preset: Any, data: str, *, report: Progress = silent, threads: int | None = None
    ) -> None:
        self.folder, self.preset, self.data, self.report = folder, preset, data, report
        if threads is not None:
            torch.set_num_threads(threads)
        logging.disable_progress_bar()  # there is a bar already
        self._refuse_other(self.settings)
        self.check_data()  # before anything is written
        folder.mkdir(parents=True, exist_ok=True)
        with file_lock(folder / ".lab.lock"):
            self._same_as_before(self.settings)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What everything in the folder depends on: the preset, and the text by its name and its content."""
        content = content_of(self.data)
        return {"preset": self.preset.to_dict(), "data": Path(self.data).name} | ({CONTENT: content} if content else {})

    @classmethod
    def suffix(cls, data: str) -> str:
        """What tells folders of these data from folders of others. Experiments on one text need none."""
        return ""

    @abstractmethod
    def check_data(self) -> None:
        """Read the data, and refuse what can not be read."""

    @abstractmethod
    def make_tokenizer(self, size: int) -> Any:
        """One that learnt from the training data."""

    @abstractmethod
    def make_model(self, backbone: Backbone, tokenizer: Any) -> Any:
        """With random weights."""

    @abstractmethod
    def base_data(self, size: str) -> Any:
        """What a backbone is trained on."""

    @abstractmethod
    def fit(self, model: Any, data: Any, settings: Any, *, report: Progress, tokenizer: Any) -> None:
        """Train a model in the folder that the settings name."""

    def tokenizer_of(self, size: str) -> Any:
        """The backbone's own, or one that is trained on the data."""
        pretrained = self.preset.backbones[size].pretrained
        if pretrained is not None:
            with quick_hub(pretrained):
                return AutoTokenizer.from_pretrained(pretrained, **NO_CODE)
        folder = self.folder / "tokenizer"
        with file_lock(self.folder / ".tokenizer.lock"), explain_full_disk(self.folder):
            if not folder.exists():
                assert self.preset.vocabulary is not None, "a backbone without a tokenizer says how large its own is"
                self.report(0, 1, "training a tokenizer")
                self.make_tokenizer(self.preset.vocabulary).save_pretrained(folder.with_suffix(".part"))
                os.replace(folder.with_suffix(".part"), folder)
        return AutoTokenizer.from_pretrained(folder, **NO_CODE)

    def base(self, size: str) -> Path | str:
        """A plain model: the name of a pretrained one, or the folder of one that is trained here, if need be."""
        backbone, settings = self.preset.backbones[size], self.preset.base
        if backbone.pretrained is not None:
            return str(backbone.pretrained)
        assert settings is not None, "a backbone that is not pretrained has to be trained"

        def fresh() -> Any:
            torch.manual_seed(0)
            return self.make_model(backbone, self.tokenizer_of(size))

        return self._trained(self.folder / "base" / size, fresh, lambda: self.base_data(size), settings, size)

    def row(self, data: Callable[[], Any], settings: Any, method: str, seed: int, name: str, size: str) -> Path:
        """The folder of a model: the backbone with this head, trained on these data, if need be."""
        variant = Variant.parse(method)
        run = self.folder / name / size / f"{variant.folder}-{seed}"
        settings = variant.settings(replace(settings, seed=seed, shuffle=True))
        return self._trained(run, lambda: self.with_head(variant, seed, size), data, settings, size)

    def with_head(self, variant: Variant, seed: int, size: str) -> Any:
        """The backbone with a new head, which predicts what the backbone predicted."""
        base = self.base(size)
        with quick_hub(base):
            model = self.models.from_pretrained(base, **SAFE)
        torch.manual_seed(seed)
        return variant.attached(model, form=self.form)

    @classmethod
    def load(cls, path: Path | str) -> Any:
        return cls.models.from_pretrained(path, **SAFE).eval()

    def _trained(self, run: Path, model: Callable[[], Any], data: Callable[[], Any], settings: Any, size: str) -> Path:
        def report(done: float, total: float, text: str) -> None:
            self.report(done, total, f"{title}: {text}")

        with file_lock(run.with_name(f".{run.name}.lock")):
            if not (run / "model").exists():
                made = model()
                head = getattr(made, "head", None)
                title = f"the backbone {size}" if head is None else f"{size}, {head.config.method.title}"
                settings = replace(settings, output=str(run))
                self.fit(made, data(), settings, report=report, tokenizer=self.tokenizer_of(size))
        return run / "model"

    def _same_as_before(self, settings: dict[str, Any]) -> None:
        self._refuse_other(settings)
        if not self._holds_work():  # of folders from before contents were known, what they know stays
            write_json(self.folder / SETTINGS, settings)

    def _refuse_other(self, settings: dict[str, Any]) -> None:
        path = self.folder / SETTINGS
        if path.exists() and not same_settings(read_json(path), settings) and self._holds_work():
            raise ValueError(
                f"{self.folder}: made with another preset or text (see lab.json). Choose another --work folder."
            )

    def _holds_work(self) -> bool:
        """Whether anything was made here: a run that failed at once does not claim the folder for its settings."""
        files = (path for path in self.folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        return any(path.name != SETTINGS for path in files)


def same_settings(stored: Any, settings: dict[str, Any]) -> bool:
    """Whether they are equal. Files from before contents were known know a text by its name only."""
    now = json.loads(json.dumps(settings))
    if isinstance(stored, dict) and CONTENT not in stored:
        now.pop(CONTENT, None)
    return bool(stored == now)


class Lab(AnyLab):
    """One text in three parts and one tokenizer for all backbones."""

    presets = PRESETS
    models = AutoModelForCausalLM

    @cached_property
    def tokenizer(self) -> Any:
        return self.tokenizer_of(next(iter(self.preset.backbones)))

    @cached_property
    def corpus(self) -> Corpus:
        self.report(0, 1, "reading the text")
        return Corpus.of(self.data, self.tokenizer)

    def check_data(self) -> None:
        self.report(0, 1, "reading the text")
        check_texts(self.data)

    def trained(self, method: str, seed: int, *, size: str, share: float = 1.0) -> Path:
        """The folder of a model: the backbone with this head, trained on the text that the backbone has not seen.

        `share` of the steps; the same data in the same order for every method.
        """
        settings = self.preset.rows
        if settings.max_steps is not None:
            settings = replace(settings, max_steps=max(1, round(settings.max_steps * share)))
        settings = replace(settings, epochs=settings.epochs * share)
        name = "rows" if share == 1 else f"rows-{share:g}"

        def windows() -> Windows:
            return Windows(self.corpus.train[self._base_tokens() :], settings.length, whole=True)

        return self.row(windows, settings, method, seed, name, size)

    def trained_on(self, data: Any, method: str, seed: int, name: str, *, size: str) -> Path:
        """The same on other data."""
        return self.row(lambda: data, self.preset.rows, method, seed, name, size)

    def windows(self, part: str, limit: int | None = None) -> Any:
        """Windows of a part of the text, as they are evaluated."""
        tokens = getattr(self.corpus, part)
        return Windows(tokens[:limit], self.preset.rows.length)

    def make_tokenizer(self, size: int) -> Any:
        return train_tokenizer(training_texts(self.data), size)

    def make_model(self, backbone: Backbone, tokenizer: Any) -> Any:
        end = tokenizer.eos_token_id
        return GPT2LMHeadModel(
            GPT2Config(vocab_size=len(tokenizer), bos_token_id=end, eos_token_id=end, **backbone.config)
        )

    def base_data(self, size: str) -> Any:
        return Windows(self.corpus.train[: self._base_tokens()], self.preset.base.length, whole=True)

    def fit(self, model: Any, data: Any, settings: Any, *, report: Progress, tokenizer: Any) -> None:
        train_lm(model, data, None, settings, report=report, tokenizer=tokenizer)

    def _base_tokens(self) -> int:
        return int(len(self.corpus.train) * self.preset.base_share)


class SummaryLab(AnyLab):
    """A folder for each data set: the paper has four of them."""

    presets = SUMMARY_PRESETS
    models = AutoModelForSeq2SeqLM

    @classmethod
    def suffix(cls, data: str) -> str:
        name = Path(data).name.replace(":", "-")
        return f"-{name}" if name else ""

    @cached_property
    def corpus(self) -> PairCorpus:
        self.report(0, 1, "reading documents and summaries")
        return PairCorpus.of(self.data)

    def check_data(self) -> None:
        _ = self.corpus  # kept: it is needed for every row

    def trained(self, method: str, seed: int, *, size: str) -> Path:
        """The folder of a model: the backbone with this head, trained on the pairs that the backbone has not seen.

        The same pairs in the same order for every method.
        """
        corpus = self.corpus
        settings = self.preset.rows_of(size, Path(self.data).name)
        rest = range(self._base_pairs(), len(corpus.train))
        return self.row(lambda: corpus.train.select(rest), settings, method, seed, "rows", size)

    def place(self, method: str, seed: int, *, size: str) -> Path:
        """The file of the summaries that a model writes."""
        return self.trained(method, seed, size=size).parent / "predictions.jsonl"

    def pairs(self, rows: Any, model: Any, tokenizer: Any) -> Any:
        """Rows as tokens, with what the model wants before a document."""
        lengths = {"source_length": self.preset.rows.source_length, "target_length": self.preset.rows.target_length}
        return Pairs(rows, tokenizer, **lengths, prefix=prefix_of(model))

    @classmethod
    def load(cls, path: Path | str) -> Any:
        return super().load(path).to(best_device())

    def make_tokenizer(self, size: int) -> Any:
        return train_pair_tokenizer(self.corpus.training_texts(), size)

    def make_model(self, backbone: Backbone, tokenizer: Any) -> Any:
        ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}
        config = AutoConfig.for_model(vocab_size=len(tokenizer), **ids, **backbone.config)
        return AutoModelForSeq2SeqLM.from_config(config)

    def base_data(self, size: str) -> Any:
        return self.corpus.train.select(range(self._base_pairs()))

    def fit(self, model: Any, data: Any, settings: Any, *, report: Progress, tokenizer: Any) -> None:
        train_summarize(model, self.pairs(data, model, tokenizer), None, settings, report=report, tokenizer=tokenizer)

    def _base_pairs(self) -> int:
        return int(len(self.corpus.train) * self.preset.base_share)
