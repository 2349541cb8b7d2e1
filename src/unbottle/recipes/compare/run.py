"""compare: choose a learning rate for the baseline, then train and measure every row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbottle.recipes.compare.compare_lab import CompareLab
from unbottle.recipes.compare.measure import comparison_of, rates
from unbottle.recipes.record import Record
from unbottle.recipes.reproduce import reproduce
from unbottle.recipes.variant import Variant

TRAINED = {
    "head": "only the head is trained",
    "all": "all weights are trained",
    "lora": "LoRA and the head are trained",
}


def compare(lab: CompareLab, output: Path, methods: Sequence[str], *, seeds: Sequence[int], told: str) -> Record:
    """The record of all rows; what is done already is not done again."""
    size, data, train = next(iter(lab.preset.backbones)), Path(lab.data).name, lab.preset.rows.train
    lab.lr, rows = with_rates(lab, output, [Variant.parse(method) for method in methods], told)
    experiment = comparison_of(
        tuple(dict.fromkeys(map(str, rows))),
        f"{data}-{train}",
        title=f"Output layers of {size} on {data}: {TRAINED[train]}",
        told=told,
        lr=lab.lr,
        baseline=lab.preset.baseline,
    )
    return reproduce(experiment, lab, output, seeds=seeds)


def with_rates(lab: CompareLab, output: Path, rows: list[Variant], told: str) -> tuple[float, list[Variant]]:
    """A learning rate for all, and the rows that have several with one: what predicts the validation part best.

    The one for all is chosen for the baseline.
    """
    usual = [Variant.parse(f"{lab.preset.baseline} lr={rate:g}") for rate in lab.preset.lrs]
    choices = [each for each in (usual, *(row.choices for row in rows)) if len(each) > 1]
    tried = tuple(dict.fromkeys(str(variant) for each in choices for variant in each))
    losses: dict[str, float] = {}
    if tried:
        data, train = Path(lab.data).name, lab.preset.rows.train
        record = reproduce(rates(tried, f"{data}-{train}-lr", told), lab, output)
        losses = {row.method: row.found["loss"] for row in record.rows if "loss" in row.found}
    best = _best(usual, losses)
    return dict(zip(usual, lab.preset.lrs, strict=True))[best], [_best(row.choices, losses) for row in rows]


def _best(choices: Sequence[Variant], losses: dict[str, float]) -> Variant:
    if len(choices) == 1:
        return choices[0]
    learnt = [each for each in choices if str(each) in losses]
    if not learnt:
        raise ValueError(f"{', '.join(map(str, choices))}: training broke with each. Give lower rates.")
    return min(learnt, key=lambda each: losses[str(each)])
