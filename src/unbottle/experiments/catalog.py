"""The paper's experiments by name, and what a user may select of them."""

from __future__ import annotations

from collections.abc import Sequence

from unbottle.experiments.language_tables import (
    ANALOGY,
    ANALOGY_OWN,
    ORDER_BIAS,
    SIZE_CURVE,
    SWEEP_K,
    TABLE1,
    TABLE2,
    TABLE3,
    TABLE4,
)
from unbottle.experiments.presets import Preset
from unbottle.experiments.results import Experiment
from unbottle.experiments.row_spec import RowSpec
from unbottle.experiments.summary_tables import SUMMARIZATION, T5_SIZE_CURVE

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        TABLE1, TABLE2, TABLE3, TABLE4, ANALOGY, ANALOGY_OWN, SIZE_CURVE, SWEEP_K, ORDER_BIAS, SUMMARIZATION,
        T5_SIZE_CURVE,
    )
}  # fmt: skip


def select_sizes(experiment: Experiment, preset: Preset, names: Sequence[str]) -> list[str]:
    """The backbones of the preset that are named, or else those of the experiment."""
    for name in names:
        if name not in preset.backbones:
            raise ValueError(
                f"size {name!r}: not a backbone of preset {preset.name}. Known: {', '.join(preset.backbones)}."
            )
    return [size for size in preset.backbones if size in names] if names else [*experiment.sizes(preset)]


def select_methods(experiment: Experiment, preset: Preset, names: Sequence[str]) -> list[str]:
    """The rows that are named, or all that the vocabulary of the preset is large enough for, in their order."""
    selected = {str(RowSpec.parse(name)) for name in names}
    rows = {str(RowSpec.parse(method)): method for method in experiment.methods}
    if unknown := selected - set(rows):
        raise ValueError(f"method {unknown.pop()!r}: not a row of {experiment.name}. Known: {', '.join(rows)}.")
    return [
        method
        for name, method in rows.items()
        if (name in selected if selected else RowSpec.parse(name).fits(preset.vocabulary))
    ]
