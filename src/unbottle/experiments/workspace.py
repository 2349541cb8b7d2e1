"""Workspaces: folders in which experiments train a tokenizer, backbones and rows, each of them once.

Files that exist are reused, so an interrupted experiment resumes. Several processes may share a folder: they wait for
what another process is already making. A folder that was made with other settings is refused.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, TypeAlias, TypeVar, cast

import datasets
import torch
from torch.utils.data import Dataset
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from unbottle.data import Pairs, Windows
from unbottle.eval.inference import best_device
from unbottle.eval.proper_nouns import Tagger, tagger
from unbottle.experiments.corpora import (
    Corpus,
    PairCorpus,
    check_texts,
    content_hash,
    train_pair_tokenizer,
    train_tokenizer,
    training_texts,
)
from unbottle.experiments.presets import (
    CONTENT,
    PRESETS,
    SUMMARY_PRESETS,
    Backbone,
    Json,
    LanguagePreset,
    Preset,
    SummaryPreset,
    same_settings,
)
from unbottle.experiments.row_spec import RowSpec
from unbottle.files import explain_full_disk, file_lock, read_json, write_json
from unbottle.hf.pretrained import NO_CODE, SAFE, prefix_of
from unbottle.hub_access import quick_hub
from unbottle.progress import Progress, portion, silent
from unbottle.train import Settings, SummarizeSettings, train_lm, train_summarize
from unbottle.train.divergence import DivergenceError
from unbottle.train.presets import RunSettings

Value = TypeVar("Value")
EvalWindows = Sequence[Mapping[str, torch.Tensor]]
Data: TypeAlias = "Dataset | datasets.Dataset"  # windows or sentences; pairs of document and summary


class Workspace(ABC):
    """What workspaces of all experiments have in common. `progress` is replaced for each row by the runner."""

    presets: ClassVar[Mapping[str, Preset]]  # by name
    auto_class: ClassVar[type[AutoModelForCausalLM | AutoModelForSeq2SeqLM]]
    settings_file: ClassVar[str] = "lab.json"
    preset: Preset
    tagger = "auto"  # of proper nouns: a name, as --tagger takes it

    def __init__(
        self, folder: Path, preset: Preset, data: str, *, progress: Progress = silent, threads: int | None = None
    ) -> None:
        self.folder, self.preset, self.data, self.progress = folder, preset, data, progress
        if threads is not None:
            torch.set_num_threads(threads)
        logging.disable_progress_bar()  # commands show their own
        self._refuse_other_settings()
        self.check_data()  # before anything is written
        folder.mkdir(parents=True, exist_ok=True)
        with file_lock(folder / ".lab.lock"):
            self._refuse_other_settings()
            if not (folder / self.settings_file).exists() or not self._holds_work():
                write_json(folder / self.settings_file, self.settings)

    # -- settings

    @cached_property
    def settings(self) -> Json:
        """What results depend on: the preset, and the name and hash of the data."""
        content = content_hash(self.data)
        return {"preset": self.preset.to_dict(), "data": Path(self.data).name} | ({CONTENT: content} if content else {})

    @classmethod
    def suffix(cls, data: str) -> str:
        """What folders of these data are called beside the name of the experiment; empty if there is one data set."""
        return ""

    def _refuse_other_settings(self) -> None:
        path = self.folder / self.settings_file
        if path.exists() and not same_settings(read_json(path), self.settings) and self._holds_work():
            raise ValueError(self.refusal)

    @property
    def refusal(self) -> str:
        return (
            f"{self.folder}: made with another preset or text (see {self.settings_file}). Choose another --work folder."
        )

    def _holds_work(self) -> bool:
        """Whether anything was trained here: a run that failed at once does not claim the folder."""
        files = (path for path in self.folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        return any(path.name != self.settings_file for path in files)

    # -- what kinds of models differ in

    @abstractmethod
    def check_data(self) -> None:
        """Raise if the data cannot be read."""

    @abstractmethod
    def make_tokenizer(self, size: int) -> PreTrainedTokenizerBase:
        """Train a tokenizer on the training data."""

    @abstractmethod
    def make_model(self, backbone: Backbone, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
        """A backbone with random weights."""

    @abstractmethod
    def base_data(self, size: str) -> Data:
        """The data that a backbone without pretrained weights is trained on."""

    @abstractmethod
    def fit(self, model: PreTrainedModel, data: Data, settings: RunSettings, size: str, progress: Progress) -> None:
        """Train a model in the folder `settings.output`."""

    # -- where things are

    @property
    def tokenizer_folder(self) -> Path:
        return self.folder / "tokenizer"

    def base_folder(self, size: str) -> Path:
        return self.folder / "base" / size

    def row_folder(self, spec: RowSpec, seed: int, size: str, group: str) -> Path:
        return self.folder / group / size / f"{spec.folder_name}-{seed}"

    # -- models

    def tokenizer_of(self, size: str) -> PreTrainedTokenizerBase:
        """The tokenizer of a pretrained backbone, or the one of this workspace, which is trained if need be."""
        pretrained = self.preset.backbones[size].pretrained
        if pretrained is not None:
            with quick_hub(pretrained):
                return load_tokenizer(pretrained)
        folder = self.tokenizer_folder
        with file_lock(self.folder / ".tokenizer.lock"), explain_full_disk(self.folder):
            if not folder.exists():
                assert self.preset.vocabulary is not None, "the preset of a backbone to train has a vocabulary size"
                self.progress(0, 1, "training a tokenizer")
                self.make_tokenizer(self.preset.vocabulary).save_pretrained(folder.with_suffix(".part"))
                os.replace(folder.with_suffix(".part"), folder)
        return load_tokenizer(folder)

    def base(self, size: str) -> Path | str:
        """The backbone: the name of a pretrained one, or the folder of the one trained here, if need be."""
        backbone, settings = self.preset.backbones[size], self.preset.base
        if backbone.pretrained is not None:
            return backbone.pretrained
        assert settings is not None, "the preset of a backbone to train has settings for it"

        def make_model() -> PreTrainedModel:
            torch.manual_seed(0)
            return self.make_model(backbone, self.tokenizer_of(size))

        try:
            return self._train_once(self.base_folder(size), make_model, lambda: self.base_data(size), settings, size)
        except DivergenceError as error:  # a backbone is no row
            raise ValueError(f"backbone {size}: {error}") from error

    def train_row(
        self,
        method: str,
        seed: int,
        size: str,
        *,
        data: Callable[[], Data],
        settings: RunSettings,
        group: str = "rows",
        freeze_output: bool = False,
    ) -> Path:
        """Train the backbone with the head of a row, unless that is done already. Returns the folder of the model.

        `freeze_output` keeps the output embeddings as they are, and the input embeddings where they are the same.
        """
        spec = RowSpec.parse(method)
        settings = spec.training_settings(replace(settings, seed=seed, shuffle=True))
        folder = self.row_folder(spec, seed, size, group)

        def make_model() -> PreTrainedModel:
            model = self.with_new_head(spec, seed, size)
            model.get_output_embeddings().requires_grad_(not freeze_output)
            return model

        return self._train_once(folder, make_model, data, settings, size)

    def with_new_head(self, spec: RowSpec, seed: int, size: str) -> PreTrainedModel:
        """The backbone with a new head, which predicts what the backbone predicts unless its gate starts elsewhere."""
        base = self.base(size)
        with quick_hub(base):
            model = self.auto_class.from_pretrained(base, **SAFE)
        torch.manual_seed(seed)
        return spec.attach_head(model, form=self.preset.form, gate_starts=self.preset.gate_starts.get(size))

    @classmethod
    def load(cls, path: Path | str) -> PreTrainedModel:
        """A saved model, in evaluation mode, on the GPU if there is one."""
        model: PreTrainedModel = cls.auto_class.from_pretrained(path, **SAFE).eval().to(best_device())
        return model

    @cached_property
    def name_tagger(self) -> Tagger:
        """The tagger, which reads the texts of all rows."""
        return tagger(self.tagger)

    def labelled(self, what: str) -> Progress:
        """The progress of one of the things that are done for a row."""
        return lambda done, total, text: self.progress(done, total, f"{what}, {text}")

    @contextmanager
    def phase(self, start: float, end: float) -> Iterator[None]:
        """In this block, the progress is of a part of the row, from 0 to 1."""
        outer = self.progress
        self.progress = portion(outer, start, end - start, 1.0)
        try:
            yield
        finally:
            self.progress = outer

    def cached(self, name: str, compute: Callable[[], Value]) -> Value:
        """What `compute` returns, which is stored in found/NAME.json and computed once."""
        path = self.folder / "found" / f"{name}.json"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            write_json(path, compute())
        value: Value = read_json(path)
        return value

    def _train_once(
        self,
        folder: Path,
        make_model: Callable[[], PreTrainedModel],
        data: Callable[[], Data],
        settings: RunSettings,
        size: str,
    ) -> Path:
        with file_lock(folder.with_name(f".{folder.name}.lock")):
            if not (folder / "model").exists():
                model = make_model()
                what = "training" if hasattr(model, "head") else f"training the backbone ({size})"
                self.fit(model, data(), replace(settings, output=str(folder)), size, self.labelled(what))
        return folder / "model"


def load_tokenizer(path: Path | str) -> PreTrainedTokenizerBase:
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(path, **NO_CODE)
    return tokenizer


class CausalWorkspace(Workspace):
    """Causal language models and a text, with one tokenizer for all backbones."""

    auto_class = AutoModelForCausalLM

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return self.tokenizer_of(next(iter(self.preset.backbones)))

    def check_data(self) -> None:
        self.progress(0, 1, "reading the text")
        check_texts(self.data)

    def make_tokenizer(self, size: int) -> PreTrainedTokenizerBase:
        return train_tokenizer(training_texts(self.data), size)

    def make_model(self, backbone: Backbone, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
        end = tokenizer.eos_token_id
        return GPT2LMHeadModel(
            GPT2Config(vocab_size=len(tokenizer), bos_token_id=end, eos_token_id=end, **backbone.config)
        )

    def fit(self, model: PreTrainedModel, data: Data, settings: RunSettings, size: str, progress: Progress) -> None:
        assert isinstance(settings, Settings)
        train_lm(model, data, None, settings, report=progress, tokenizer=self.tokenizer_of(size))


class LanguageWorkspace(CausalWorkspace):
    """Language models of the paper's tables. A backbone is trained on the first part of the text, rows on the rest."""

    presets = PRESETS
    preset: LanguagePreset

    @cached_property
    def corpus(self) -> Corpus:
        self.progress(0, 1, "reading the text")
        return Corpus.read(self.data, self.tokenizer, folder=self.folder / "tokens")

    def base_data(self, size: str) -> Windows:
        assert self.preset.base is not None
        return Windows(self.corpus.train[: self._base_tokens()], self.preset.base.length, whole=True)

    def trained_model(self, method: str, seed: int, size: str, *, share: float = 1.0) -> Path:
        """The folder of a trained row; `share` is that of the training steps.

        Every method sees the same windows in the same order.
        """
        settings = self.preset.row_settings(size)
        if settings.max_steps is not None:
            settings = replace(settings, max_steps=max(1, round(settings.max_steps * share)))
        settings = replace(settings, epochs=settings.epochs * share)
        group = "rows" if share == 1 else f"rows-{share:g}"

        def windows() -> Windows:
            return Windows(self.corpus.train[self._base_tokens() :], settings.length, whole=True)

        return self.train_row(method, seed, size, data=windows, settings=settings, group=group)

    def windows(self, part: str, limit: int | None = None) -> EvalWindows:
        """Windows of a part of the text, for evaluation."""
        return cast(EvalWindows, Windows(getattr(self.corpus, part)[:limit], self.preset.rows.length))

    def _base_tokens(self) -> int:
        return int(len(self.corpus.train) * self.preset.base_share)


class SummaryWorkspace(Workspace):
    """Encoder-decoder models, and pairs of document and summary. Each data set has a folder of its own."""

    presets = SUMMARY_PRESETS
    auto_class = AutoModelForSeq2SeqLM
    preset: SummaryPreset

    @classmethod
    def suffix(cls, data: str) -> str:
        name = Path(data).name.replace(":", "-")
        return f"-{name}" if name else ""

    @cached_property
    def corpus(self) -> PairCorpus:
        self.progress(0, 1, "reading documents and summaries")
        return PairCorpus.read(self.data)

    def check_data(self) -> None:
        _ = self.corpus  # kept: every row needs it

    def make_tokenizer(self, size: int) -> PreTrainedTokenizerBase:
        return train_pair_tokenizer(self.corpus.training_texts(), size)

    def make_model(self, backbone: Backbone, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
        ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}
        config = AutoConfig.for_model(vocab_size=len(tokenizer), **ids, **backbone.config)
        model: PreTrainedModel = AutoModelForSeq2SeqLM.from_config(config)
        return model

    def base_data(self, size: str) -> datasets.Dataset:
        return self.corpus.train.select(range(self._base_pairs()))

    def fit(self, model: PreTrainedModel, data: Data, settings: RunSettings, size: str, progress: Progress) -> None:
        assert isinstance(settings, SummarizeSettings)
        assert isinstance(data, datasets.Dataset)
        tokenizer = self.tokenizer_of(size)
        pairs = self.tokenized_pairs(data, model, tokenizer)
        train_summarize(model, pairs, None, settings, report=progress, tokenizer=tokenizer)

    def trained_model(self, method: str, seed: int, size: str) -> Path:
        """The folder of a trained row. Every method sees the same pairs in the same order."""
        rest = range(self._base_pairs(), len(self.corpus.train))
        settings = self.preset.row_settings(size, Path(self.data).name)
        return self.train_row(method, seed, size, data=lambda: self.corpus.train.select(rest), settings=settings)

    def predictions_file(self, method: str, seed: int, size: str) -> Path:
        """The file for the summaries that a trained row generates."""
        return self.trained_model(method, seed, size).parent / "predictions.jsonl"

    def tokenized_pairs(
        self, rows: datasets.Dataset, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> Pairs:
        """Pairs as token ids, with the prefix that documents have when summaries are generated."""
        settings = self.preset.rows
        return Pairs(
            rows,
            tokenizer,
            source_length=settings.source_length,
            target_length=settings.target_length,
            prefix=prefix_of(model) if self.preset.decoding.prefix is None else self.preset.decoding.prefix,
        )

    def _base_pairs(self) -> int:
        return int(len(self.corpus.train) * self.preset.base_share)
