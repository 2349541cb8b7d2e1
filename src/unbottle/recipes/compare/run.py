"""compare: choose a learning rate for the baseline, then train and measure every row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbottle.recipes.compare.compare_lab import CompareLab
from unbottle.recipes.compare.comparison import BASELINE
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
    lab.lr = chosen_rate(lab, output, told)
    experiment = comparison_of(
        tuple(str(Variant.parse(method)) for method in methods),
        f"{data}-{train}",
        title=f"Output layers of {size} on {data}: {TRAINED[train]}",
        told=told,
        lr=lab.lr,
    )
    return reproduce(experiment, lab, output, seeds=seeds)


def chosen_rate(lab: CompareLab, output: Path, told: str) -> float:
    """The one with which the baseline predicts the validation part best."""
    several = lab.preset.lrs
    if len(several) == 1:
        return float(several[0])
    tried = {f"{BASELINE} lr={rate:g}": rate for rate in several}
    data, train = Path(lab.data).name, lab.preset.rows.train
    record = reproduce(rates(tuple(tried), f"{data}-{train}-lr", told), lab, output)
    losses = {row.method: row.found["loss"] for row in record.rows if "loss" in row.found}
    if not losses:
        raise ValueError(
            f"--lr {', '.join(f'{rate:g}' for rate in several)}: training broke with each. Give lower ones."
        )
    return float(tried[min(losses, key=losses.__getitem__)])
