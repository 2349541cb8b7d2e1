"""Comparison: everything that a comparison of output layers depends on but the method and the seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from unbottle.recipes.any_preset import AnyPreset, Backbone
from unbottle.recipes.compare.named import named_model
from unbottle.train import Settings
from unbottle.train.settings import TINY

SOFTMAX = "softmax+mi"
CPR = "softmax+cpr:20,100+mi"
OTHERS = (
    "mos+mi", "pg+mi", "ps+mi", "softmax+c+mi", "softmax+p+mi", "softmax+r:20,100+mi", "softmax+cr:20,100+mi", CPR,
    f"{CPR} convention=release", "mos+cpr:20,100+mi",
)  # fmt: skip
PAPER = "form=paper"  # which breaks on models of today at the learning rate of the others: LOG.md
METHODS = ("plain", "softmax", SOFTMAX, *OTHERS, f"{SOFTMAX} {PAPER}", f"{CPR} {PAPER}")
LEARNING_RATES = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4)
ROWS = Settings(
    output="",
    train="head",
    length=256,
    batch=2,
    eps=TINY,
    clip=1.0,
    schedule="linear",
    warmup_steps=10,
    report_to=(),
    save_every=None,
    keep=1,
)


@dataclass(frozen=True, kw_only=True)
class Comparison(AnyPreset):
    """All rows start from one pretrained model. Learning rates are tried for the baseline, the best one is for all."""

    name: str = "compare"
    about: str = "Output layers on a model and a text of one's own."
    rows: Settings = ROWS
    lrs: tuple[float, ...] = LEARNING_RATES
    train_tokens: int = 24_576
    valid_tokens: int = 4_096
    test_tokens: int = 12_288
    k: int = 100  # words of W(k), by which tokens are grouped
    tagger: str = "auto"  # of names
    shuffles: int = 6  # orders of each list
    gradients: int = 0  # positions at which the share of the gradient is measured, which takes seconds each
    baseline: ClassVar[str] = SOFTMAX  # the row that all others are compared with

    def to_dict(self) -> dict[str, Any]:
        """The model, the text and the tagger's model by their names, wherever they lie."""
        kind, colon, path = self.tagger.partition(":")
        tagger = f"{kind}{colon}{Path(path).name}"
        return AnyPreset.to_dict(replace(self, data=Path(self.data).name, backbones=named_model(self), tagger=tagger))


def comparison(model: str, data: str, **options: Any) -> Comparison:
    """Of this model."""
    return Comparison(data=data, backbones={Path(model).name: Backbone(pretrained=model)}, **options)
