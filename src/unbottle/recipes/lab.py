"""Lab: where language models are trained."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from unbottle.data import Windows
from unbottle.recipes.any_lab import AnyLab, Report
from unbottle.recipes.any_preset import Backbone
from unbottle.recipes.corpus import Corpus, check_texts, training_texts
from unbottle.recipes.preset import PRESETS
from unbottle.recipes.tokenizer import train_tokenizer
from unbottle.train import train_lm


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

    def fit(self, model: Any, data: Any, settings: Any, *, report: Report, tokenizer: Any) -> None:
        train_lm(model, data, None, settings, report=report, tokenizer=tokenizer)

    def _base_tokens(self) -> int:
        return int(len(self.corpus.train) * self.preset.base_share)
