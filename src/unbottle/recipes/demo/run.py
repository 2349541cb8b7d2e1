"""demo: all steps in order, and everything they found as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from transformers.utils import logging

from unbottle.recipes.demo import work
from unbottle.recipes.demo.plan import BEFORE, METHODS, Plan
from unbottle.recipes.demo.result import result
from unbottle.recipes.demo.shares import SECONDS
from unbottle.recipes.demo.source_code import Code, code
from unbottle.recipes.demo.steps import Report, Step, carry_out
from unbottle.recipes.demo.workshop import Workshop

TOOK = "seconds"  # the file that remembers how long steps took


def demo(
    plan: Plan, folder: Path, *, seeds: int, cache: Path, report: Report, library: Code | None = None
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

    def finding(name: str, title: str, share: str, find: Callable[[Report], Any]) -> Step:
        return Step(
            title=title,
            seconds=seconds[share],
            is_done=shop.file(name).exists,
            work=lambda report: shop.keep(name, find(report)),
        )

    def measuring(name: str, seed: int, title: str) -> Step:
        find = lambda report: work.measure(shop, name, seed, report)  # noqa: E731
        return finding(f"perplexity-{name}-{seed}", title, "perplexity", find)

    def training(name: str, seed: int) -> Step:
        return Step(
            title=f"training {name}, seed {seed}",
            seconds=seconds[f"train {name}"],
            is_done=lambda: is_trained(shop, name, seed),
            work=lambda report: work.train(shop, name, seed, report),
        )

    yield Step(
        title="the model",
        seconds=seconds["model"],
        is_done=(shop.base / "config.json").exists,
        work=lambda report: work.make_base(shop, report),
    )
    yield finding("states", "hidden states, read once for all heads", "states", lambda r: work.read(shop, r))
    yield measuring(BEFORE, 0, "perplexity before")
    for seed in range(seeds):
        for name in METHODS:
            yield training(name, seed)
            yield measuring(name, seed, f"perplexity of {name}, seed {seed}")
    yield finding("words", "next words after prompts", "words", lambda r: work.words(shop, r))
    yield finding("order", "orders of lists", "order", lambda r: work.order(shop, r))
    yield finding("text", "a text, word by word", "text", lambda r: work.text(shop, r))
    yield finding("cost", "time and memory", "cost", lambda r: work.costs(shop, r))


def is_trained(shop: Workshop, name: str, seed: int) -> bool:
    """Of further seeds only the numbers stay."""
    measured = seed > 0 and shop.file(f"perplexity-{name}-{seed}").exists()
    return measured or (shop.run(name, seed) / "model" / "config.json").exists()
