"""The sections of a report page: what is shown of the results of each command, and which folders hold results."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, log
from pathlib import Path
from statistics import fmean

from unbottle.files import Json, read_json
from unbottle.report.page import Section, bar_chart, in_order, markdown_blocks, render
from unbottle.tables import Estimate, Table, number

MEASURES = {"forward": "reading {length} words", "decode": "one more word after {context}"}
GROUPS = {"context": "in the context", "top": "in W({k})", "elsewhere": "elsewhere"}
REMEDY = "run the command that wrote it again."


def find_runs(path: Path) -> list[Path]:
    """The folder itself if it holds results, else the folders directly in it that do."""
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no such folder. Give folders that --output named: {KNOWN}.")
    if _is_run(path):
        return [path]
    if runs := sorted(folder for folder in path.iterdir() if folder.is_dir() and _is_run(folder)):
        return runs
    raise ValueError(f"{path}: no results in it or in its folders. Give folders that --output named: {KNOWN}.")


def sections_of(folder: Path) -> list[Section]:
    """The sections about one run."""
    try:
        for name, sections in FILES.items():
            if (folder / name).is_file():
                return sections(folder)
        config, result = (read_json(folder / f"{name}.json", REMEDY) for name in ("config", "result"))
        if config["command"] not in COMMANDS:
            raise ValueError(f"{folder}: results of {config['command']!r} have no page. Known: {KNOWN}.")
        return COMMANDS[config["command"]](result)
    except (KeyError, TypeError, IndexError, StopIteration) as error:
        raise ValueError(
            f"{folder}: its results are not as this version writes them ({type(error).__name__}: {error}). Run the "
            "command that made them again."
        ) from error


def _is_run(folder: Path) -> bool:
    complete = (folder / "config.json").is_file() and (folder / "result.json").is_file()
    return complete or any((folder / name).is_file() for name in FILES)


def _section(title: str, macro: str, **values: object) -> Section:
    return Section(title=title, body=render("sections.html", macro, values))


def demo_sections(result: Json) -> list[Section]:
    """Of `unbottle demo`."""
    parts = {name: result[name] for name in ("model", "text", "training", "methods", "verdict")}
    return [
        _section("What this shows", "demo", **parts),
        perplexity_section("Perplexity of text that was not trained on", result["perplexity"]),
        text_section(result["text_by_word"]),
        words_section("The next word after a prompt", result["words"]["found"]),
        *order_sections(result["order"]),
        _section("What it costs", "cost", machine=result["machine"], numbers=cost_table(result["cost"])),
        _section("The models", "usage", path=repr(result["models"]["cpr"])),
    ]


def perplexity_sections(result: Json) -> list[Section]:
    """Of `unbottle eval perplexity`."""
    return [perplexity_section("Perplexity", {name: [run] for name, run in result["models"].items()})]


def next_word_sections(result: Json) -> list[Section]:
    """Of `unbottle eval probe`."""
    return [words_section("The next word", result["found"]), *order_sections(result.get("order_bias", {}))]


def summary_sections(result: Json) -> list[Section]:
    """Of `unbottle eval summaries`."""
    runs, comparison = result["runs"], result.get("comparison")
    scores = {
        name: [run["metrics"][name] for run in runs.values()]
        for name in next(iter(runs.values()))["metrics"]
        if any(run["metrics"][name]["value"] is not None for run in runs.values())
    }
    header = ["metric", *(part for name in runs for part in (name, "95 %"))]
    rows = [[name, *(cell for score in row for cell in _interval(score))] for name, row in scores.items()]
    if comparison is not None:
        header += ["difference", "p"]
        for row in rows:
            both = comparison["metrics"][row[0]]
            row += [number(both["difference"]), number(both["p"], 4)]
    counts = ", ".join(f"{name}: {run['examples']}" for name, run in runs.items())
    return [_section("Summaries", "summaries", numbers=Table(header, rows), counts=counts, notes=result["notes"])]


def bench_sections(folder: Path) -> list[Section]:
    """Of `unbottle bench`."""
    return [document_section("Time and memory", folder / "bench.md", folder / "bench.png")]


def reproduce_sections(folder: Path) -> list[Section]:
    """Of `unbottle reproduce`."""
    return [document_section(f"The paper's experiment {folder.name}", folder / "table.md", folder / "plot.png")]


def document_section(title: str, text: Path, image: Path) -> Section:
    """A Markdown file and its picture."""
    picture = base64.b64encode(image.read_bytes()).decode("ascii") if image.exists() else ""
    blocks = markdown_blocks(text.read_text(encoding="utf-8"))
    return _section(title, "document", blocks=blocks, alt=title, picture=picture)


def perplexity_section(title: str, models: Mapping[str, Sequence[Json]]) -> Section:
    """Perplexity by where the true token was, of the runs of each model: a table and bars."""
    first = next(iter(models.values()))[0]
    names = {name: GROUPS.get(name, name).format(k=first["k"]) for name in first["groups"]}
    rows = [
        [model, Estimate.of([run["perplexity"] for run in runs]).show(), *(_group(runs, name) for name in names)]
        for model, runs in models.items()
    ]
    rows.append(["share of the tokens", "100%", *(f"{group['share']:.0%}" for group in first["groups"].values())])
    lowest = [_lowest([log(run["perplexity"]) for run in runs] for runs in models.values())]
    lowest += [_lowest(_losses(runs, name) for runs in models.values()) for name in names]
    best = [(row, column) for column, row in enumerate(lowest, start=1) if row is not None]
    losses = {"all tokens": {model: [run["loss"] for run in runs] for model, runs in models.items()}} | {
        heading: {model: values for model, runs in models.items() if (values := _losses(runs, name))}
        for name, heading in names.items()
    }
    numbers = Table(["model", "perplexity", *names.values()], rows, best)
    chart = bar_chart(losses, label="mean loss of a token in nats, lower is better")
    return _section(title, "perplexity", numbers=numbers, chart=chart)


def _group(runs: Sequence[Json], name: str) -> str:
    values = [run["groups"][name]["perplexity"] for run in runs]
    return "" if None in values else Estimate.of(values).show()


def _losses(runs: Sequence[Json], name: str) -> list[float]:
    return [loss for run in runs if (loss := run["groups"][name]["loss"]) is not None]


def _lowest(losses: Iterable[Sequence[float]]) -> int | None:
    """The row of the best model, if there are several and one has losses."""
    means = [fmean(values) if values else inf for values in losses]
    return means.index(min(means)) if len(means) > 1 and min(means) < inf else None


def words_section(title: str, columns: Sequence[Json]) -> Section:
    """The next words after each prompt, models side by side."""
    partitions = in_order(word["partition"] for column in columns for word in column["words"])
    prompts: dict[str, list[Json]] = {}
    for column in columns:
        prompts.setdefault(column["prompt"], []).append(column)
    return _section(title, "prompts", partitions=partitions, prompts=prompts)


def order_sections(biases: Mapping[str, Json]) -> list[Section]:
    """How the order of a list changes its next word; nothing if no list was probed."""
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
    return [_section("Does the order of a list matter?", "order_bias", numbers=Table(header, rows))]


def text_section(text: Json) -> Section:
    """A held-out text in the colours of the partitions."""
    tokens = [
        {
            "text": token,
            "partition": partition,
            "tip": f"{token!r}, set by {partition}: "
            + ", ".join(f"{name} {values[place]:.3f}" for name, values in text["probabilities"].items()),
        }
        for place, (token, partition) in enumerate(zip(text["tokens"], text["partitions"], strict=True))
    ]
    values = {"partitions": in_order(text["partitions"]), "start": "".join(text["read"]), "tokens": tokens}
    return _section("Which partition predicts which word", "text_by_partition", **values)


def cost_table(rows: Sequence[Json]) -> Table:
    """Milliseconds, and ratios to the plain model; memory if it was measured."""
    header = ["", "head", "ms", "time", "peak MB", "memory"]
    lines = []
    for row in rows:
        memory = row["memory"]
        line = [
            MEASURES[row["measure"]].format(**row),
            row["method"],
            f"{1000 * row['wall']['median']:.1f}",
            f"{row['wall']['ratio']:.2f}x",
        ]
        lines.append([*line, *([f"{memory['peak_mb']:.0f}", f"{memory['ratio']:.2f}x"] if memory else ["", ""])])
    shown = len(header) if any(line[-1] for line in lines) else 4
    return Table(header[:shown], [line[:shown] for line in lines])


def _interval(score: Json) -> tuple[str, str]:
    low, high = score["low"], score["high"]
    return number(score["value"]), "" if low is None or high is None else f"{low:.2f} to {high:.2f}"


COMMANDS: dict[str, Callable[[Json], list[Section]]] = {  # the command that wrote result.json
    "demo": demo_sections,
    "eval perplexity": perplexity_sections,
    "eval probe": next_word_sections,
    "eval summaries": summary_sections,
}
FILES = {"bench.json": bench_sections, "results.json": reproduce_sections}
KNOWN = f"{', '.join(COMMANDS)}, bench, reproduce"
