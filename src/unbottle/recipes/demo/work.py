"""The work of the demo, step by step. Each function leaves a file behind, or returns what goes into one."""

from __future__ import annotations

import shutil
from typing import Any

import torch
from transformers import AutoConfig

from unbottle.eval import perplexity
from unbottle.eval.order_bias import order_bias
from unbottle.eval.probe import probe
from unbottle.hf.safe import NO_CODE
from unbottle.recipes.demo.cost import cost
from unbottle.recipes.demo.from_nothing import from_nothing
from unbottle.recipes.demo.marked_text import marked_text
from unbottle.recipes.demo.plan import BEFORE, CPR, METHODS, SOFTMAX, FromNothing, K
from unbottle.recipes.demo.pretrained import pretrained
from unbottle.recipes.demo.prompts import DEMO_PROMPTS
from unbottle.recipes.demo.steps import Report, part_of
from unbottle.recipes.demo.workshop import Workshop
from unbottle.recipes.read_already import ReadAlready
from unbottle.train import train_lm

BATCH = 2  # windows that are evaluated at once: their logits fill 100 MB if there are 49,152 words


def make_base(shop: Workshop, report: Report) -> None:
    model = shop.plan.model
    if isinstance(model, FromNothing):
        from_nothing(model, shop.code, shop.folder / "base", report)
    else:
        pretrained(model, shop.cache, report)


def read(shop: Workshop, report: Report) -> dict[str, Any]:
    """What the frozen model says about all windows, for both heads and all seeds."""
    model = shop.fresh(SOFTMAX, 0)
    total = sum(len(windows) for windows, _ in shop.windows.values())
    before, found = 0, {}
    for name, (windows, files) in shop.windows.items():
        shop.stored(model, name, part_of(report, before, len(windows), total))
        found[name] = {"files": files, "tokens": len(windows) * windows.length, "windows": len(windows)}
        before += len(windows)
    return found | {"parameters": count(model) - count(model.head)}


def train(shop: Workshop, name: str, seed: int, report: Report) -> None:
    """The same windows in the same order for both heads of a seed."""
    model, (windows, _) = shop.fresh(name, seed), shop.windows["train"]
    train_lm(model, windows, None, shop.settings(name, seed), report=report, tokenizer=shop.tokenizer)


def measure(shop: Workshop, name: str, seed: int, report: Report) -> dict[str, Any]:
    """Perplexity of the held-out windows, from stored states. A fresh head predicts what the plain model does.

    W(k) is that of the plain model for all, so that their groups are the same tokens. Of the models of further seeds
    only the numbers are kept.
    """
    before = shop.fresh(SOFTMAX, 0)
    stored = shop.stored(before, "test", report)
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


def words(shop: Workshop, report: Report) -> dict[str, Any]:
    return probe(shop.models(), shop.tokenizer, DEMO_PROMPTS).to_dict()


def order(shop: Workshop, report: Report) -> dict[str, Any]:
    models, found = shop.models(), {}
    for number, (name, model) in enumerate(models.items()):
        inner = part_of(report, number, 1, len(models))
        found[name] = order_bias(model, shop.tokenizer, shuffles=shop.plan.shuffles, report=inner).to_dict()
    return found


def text(shop: Workshop, report: Report) -> dict[str, Any]:
    """The held-out window whose gain is the middle one of all: nothing is picked because it looks good."""
    softmax, cpr = (shop.found(f"perplexity-{name}-0")["windows"] for name in (SOFTMAX, CPR))
    gains = [one[0] - other[0] for one, other in zip(softmax, cpr, strict=True)]
    middle = sorted(range(len(gains)), key=gains.__getitem__)[len(gains) // 2]
    return marked_text(shop.models(), shop.tokenizer, shop.windows["test"][0][middle]["input_ids"])


def costs(shop: Workshop, report: Report) -> list[dict[str, Any]]:
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
