"""Workshop: the folder of a demo, with everything that its steps share. What is there is not made again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from unbottle.data import Windows
from unbottle.hf import attach
from unbottle.hf.safe import NO_CODE, SAFE
from unbottle.recipes.demo.plan import BEFORE, METHODS, SOFTMAX, Plan
from unbottle.recipes.demo.pretrained import place
from unbottle.recipes.demo.source_code import Code
from unbottle.recipes.demo.steps import Report
from unbottle.recipes.demo.wheel import Wheel
from unbottle.train import Settings
from unbottle.train.files import read_json, write_json
from unbottle.train.head_alone import StoredWindows, stored

RECORD = "demo.json"


class Workshop:
    """Refuses a folder of another plan or another text."""

    def __init__(self, folder: Path, plan: Plan, code: Code, cache: Path) -> None:
        self.folder, self.plan, self.code, self.cache = folder, plan, code, cache
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "found").mkdir(exist_ok=True)
        self._same_as_before({"plan": plan.identity(), "text": code.fingerprint()})

    # -- where things are

    @property
    def base(self) -> Path:
        """The plain model."""
        model = self.plan.model
        return place(model, self.cache) if isinstance(model, Wheel) else self.folder / "base" / "model"

    def run(self, name: str, seed: int) -> Path:
        """The folder in which a head is trained; that of the first seed is for people."""
        return self.folder / name if seed == 0 else self.folder / "seeds" / f"{name}-{seed}"

    def file(self, name: str) -> Path:
        """What a step found."""
        return self.folder / "found" / f"{name}.json"

    def found(self, name: str) -> Any:
        return read_json(self.file(name))

    def keep(self, name: str, found: Any) -> None:
        write_json(self.file(name), found)

    # -- text

    @cached_property
    def tokenizer(self) -> Any:
        return AutoTokenizer.from_pretrained(self.base, **NO_CODE)

    @cached_property
    def windows(self) -> dict[str, tuple[Windows, int]]:
        """To train heads on, and held out; with the number of files of each."""
        sizes = {"train": self.plan.train_tokens, "test": self.plan.test_tokens}
        length, each = self.plan.heads.length, self.plan.each
        return {
            part: self.code.windows(part, self.tokenizer, length=length, tokens=tokens, each=each)
            for part, tokens in sizes.items()
        }

    def stored(self, model: Any, part: str, report: Report) -> StoredWindows:
        """The windows of a part with the hidden states of the frozen model, which reads them now if it has not yet."""
        return stored(model, self.windows[part][0], self.settings(SOFTMAX, 0), report)

    # -- models

    def settings(self, name: str, seed: int) -> Settings:
        states = str(self.folder / "states")
        return replace(self.plan.heads, output=str(self.run(name, seed)), seed=seed, states=states)

    def fresh(self, name: str, seed: int) -> Any:
        """The plain model with a new head, which predicts what the model predicted."""
        model = AutoModelForCausalLM.from_pretrained(self.base, **SAFE)
        torch.manual_seed(seed)
        return attach(model, METHODS[name], form=self.plan.form)

    @staticmethod
    def load(folder: Path) -> Any:
        return AutoModelForCausalLM.from_pretrained(folder, **SAFE).eval()

    def models(self) -> Mapping[str, Any]:
        """Before, and each head of the first seed after training."""
        return {BEFORE: self.load(self.base), **{name: self.load(self.run(name, 0) / "model") for name in METHODS}}

    def _same_as_before(self, settings: dict[str, Any]) -> None:
        path, settings = self.folder / RECORD, json.loads(json.dumps(settings))
        if not path.exists():
            write_json(path, settings)
        elif read_json(path) != settings:
            raise ValueError(
                f"{self.folder} holds a demo of another plan, version or Python (see {RECORD}). Give another --output, "
                "or delete the folder."
            )
