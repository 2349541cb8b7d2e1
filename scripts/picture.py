"""The picture of the README: python scripts/picture.py writes docs/images/unbottle.svg.

Left and middle: four words in a plane, and the best that one softmax can do if king and woman should be equally likely
(found by gradient descent), beside the same with a projection of its own for the words of the context. Right: the
perplexities of results/cpu/table1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from unbottle.method import Method
from unbottle.report.palette import PARTITIONS
from unbottle.report.plots import GREY

ROOT = Path(__file__).parents[1]
WORDS = {"man": (0.0, 0.0), "woman": (1.0, 0.0), "king": (0.0, 1.0), "queen": (1.0, 1.0)}
WANTED = {"king": 0.5, "woman": 0.5}
CONTEXT = ("king", "woman")
SHOWN = ("softmax+mi", "mos+mi", "softmax+c+mi", "ps+mi", "softmax+p+mi", "softmax+cpr:20,100+mi")


BLUE = PARTITIONS["PE"].light
STYLE = {"svg.hashsalt": "unbottle", "svg.fonttype": "none", "font.size": 9}  # the same file again


def best(projections: int, steps: int = 3000, rate: float = 2.0) -> dict[str, float]:
    """The distribution with the least cross entropy: one state for all words, or a second one for the context's."""
    rows = np.array([*WORDS.values()])
    which = np.array([projections - 1 if word in CONTEXT else 0 for word in WORDS])
    target = np.array([WANTED.get(word, 0.0) for word in WORDS])
    states = np.random.default_rng(0).normal(size=(projections, 2))
    for _ in range(steps):
        logits = (states[which] * rows).sum(-1)
        probabilities = np.exp(logits - logits.max())
        probabilities /= probabilities.sum()
        for number in range(projections):
            states[number] += rate * ((target - probabilities) * (which == number)) @ rows
    return dict(zip(WORDS, probabilities, strict=True))


def perplexities() -> dict[str, float]:
    """The mean over seeds of each method of table 1."""
    rows = json.loads((ROOT / "results" / "cpu" / "table1" / "results.json").read_text(encoding="utf-8"))["rows"]
    by_method: dict[str, dict[int, float]] = {}
    for row in rows:
        by_method.setdefault(row["method"], {})[row["seed"]] = row["found"]["perplexity"]
    return {method: float(np.mean([*by_method[method].values()])) for method in SHOWN if method in by_method}


def main(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 3, figsize=(11, 3.3), layout="constrained", width_ratios=(1, 1.15, 1.6))
        for draw, place in zip((draw_plane, draw_bars, draw_perplexities), axes, strict=True):
            draw(place)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
    print(f"Written to {path}")


def draw_plane(axes: plt.Axes) -> None:
    for word, (x, y) in WORDS.items():
        wanted = word in WANTED
        axes.plot(x, y, "o", color=BLUE if wanted else GREY, markersize=9)
        above = (0, 10) if y else (0, -18)
        colour = BLUE if wanted else "#555"
        axes.annotate(word, (x, y), textcoords="offset points", xytext=above, ha="center", color=colour)
    axes.plot([0, 1], [1, 0], "--", color=BLUE, linewidth=1)
    axes.plot([0, 1, 1, 0, 0], [0, 0, 1, 1, 0], color=GREY, linewidth=0.8, zorder=0)
    axes.set(xlim=(-0.4, 1.4), ylim=(-0.3, 1.4), title="next word: king or woman")
    axes.set_axis_off()


def draw_bars(axes: plt.Axes) -> None:
    heights = np.arange(len(WORDS))[::-1]
    cases = (("one softmax, at best", 1, GREY, 0.2), ("context words projected apart", 2, BLUE, -0.2))
    for label, projections, colour, shift in cases:
        probabilities = best(projections)
        drawn = axes.barh(heights + shift, [*probabilities.values()], 0.38, color=colour, label=label)
        axes.bar_label(drawn, fmt="%.2f", padding=2, fontsize=8)
    axes.set_yticks(heights, [*WORDS])
    axes.set(xlim=(0, 0.75), title="probability", xticks=[])
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.45, 0.0))
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def draw_perplexities(axes: plt.Axes) -> None:
    values = perplexities()
    heights = np.arange(len(values))[::-1]
    axes.hlines(heights, min(values.values()) * 0.9, [*values.values()], color=GREY, linewidth=1)
    axes.plot([*values.values()], heights, "o", color=BLUE)
    for height, value in zip(heights, values.values(), strict=True):
        axes.annotate(f"{value:.1f}", (value, height), textcoords="offset points", xytext=(6, -3), fontsize=8)
    axes.set_yticks(heights, [Method.parse(method).title for method in values])
    axes.set(
        xlim=(min(values.values()) * 0.9, max(values.values()) * 1.08), title="test perplexity, small GPT-2, WikiText-2"
    )
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "unbottle.svg")
