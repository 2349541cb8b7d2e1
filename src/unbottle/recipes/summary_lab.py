"""SummaryLab: where encoder-decoder models are trained on documents and summaries."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForSeq2SeqLM

from unbottle.data import Pairs
from unbottle.eval.device import best_device
from unbottle.hf.prefix import prefix_of
from unbottle.recipes.any_lab import AnyLab, Report
from unbottle.recipes.any_preset import Backbone
from unbottle.recipes.pair_corpus import PairCorpus
from unbottle.recipes.summary_preset import SUMMARY_PRESETS
from unbottle.recipes.tokenizer import train_pair_tokenizer
from unbottle.train import train_summarize


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

    def fit(self, model: Any, data: Any, settings: Any, *, report: Report, tokenizer: Any) -> None:
        train_summarize(model, self.pairs(data, model, tokenizer), None, settings, report=report, tokenizer=tokenizer)

    def _base_pairs(self) -> int:
        return int(len(self.corpus.train) * self.preset.base_share)
