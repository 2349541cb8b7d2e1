"""What the heads cost beside the plain model.

Perplexity: one table and one picture, whatever the models are called.

Next words after prompts, and what the order of a list does to them.

Scores of summaries, with their intervals.

Runs that leave a Markdown table and a picture behind: benchmarks, experiments of the paper.

The page of `unbottle demo`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from pathlib import Path
from statistics import fmean
from typing import Any

from unbottle.report.page import Section, markdown, paragraph, picture, preformatted, table
from unbottle.report.palette import legend
from unbottle.report.widgets import bars, next_words, running_text, side_by_side
from unbottle.tables import Estimate

MEASURES = {"forward": "reading {length} words", "decode": "one more word after {context}"}


def cost_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Milliseconds, and ratios to the plain model."""
    header = ["", "head", "ms", "time", "peak MB", "memory"]
    has_memory = any(row["memory"] for row in rows)
    lines = []
    for row in rows:
        memory = row["memory"] or {}
        line = [
            MEASURES[row["measure"]].format(**row),
            row["method"],
            f"{1000 * row['wall']['median']:.1f}",
            f"{row['wall']['ratio']:.2f}x",
            f"{memory['peak_mb']:.0f}" if memory else "",
            f"{memory['ratio']:.2f}x" if memory else "",
        ]
        lines.append(line if has_memory else line[:4])
    return table(header if has_memory else header[:4], lines)


GROUPS = {"context": "in the context", "top": "in W({k})", "elsewhere": "elsewhere"}
Found = Mapping[str, Sequence[Mapping[str, Any]]]  # model -> what was found with each seed


def perplexity_pieces(found: Found) -> list[str]:
    """The table, and bars of the mean loss by where the true token was."""
    first = next(iter(found.values()))[0]
    names = {name: GROUPS.get(name, name).format(k=first["k"]) for name in first["groups"]}
    header = ["model", "perplexity", *names.values()]
    rows = [
        [model, Estimate.of([each["perplexity"] for each in runs]).show(), *(_group(runs, name) for name in names)]
        for model, runs in found.items()
    ]
    shares = [f"{group['share']:.0%}" for group in first["groups"].values()]
    rows.append(["share of the tokens", "100%", *shares])
    best = [(_lowest(found, name), column) for column, name in enumerate((None, *names), start=1)]
    losses = {"all tokens": {model: [run["loss"] for run in runs] for model, runs in found.items()}} | {
        title: {model: _losses(runs, name) for model, runs in found.items() if _losses(runs, name)}
        for name, title in names.items()
    }
    picture = bars(losses, label="mean loss of a token in nats, lower is better")
    return [table(header, rows, [place for place in best if place[0] >= 0]), picture]


def perplexity_sections(folder: Any, config: Mapping[str, Any], result: Mapping[str, Any]) -> list[Section]:
    """Of `unbottle eval perplexity`."""
    found = {name: [each] for name, each in result["models"].items()}
    return [Section(title="Perplexity", body=tuple(perplexity_pieces(found)))]


def _group(runs: Sequence[Mapping[str, Any]], name: str) -> str:
    values = [run["groups"][name]["perplexity"] for run in runs]
    return "" if None in values else Estimate.of(values).show()


def _losses(runs: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [loss for run in runs if (loss := run["groups"][name]["loss"]) is not None]


def _lowest(found: Found, name: str | None) -> int:
    """The row of the best model; -1 if there is none, or only one model."""
    means = [
        fmean(log(run["perplexity"]) if name is None else _losses([run], name)[0] for run in runs)
        if name is None or _losses(runs, name)
        else float("inf")
        for runs in found.values()
    ]
    return means.index(min(means)) if len(means) > 1 and min(means) < float("inf") else -1


ORDER = (
    "Each list in several orders. Listed: the probability of all listed words together, which should be near 1, or "
    "near 0 where the list should go on with something new. Evenness: entropy among them divided by log n, 1 if the "
    "model has no favourite. Winner changes: the share of the orders in which another word than usual is most likely."
)


def next_word_sections(folder: Any, config: Mapping[str, Any], result: Mapping[str, Any]) -> list[Section]:
    """Of `unbottle eval probe`."""
    return [words_section(result), *order_sections(result.get("order_bias", {}))]


def words_section(found: Mapping[str, Any], title: str = "The next word") -> Section:
    """Prompt by prompt, all models side by side."""
    body = [legend(word["partition"] for probed in found["found"] for word in probed["words"])]
    for prompt in dict.fromkeys(probed["prompt"] for probed in found["found"]):
        columns = [
            next_words(f"{probed['model']} ({probed['method']})", probed["words"])
            for probed in found["found"]
            if probed["prompt"] == prompt
        ]
        body += [preformatted(prompt, "prompt"), side_by_side(columns)]
    return Section(title=title, body=tuple(body))


def order_sections(biases: Mapping[str, Any], title: str = "Does the order of a list matter?") -> list[Section]:
    if not any(bias["rows"] for bias in biases.values()):
        return []
    header = ["list", "model", "listed", "should be", "evenness", "winner", "winner changes"]
    rows = [
        [
            ", ".join(row["options"]),
            name,
            f"{row['mass']:.3f}",
            "1" if row["repeats"] else "0",
            f"{row['evenness']:.3f}",
            row["winner"],
            f"{row['winner_changes']:.0%}",
        ]
        for together in zip(*(bias["rows"] for bias in biases.values()), strict=True)
        for name, row in zip(biases, together, strict=True)
    ]
    return [Section(title=title, body=(paragraph(ORDER), table(header, rows)))]


def summary_sections(folder: Any, config: Mapping[str, Any], result: Mapping[str, Any]) -> list[Section]:
    """Of `unbottle eval summaries`."""
    runs, comparison = result["runs"], result.get("comparison")
    measured = {
        name: [run["metrics"][name] for run in runs.values()]
        for name in next(iter(runs.values()))["metrics"]
        if any(run["metrics"][name]["value"] is not None for run in runs.values())
    }
    header = ["metric", *(part for name in runs for part in (name, "95 %"))]
    rows = [[name, *(part for score in scores for part in _cells(score))] for name, scores in measured.items()]
    if comparison is not None:
        header += ["difference", "p"]
        for row in rows:
            both = comparison["metrics"][row[0]]
            row += [_number(both["difference"]), _number(both["p"], 4)]
    counts = ", ".join(f"{name}: {run['examples']}" for name, run in runs.items())
    notes = [paragraph(f"Summaries: {counts}.", "quiet"), *(paragraph(note, "quiet") for note in result["notes"])]
    return [Section(title="Summaries", body=(table(header, rows), *notes))]


def _cells(score: Mapping[str, Any]) -> tuple[str, str]:
    low, high = score["low"], score["high"]
    return _number(score["value"]), "" if low is None or high is None else f"{low:.2f} to {high:.2f}"


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def bench(folder: Path) -> list[Section]:
    """Of `unbottle bench`."""
    return [_section("Time and memory", folder / "bench.md", folder / "bench.png")]


def reproduced(folder: Path) -> list[Section]:
    """Of `unbottle reproduce`."""
    return [_section(f"The paper's experiment {folder.name}", folder / "table.md", folder / "plot.png")]


def _section(title: str, text: Path, image: Path) -> Section:
    body = markdown(text.read_text(encoding="utf-8"))
    if image.exists():
        body.append(picture(image, title))
    return Section(title=title, body=tuple(body))


WHY = (
    "A language model ends in a softmax: one vector, compared with one fixed vector per word. When the next word "
    "should be one of two, the words whose vectors lie between them become likely too; and what a name means here, and "
    "not elsewhere, its vector does not know. CPR gives the words of the context (C, P) and the most likely words (R) "
    "a projection of their own; everything else stays the softmax that it was."
)


def demo_sections(folder: Path, config: Mapping[str, Any], result: Mapping[str, Any]) -> list[Section]:
    verdict = result["verdict"]
    kind = "said good" if verdict["is_better"] else "said bad"
    return [
        Section(title="What this shows", body=(paragraph(WHY), *told(result), paragraph(verdict["said"], kind))),
        Section(
            title="Perplexity of text that was not trained on", body=tuple(perplexity_pieces(result["perplexity"]))
        ),
        text_section(result),
        words_section(result["words"], "The next word after a prompt"),
        *order_sections(result["order"]),
        Section(title="What it costs", body=(paragraph(cost_note(result), "quiet"), cost_table(result["cost"]))),
        models_section(result),
    ]


def told(result: Mapping[str, Any]) -> list[str]:
    """The model, the text, the training: all that is needed to judge the numbers."""
    model, text, training = result["model"], result["text"], result["training"]
    licence = f", {model['licence']}" if model["licence"] else ""
    methods = " and ".join(f"{name} (`{method}`)" for name, method in result["methods"].items())
    return [
        paragraph(
            f"Model: {model['title']}, {model['parameters'] / 1e6:.1f} million parameters{licence}; {model['about']}. "
            f"Text: {text['what']} ({text['licence']}), {text['train']['tokens']:,} tokens of {text['train']['files']} "
            f"files to train on, {text['test']['tokens']:,} tokens of {text['test']['files']} other files held out. "
            f"The model is frozen; two heads, {methods}, are trained on the same hidden states in the same "
            f"order, one pass, learning rate {training['lr']:g}. Both start as the plain model (before). "
            f"Form of the heads: {training['form']}.",
            "quiet",
        )
    ]


def text_section(result: Mapping[str, Any]) -> Section:
    """A held-out text in colours."""
    text = result["text_by_word"]
    tips = [
        f"{token!r}, set by {partition}: "
        + ", ".join(f"{name} {values[place]:.3f}" for name, values in text["probabilities"].items())
        for place, (token, partition) in enumerate(zip(text["tokens"], text["partitions"], strict=True))
    ]
    note = (
        "Each word in the colour of the partition that set its logit in the CPR head. Point at a word for the "
        "probability that each model gave it. This is the held-out window whose gain is the middle one of all."
    )
    shown = running_text(text["read"], text["tokens"], text["partitions"], tips)
    return Section(title="Who predicts which word", body=(paragraph(note), legend(text["partitions"]), shown))


def cost_note(result: Mapping[str, Any]) -> str:
    found = result["machine"]
    where = f"{found['processor']}, {found['cores']} cores"
    return f"A short measurement, time by the clock, on {where}. `unbottle bench` measures longer."


def models_section(result: Mapping[str, Any]) -> Section:
    path = result["models"]["cpr"]
    lines = [
        "import unbottle",
        "from transformers import AutoModelForCausalLM",
        "",
        f"model = AutoModelForCausalLM.from_pretrained({path!r})",
    ]
    return Section(title="The models", body=(preformatted("\n".join(lines)),))
