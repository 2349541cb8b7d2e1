"""The paper's experiments by name, and what a user may select of them."""

from __future__ import annotations

from collections.abc import Sequence

from unbottle.experiments.language_tables import ANALOGY, ORDER_BIAS, SIZE_CURVE, TABLE1, TABLE2, TABLE3, TABLE4
from unbottle.experiments.presets import Preset
from unbottle.experiments.results import Experiment
from unbottle.experiments.row_spec import RowSpec
from unbottle.experiments.summary_tables import SUMMARIZATION, T5_SIZE_CURVE

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        TABLE1, TABLE2, TABLE3, TABLE4, ANALOGY, SIZE_CURVE, ORDER_BIAS, SUMMARIZATION, T5_SIZE_CURVE,
    )
}  # fmt: skip


def select_sizes(experiment: Experiment, preset: Preset, names: Sequence[str]) -> list[str]:
    """The backbones that are named, or all of the experiment, in its order."""
    sizes = experiment.sizes(preset)
    for name in names:
        if name not in sizes:
            raise ValueError(f"size {name!r}: not a backbone of {experiment.name}. Known: {', '.join(sizes)}.")
    return [size for size in sizes if not names or size in names]


def select_methods(experiment: Experiment, names: Sequence[str]) -> list[str]:
    """The rows that are named, or all of the experiment, in its order."""
    selected = {str(RowSpec.parse(name)) for name in names}
    rows = {str(RowSpec.parse(method)): method for method in experiment.methods}
    if unknown := selected - set(rows):
        raise ValueError(f"method {unknown.pop()!r}: not a row of {experiment.name}. Known: {', '.join(rows)}.")
    return [method for name, method in rows.items() if not selected or name in selected]
