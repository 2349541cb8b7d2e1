"""Lab: the folder in which experiments share a tokenizer, backbones and trained models. Everything is made once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from unbottle.data import Windows
from unbottle.hf import attach
from unbottle.hf.reach import quick_hub
from unbottle.recipes.corpus import Corpus, training_texts
from unbottle.recipes.preset import Backbone, Preset
from unbottle.recipes.tokenizer import train_tokenizer
from unbottle.spec import Method
from unbottle.train import Settings, train_lm

Report = Callable[[float, float, str], None]


def silent(done: float, total: float, text: str) -> None:
    """Nobody watches."""


class Lab:
    """What is in the folder already is not made again; a folder of other settings is refused."""

    def __init__(
        self, folder: Path, preset: Preset, data: str, *, report: Report = silent, threads: int | None = None
    ) -> None:
        self.folder, self.preset, self.data, self.report = folder, preset, data, report
        if threads is not None:
            torch.set_num_threads(threads)
        logging.disable_progress_bar()  # there is a bar already
        folder.mkdir(parents=True, exist_ok=True)
        self._same_as_before({"preset": preset.to_dict(), "data": Path(data).name})

    @cached_property
    def tokenizer(self) -> Any:
        """The backbone's own, or one that is trained on the text."""
        pretrained = next(iter(self.preset.backbones.values())).pretrained
        if pretrained is not None:
            with quick_hub(pretrained):
                return AutoTokenizer.from_pretrained(pretrained)
        folder = self.folder / "tokenizer"
        if not folder.exists():
            assert self.preset.vocabulary is not None, "a backbone without a tokenizer says how large its own is"
            self.report(0, 1, "training a tokenizer")
            made = train_tokenizer(training_texts(self.data), self.preset.vocabulary)
            made.save_pretrained(folder.with_suffix(".part"))
            os.replace(folder.with_suffix(".part"), folder)
        return AutoTokenizer.from_pretrained(folder)

    @cached_property
    def corpus(self) -> Corpus:
        self.report(0, 1, "reading the text")
        return Corpus.of(self.data, self.tokenizer)

    def base(self, size: str) -> Path | str:
        """A plain model: the name of a pretrained one, or the folder of one that is trained here, if need be."""
        backbone, settings = self.preset.backbones[size], self.preset.base
        if backbone.pretrained is not None:
            return backbone.pretrained
        assert settings is not None, "a backbone that is not pretrained has to be trained"
        run = self.folder / "base" / size
        if not (run / "model").exists():
            first = Windows(self.corpus.train[: self._base_tokens()], settings.length, whole=True)
            self._train(self._fresh(backbone), first, replace(settings, output=str(run)), f"the backbone {size}")
        return run / "model"

    def trained(self, method: str, seed: int, *, size: str, share: float = 1.0) -> Path:
        """The folder of a model: the backbone with this head, trained on the text that the backbone has not seen.

        `share` of the steps; the same data in the same order for every method.
        """
        settings = self.preset.rows
        if settings.max_steps is not None:
            settings = replace(settings, max_steps=max(1, round(settings.max_steps * share)))
        settings = replace(settings, epochs=settings.epochs * share)
        tokens = self.corpus.train[self._base_tokens() :]
        name = "rows" if share == 1 else f"rows-{share:g}"
        return self._row(Windows(tokens, settings.length, whole=True), settings, method, seed, name, size)

    def trained_on(self, data: Any, method: str, seed: int, name: str, *, size: str) -> Path:
        """The same on other data."""
        return self._row(data, self.preset.rows, method, seed, name, size)

    def windows(self, part: str, limit: int | None = None) -> Any:
        """Windows of a part of the text, as they are evaluated."""
        tokens = getattr(self.corpus, part)
        return Windows(tokens[:limit], self.preset.rows.length)

    @staticmethod
    def load(path: Path) -> Any:
        return AutoModelForCausalLM.from_pretrained(path).eval()

    def _with_head(self, method: str, seed: int, size: str) -> Any:
        base = self.base(size)
        with quick_hub(base):
            model = AutoModelForCausalLM.from_pretrained(base)
        torch.manual_seed(seed)
        return attach(model, method)

    def _fresh(self, backbone: Backbone) -> Any:
        torch.manual_seed(0)
        end = self.tokenizer.eos_token_id
        config = GPT2Config(vocab_size=len(self.tokenizer), bos_token_id=end, eos_token_id=end, **backbone.config)
        return GPT2LMHeadModel(config)

    def _row(self, data: Any, settings: Settings, method: str, seed: int, name: str, size: str) -> Path:
        run = self.folder / name / size / f"{_name(method)}-{seed}"
        if not (run / "model").exists():
            settings = replace(settings, output=str(run), seed=seed, shuffle=True)
            self._train(self._with_head(method, seed, size), data, settings, Method.parse(method).title)
        return run / "model"

    def _train(self, model: Any, data: Any, settings: Settings, title: str) -> None:
        def report(done: float, total: float, text: str) -> None:
            self.report(done, total, f"{title}: {text}")

        train_lm(model, data, None, settings, report=report, tokenizer=self.tokenizer)

    def _base_tokens(self) -> int:
        return int(len(self.corpus.train) * self.preset.base_share)

    def _same_as_before(self, settings: dict[str, Any]) -> None:
        path, settings = self.folder / "lab.json", json.loads(json.dumps(settings))
        if not path.exists():
            path.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
        elif json.loads(path.read_text(encoding="utf-8")) != settings:
            raise ValueError(
                f"{self.folder}: made with another preset or text (see lab.json). Choose another --work folder."
            )


def _name(method: str) -> str:
    """A method as the name of a folder."""
    return str(Method.parse(method)).replace(":", "").replace(",", "-")
