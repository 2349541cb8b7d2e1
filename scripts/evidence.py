"""Write docs/evidence.md and its picture from results/: python scripts/evidence.py. A test compares them."""

from __future__ import annotations

import sys
from math import exp
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from evidence_runs import BALANCED, NAMES, ROOT, Run, label, runs, summaries

from unbottle.report.palette import SERIES
from unbottle.report.plots import LINES
from unbottle.tables import Table

COLOURS = {"better": "#1b7837", "worse": "#b2182b"}
PAGE = Path(__file__).with_suffix(".template.md")  # the text around the numbers


def document() -> str:
    all_runs = runs()
    comparisons = [part for run in all_runs for part in (heading(run), run.verdict(), run.table(), run.command)]
    written = [part for run in summaries() for part in (heading(run), run.settings(), run.table(), run.command)]
    others = [part for run in all_runs for part in (f"**{run.model}: {run.title}**", run.others())]
    return PAGE.read_text(encoding="utf-8").format(
        in_short=in_short(all_runs),
        comparisons="\n\n".join(comparisons),
        summaries="\n\n".join(written),
        others="\n\n".join(others),
    )


def heading(run: Any) -> str:
    return f"## {run.model}: {run.title}"


def in_short(all_runs: list[Run]) -> str:
    """A table with the baseline, CPR and the best row of each comparison."""
    lines = []
    for run in all_runs:
        cells = [f"{run.model}, {run.title}", run.cell(run.baseline, "perplexity", 2)]
        for method in (run.cpr(), run.best()):
            cells += [label(method), run.summary(method)] if method in run.rows else ["", ""]
        lines.append(cells)
    header = ["", "baseline", "CPR", "change (95 % interval)", "best row", "change (95 % interval)"]
    return Table(header, lines).markdown()


def picture(all_runs: list[Run], path: Path) -> None:
    """Plot the differences to the baseline with their intervals: a row of panels for each model."""
    lines = [[run for run in all_runs if run.model == model and run.together] for model in NAMES.values()]
    lines = [line for line in lines if line]
    rows = [list(dict.fromkeys(method for run in line for method in run.shown())) for line in lines]
    plt.rcParams.update({"svg.hashsalt": "unbottle", "svg.fonttype": "none"})
    wide, high = max(map(len, lines)), sum(map(len, rows))
    figure = plt.figure(figsize=(3 + 2.6 * wide, 1.1 * len(lines) + 0.27 * high), layout="constrained")
    for part, line, methods in zip(
        figure.subfigures(len(lines), 1, height_ratios=[4 + len(row) for row in rows], squeeze=False)[:, 0],
        lines, rows, strict=True,
    ):  # fmt: skip
        panels = part.subplots(1, len(line), sharey=True, squeeze=False)[0]
        for panel, run in zip(panels, line, strict=True):
            draw(panel, run, methods)
        panels[0].set_yticks(range(len(methods)), [label(method) for method in methods])
        panels[0].set_ylim(len(methods) - 0.5, -0.5)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def draw(panel: Any, run: Run, methods: list[str]) -> None:
    panel.axvline(0, color="#888888", linewidth=0.8)
    for place, method in enumerate(methods):
        pair = run.together.get(method)
        if pair is None or method not in run.shown():
            continue
        middle = 100 * (exp(run.difference(method)) - 1)
        low, high = (100 * (exp(end) - 1) for end in (pair["low"], pair["high"]))
        colour = COLOURS.get(run.group(method), "#555555")
        panel.plot([low, high], [place, place], color=colour, linewidth=2)
        panel.plot([middle], [place], "o", color=colour, markersize=5)
    panel.set_title(f"{run.model}\n{run.title}", fontsize=8)
    panel.set_xlabel("change in perplexity, %", fontsize=8)
    panel.tick_params(labelsize=8)


def curve(all_runs: list[Run], path: Path) -> None:
    """Plot what CPR changes on a frozen model against the tokens it was trained on: a line for each text."""
    plt.rcParams.update({"svg.hashsalt": "unbottle", "svg.fonttype": "none"})
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    of_text: dict[str, list[Run]] = {}
    for run in all_runs:
        if run.folder in BALANCED and run.train == "head" and run.cpr() in run.rows:
            of_text.setdefault(run.text, []).append(run)
    for number, (text, lines) in enumerate(of_text.items()):
        lines = sorted(lines, key=Run.tokens)
        tokens = [run.tokens() for run in lines]
        look: dict[str, Any] = {"color": SERIES[number].light, "marker": LINES[number], "label": text}
        pairs = [run.together[run.cpr()] for run in lines]
        middle = [100 * (exp(run.difference(run.cpr())) - 1) for run in lines]
        ends = [[100 * (exp(pair[end]) - 1) for pair in pairs] for end in ("low", "high")]
        errors = [[m - low for m, low in zip(middle, ends[0], strict=True)]]
        errors.append([high - m for m, high in zip(middle, ends[1], strict=True)])
        panels[0].errorbar(tokens, middle, yerr=errors, capsize=3, **look)
        names = [run.ratio(run.cpr(), "proper noun") for run in lines]
        panels[1].plot(tokens, [None if ratio is None else 100 * (ratio - 1) for ratio in names], **look)
    for panel, title in zip(panels, ("all words, 95 % intervals", "names"), strict=True):
        panel.axhline(0, color="#888888", linewidth=0.8)
        panel.set_xscale("log")
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("tokens of training", fontsize=9)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("perplexity of CPR to Softmax + Mi, %", fontsize=9)
    panels[1].legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "evidence.md"
    path.write_text(document(), encoding="utf-8")
    picture(runs(), path.parent / "images" / "evidence.svg")
    curve(runs(), path.parent / "images" / "tokens.svg")
    print(f"Written to {path}")
