"""Workshop: the folder of a demo, with everything that its steps share. What is there is not made again.

from_nothing: a tiny language model and its tokenizer, trained on the spot. No download.

The work of the demo, step by step. Each function leaves a file behind, or returns what goes into one.

result: what all steps found, as plain data for result.json, the terminal and the page.

demo: all steps in order, and everything they found as plain data.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from unbottle.bench.run import machine
from unbottle.data import Windows
from unbottle.eval import perplexity
from unbottle.eval.next_words import probe
from unbottle.eval.order_bias import order_bias
from unbottle.experiments.corpora import train_tokenizer
from unbottle.experiments.demo_model import Wheel, place, pretrained
from unbottle.experiments.demo_plan import (
    BEFORE,
    CPR,
    DEMO_PROMPTS,
    METHODS,
    SECONDS,
    SOFTMAX,
    FromNothing,
    K,
    Plan,
    Step,
    carry_out,
    part_of,
)
from unbottle.experiments.demo_report import cost, marked_text, verdict
from unbottle.experiments.demo_text import LICENCE, Code, code, description, texts
from unbottle.experiments.replay import ReadAlready
from unbottle.files import read_json, write_json
from unbottle.hf import attach
from unbottle.hf.pretrained import NO_CODE, SAFE
from unbottle.progress import Progress
from unbottle.train import Settings, train_lm
from unbottle.train.hidden_state_cache import WindowsWithStates, cache_hidden_states

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

    def cache_hidden_states(self, model: Any, part: str, report: Progress) -> WindowsWithStates:
        """The windows of a part with the hidden states of the frozen model, which reads them now if it has not yet."""
        return cache_hidden_states(model, self.windows[part][0], self.settings(SOFTMAX, 0), report)

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


def from_nothing(plan: FromNothing, code: Code, folder: Path, report: Progress) -> Path:
    """The folder of the model, which learned from files that nothing else here is trained or tested on."""
    spelling = folder / "tokenizer"
    if not spelling.exists():
        report(0, 1, "a tokenizer")
        temporary = folder / ".tokenizer.writing"
        shutil.rmtree(temporary, ignore_errors=True)
        train_tokenizer(texts(code.parts["base"]), plan.vocabulary).save_pretrained(temporary)
        os.replace(temporary, spelling)
    tokenizer = AutoTokenizer.from_pretrained(spelling, **NO_CODE)
    windows, _ = code.windows("base", tokenizer, length=plan.settings.length, tokens=plan.tokens, each=plan.each)
    torch.manual_seed(0)
    end = tokenizer.eos_token_id
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), bos_token_id=end, eos_token_id=end, **plan.config))
    train_lm(model, windows, None, replace(plan.settings, output=str(folder)), report=report, tokenizer=tokenizer)
    return folder / "model"


BATCH = 2  # windows that are evaluated at once: their logits fill 100 MB if there are 49,152 words


def make_base(shop: Workshop, report: Progress) -> None:
    model = shop.plan.model
    if isinstance(model, FromNothing):
        from_nothing(model, shop.code, shop.folder / "base", report)
    else:
        pretrained(model, shop.cache, report)


def read(shop: Workshop, report: Progress) -> dict[str, Any]:
    """What the frozen model says about all windows, for both heads and all seeds."""
    model = shop.fresh(SOFTMAX, 0)
    total = sum(len(windows) for windows, _ in shop.windows.values())
    before, found = 0, {}
    for name, (windows, files) in shop.windows.items():
        shop.cache_hidden_states(model, name, part_of(report, before, len(windows), total))
        found[name] = {"files": files, "tokens": len(windows) * windows.length, "windows": len(windows)}
        before += len(windows)
    return found | {"parameters": count(model) - count(model.head)}


def train(shop: Workshop, name: str, seed: int, report: Progress) -> None:
    """The same windows in the same order for both heads of a seed."""
    model, (windows, _) = shop.fresh(name, seed), shop.windows["train"]
    train_lm(model, windows, None, shop.settings(name, seed), report=report, tokenizer=shop.tokenizer)


def measure(shop: Workshop, name: str, seed: int, report: Progress) -> dict[str, Any]:
    """Perplexity of the held-out windows, from stored states. A fresh head predicts what the plain model does.

    W(k) is that of the plain model for all, so that their groups are the same tokens. Of the models of further seeds
    only the numbers are kept.
    """
    before = shop.fresh(SOFTMAX, 0)
    stored = shop.cache_hidden_states(before, "test", report)
    reader = ReadAlready(before, stored)
    if name == BEFORE:
        return perplexity(reader, stored.windows, k=K, batch=BATCH, report=report).to_dict()
    model = shop.load(shop.run(name, seed) / "model")
    found = perplexity(
        ReadAlready(model, stored), stored.windows, k=K, batch=BATCH, reference=reader, report=report
    ).to_dict()
    if seed > 0:
        shutil.rmtree(shop.run(name, seed))
    return found | {"head_parameters": count(model.head)}


def words(shop: Workshop, report: Progress) -> dict[str, Any]:
    return probe(shop.models(), shop.tokenizer, DEMO_PROMPTS).to_dict()


def order(shop: Workshop, report: Progress) -> dict[str, Any]:
    models, found = shop.models(), {}
    for number, (name, model) in enumerate(models.items()):
        inner = part_of(report, number, 1, len(models))
        found[name] = order_bias(model, shop.tokenizer, shuffles=shop.plan.shuffles, report=inner).to_dict()
    return found


def text(shop: Workshop, report: Progress) -> dict[str, Any]:
    """The held-out window whose gain is the middle one of all: nothing is picked because it looks good."""
    softmax, cpr = (shop.found(f"perplexity-{name}-0")["windows"] for name in (SOFTMAX, CPR))
    gains = [one[0] - other[0] for one, other in zip(softmax, cpr, strict=True)]
    middle = sorted(range(len(gains)), key=gains.__getitem__)[len(gains) // 2]
    return marked_text(shop.models(), shop.tokenizer, shop.windows["test"][0][middle]["input_ids"])


def costs(shop: Workshop, report: Progress) -> list[dict[str, Any]]:
    return cost(
        AutoConfig.from_pretrained(shop.base, **NO_CODE),
        tuple(METHODS.values()),
        length=shop.plan.heads.length,
        repeats=shop.plan.repeats,
        memory=shop.plan.memory,
        threads=torch.get_num_threads(),
        report=report,
    )


def count(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def result(shop: Workshop, seeds: int) -> dict[str, Any]:
    measured = {
        name: [shop.found(f"perplexity-{name}-{seed}") for seed in range(1 if name == BEFORE else seeds)]
        for name in (BEFORE, *METHODS)
    }
    windows = {name: [found["windows"] for found in each] for name, each in measured.items()}
    told = shop.found("states")
    return {
        "plan": shop.plan.name,
        "model": model_of(shop) | {"parameters": told["parameters"]},
        "text": {"what": description(), "licence": LICENCE, "train": told["train"], "test": told["test"]},
        "methods": METHODS,
        "training": {name: getattr(shop.plan.heads, name) for name in ("lr", "batch", "length", "epochs")}
        | {"form": shop.plan.form},
        "perplexity": {name: [without(found, "windows") for found in each] for name, each in measured.items()},
        "verdict": verdict(windows[SOFTMAX], windows[CPR]).to_dict(),
        "words": shop.found("words"),
        "order": shop.found("order"),
        "text_by_word": shop.found("text"),
        "cost": shop.found("cost"),
        "machine": machine(),
        "models": {BEFORE: at_home(shop.base), **{name: str(shop.run(name, 0) / "model") for name in METHODS}},
    }


def model_of(shop: Workshop) -> dict[str, Any]:
    """What the plain model is, and whose."""
    model = shop.plan.model
    if isinstance(model, FromNothing):
        about = f"trained here, from nothing, on {model.tokens:,} tokens of other files of the same library"
        return {"title": "a tiny GPT-2", "about": about, "licence": None}
    return {
        "title": model.title,
        "about": f"from the package {model} on the package index: {model.made}",
        "licence": model.licence,
    }


def at_home(path: Path) -> str:
    """A path that says nothing about whose home it is in."""
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


def without(data: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != name}


TOOK = "seconds"  # the file that remembers how long steps took


def demo(
    plan: Plan, folder: Path, *, seeds: int, cache: Path, report: Progress, library: Code | None = None
) -> dict[str, Any]:
    """Train both heads, measure everything. What is in the folder already is not done again."""
    logging.disable_progress_bar()  # there is a bar already
    shop = Workshop(folder, plan, code() if library is None else library, cache)
    took = shop.found(TOOK) if shop.file(TOOK).exists() else {}
    for title, seconds in carry_out([*steps(shop, seeds)], report):
        took[title] = seconds
        shop.keep(TOOK, took)
    return result(shop, seeds) | {TOOK: took}


def steps(shop: Workshop, seeds: int) -> Iterator[Step]:
    """A step that is stopped in the middle starts again, but for training, which goes on."""
    seconds = SECONDS[shop.plan.name]

    def finding(name: str, title: str, share: str, find: Callable[[Progress], Any]) -> Step:
        return Step(
            title=title,
            seconds=seconds[share],
            is_done=shop.file(name).exists,
            work=lambda report: shop.keep(name, find(report)),
        )

    def measuring(name: str, seed: int, title: str) -> Step:
        find = lambda report: measure(shop, name, seed, report)  # noqa: E731
        return finding(f"perplexity-{name}-{seed}", title, "perplexity", find)

    def training(name: str, seed: int) -> Step:
        return Step(
            title=f"training {name}, seed {seed}",
            seconds=seconds[f"train {name}"],
            is_done=lambda: is_trained(shop, name, seed),
            work=lambda report: train(shop, name, seed, report),
        )

    yield Step(
        title="the model",
        seconds=seconds["model"],
        is_done=(shop.base / "config.json").exists,
        work=lambda report: make_base(shop, report),
    )
    yield finding("states", "hidden states, read once for all heads", "states", lambda r: read(shop, r))
    yield measuring(BEFORE, 0, "perplexity before")
    for seed in range(seeds):
        for name in METHODS:
            yield training(name, seed)
            yield measuring(name, seed, f"perplexity of {name}, seed {seed}")
    yield finding("words", "next words after prompts", "words", lambda r: words(shop, r))
    yield finding("order", "orders of lists", "order", lambda r: order(shop, r))
    yield finding("text", "a text, word by word", "text", lambda r: text(shop, r))
    yield finding("cost", "time and memory", "cost", lambda r: costs(shop, r))


def is_trained(shop: Workshop, name: str, seed: int) -> bool:
    """Of further seeds only the numbers stay."""
    measured = seed > 0 and shop.file(f"perplexity-{name}-{seed}").exists()
    return measured or (shop.run(name, seed) / "model" / "config.json").exists()
