"""What can be chosen by name, and a sentence for what can not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unbottle.experiments.language_tables import ANALOGY, ORDER_BIAS, SIZE_CURVE, TABLE1, TABLE2, TABLE3, TABLE4
from unbottle.experiments.results import Experiment
from unbottle.experiments.row_spec import Variant
from unbottle.experiments.summary_tables import SUMMARIZATION, T5_SIZE_CURVE

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        TABLE1, TABLE2, TABLE3, TABLE4, ANALOGY, SIZE_CURVE, ORDER_BIAS, SUMMARIZATION, T5_SIZE_CURVE,
    )
}  # fmt: skip


def chosen_experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise ValueError(f"experiment {name!r}: unknown. Known: {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]


def chosen_preset(experiment: Experiment, name: str) -> Any:
    presets = experiment.lab.presets
    if name not in presets:
        raise ValueError(f"preset {name!r}: unknown. Known: {', '.join(presets)}.")
    return presets[name]


def chosen_sizes(experiment: Experiment, preset: Any, names: Sequence[str]) -> list[str]:
    """Backbones of the experiment, in its order."""
    sizes = experiment.sizes(preset)
    for name in names:
        if name not in sizes:
            raise ValueError(f"size {name!r}: no backbone of {experiment.name}. There are: {', '.join(sizes)}.")
    return [size for size in sizes if not names or size in names]


def chosen_methods(experiment: Experiment, names: Sequence[str]) -> list[str]:
    """Rows of the table, in its order."""
    wanted = {str(Variant.parse(name)) for name in names}
    rows = {str(Variant.parse(method)): method for method in experiment.methods}
    if unknown := wanted - set(rows):
        raise ValueError(f"method {unknown.pop()!r}: no row of {experiment.name}. Its rows: {', '.join(rows)}.")
    return [method for name, method in rows.items() if not wanted or name in wanted]
