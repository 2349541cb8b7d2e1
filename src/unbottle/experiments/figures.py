"""Figures of experiments: the paper's numbers beside ours, loss against size, and next words after lists.

Needs matplotlib, which `report` imports when a figure is drawn.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from unbottle.eval.inference import LanguageModel
from unbottle.eval.next_words import PROMPTS, Prompt
from unbottle.eval.order_bias import tried_orders
from unbottle.experiments.paper import PaperNumbers
from unbottle.experiments.presets import Json
from unbottle.experiments.results import ResultRow
from unbottle.experiments.row_spec import PLAIN, RowSpec
from unbottle.tables import Estimate


@dataclass(frozen=True)
class MetricPanels:
    """A panel for each metric (title: key, the paper's columns): each method's difference to the baseline in percent.

    So numbers of small models here stand beside the paper's. Differences are taken seed by seed. Panels named in
    `plain` show differences as they are, not in percent: of shares whose baseline may be near 0. Without a baseline,
    or without a row of it, values are shown, with `log` on a logarithmic axis.
    """

    title: str
    metrics: Mapping[str, tuple[str, tuple[str, ...]]]
    baseline: str | None = "softmax+mi"
    plain: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # methods
    log: bool = False

    def __call__(self, rows: Sequence[ResultRow], path: Path, paper: PaperNumbers) -> None:
        from unbottle.report.plots import Panel, panels

        untrained = str(RowSpec.parse(PLAIN))  # would set the scale
        rows = [row for row in rows if row.method not in (untrained, *self.left_out)]
        baseline = self.baseline if any(row.method == self.baseline for row in rows) else None
        sizes = {row.size for row in rows}
        contents = []
        for heading, (key, columns) in self.metrics.items():
            base = {(row.size, row.seed): row.metrics.get(key) for row in rows if row.method == baseline}
            ours: dict[str, list[float]] = {}
            theirs: dict[str, dict[str, float]] = {}
            for row in rows:
                if row.metrics.get(key) is None:
                    continue
                title = RowSpec.parse(row.method).title
                name = title if len(sizes) == 1 else f"{row.size}, {title}"
                value = row.metrics[key]
                if baseline is not None:
                    value = self._difference(heading, value, base.get((row.size, row.seed)))
                if value is not None:
                    ours.setdefault(name, []).append(value)
                numbers = paper.get(row.size, {})
                for column in columns if row.method in numbers else ():
                    value = numbers[row.method][column]
                    if baseline is not None:
                        value = self._difference(heading, value, numbers.get(baseline, {}).get(column))
                    if value is not None:
                        series = "paper" if len(columns) == 1 else f"paper, {column}"
                        theirs.setdefault(series, {})[name] = value
            if ours:
                values = {method: Estimate.of(numbers) for method, numbers in ours.items()}
                title = f"{heading}, difference" if baseline is not None and heading in self.plain else heading
                contents.append(Panel(title=title, values=values, paper=theirs))
        if contents:
            label = "" if baseline is None else f"difference to {RowSpec.parse(baseline).title}, %"
            if baseline is not None and self.plain:
                label += " (where the title says difference: not in percent)"
            log = self.log and baseline is None
            panels(contents, path, title=self.title, label=label, zero=baseline is not None, log=log)

    def _difference(self, heading: str, value: float, base: float | None) -> float | None:
        if base is None:
            return None
        if heading in self.plain:
            return value - base
        return 100 * (value / base - 1) if base else None


def plot_size_curve(
    rows: Sequence[ResultRow], path: Path, paper: PaperNumbers, *, title: str, label: str, key: str = "loss"
) -> None:
    """Loss against the number of parameters, a line for each method, beside the paper's where it prints numbers."""
    from unbottle.report import plots

    points: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        line = points.setdefault(RowSpec.parse(row.method).title, {})
        line.setdefault(row.metrics["size"], []).append(row.metrics[key])
    lines = {
        name: [(size, Estimate.of(losses)) for size, losses in sorted(line.items())] for name, line in points.items()
    }
    printed = {}
    for method in dict.fromkeys(row.method for row in rows):
        numbers = {
            (columns["Size"], columns["Loss"])
            for methods in paper.values()
            if "Loss" in (columns := methods.get(method, {}))
        }
        if numbers:
            name = RowSpec.parse(method).title
            printed[name] = [(size, Estimate(loss, None, 1)) for size, loss in sorted(numbers)]
    plots.curves(lines, printed, path, title=title, x="parameters (millions)", y=label)


def listed_options(
    model: LanguageModel, tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt] = PROMPTS
) -> list[Json]:
    """The options of each prompt in two orders, with the probability that each comes next."""
    return [
        {"prompt": prompt.text(order), "options": order, "probabilities": [exp(log_p[option]) for option in order]}
        for prompt, tried in tried_orders(model, tokenizer, prompts, shuffles=2).items()
        for order, log_p in tried
    ]


def plot_options(rows: Sequence[ResultRow], path: Path, paper: PaperNumbers) -> None:
    """Every prompt in two orders, a panel each, with the bars of all methods; of the first seed and backbone."""
    shown = [row for row in rows if (row.size, row.seed) == (rows[0].size, rows[0].seed) and "options" in row.metrics]
    if shown:
        draw_options({RowSpec.parse(row.method).title: row.metrics["options"] for row in shown}, path)


def draw_options(by_model: Mapping[str, Sequence[Json]], path: Path) -> None:
    """The panels of `listed_options` for several models, as one picture."""
    from unbottle.report.plots import OptionPanel, option_panels

    contents = [
        OptionPanel(
            title=textwrap.fill(panels[0]["prompt"], 60),
            options=panels[0]["options"],
            probabilities={name: panel["probabilities"] for name, panel in zip(by_model, panels, strict=True)},
        )
        for panels in zip(*by_model.values(), strict=True)
    ]
    option_panels(contents, path, title="Next words after lists, each in two orders (tb:context_example, fig:gpt-3)")
