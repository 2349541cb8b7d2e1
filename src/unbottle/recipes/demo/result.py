"""result: what all steps found, as plain data for result.json, the terminal and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbottle.bench.machine import machine
from unbottle.recipes.demo.plan import BEFORE, CPR, METHODS, SOFTMAX, FromNothing
from unbottle.recipes.demo.source_code import LICENCE, description
from unbottle.recipes.demo.verdict import verdict
from unbottle.recipes.demo.workshop import Workshop


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
