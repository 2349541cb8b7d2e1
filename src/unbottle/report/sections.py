"""The sections of a report page: what is shown of the results of each command, and which folders hold results."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp, inf, prod
from pathlib import Path
from statistics import fmean

from unbottle.files import Json, read_json
from unbottle.report.page import Dot, Section, dot_chart, in_order, markdown_blocks, render, tip
from unbottle.report.palette import MODELS as COLOURS
from unbottle.report.palette import SERIES, colour_of
from unbottle.tables import Estimate, Table, number

MEASURES = {"forward": "reading {length} words", "decode": "one more word after {context}"}
GROUPS = {"context": "in the context", "top": "in W({k})", "elsewhere": "elsewhere"}
PIECE = re.compile(r"\s*\w+")  # of a word
VISIBLE = 0.001  # a probability that is shown as more than 0.0 %
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
        for name, section in FILES.items():
            if (folder / name).is_file():
                return [section(folder)]
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


MODELS = {  # of the demo: title and explanation
    "before": ("the model as it is", "Its own output layer, a softmax, without further training"),
    "softmax": ("softmax head", "One vector for all words, as in the model itself, but trained here. Softmax + Mi"),
    "mos": ("mixture of softmaxes", "Three vectors for all words, and a weighted mean. MoS + Mi"),
    "c": ("C head", "A vector of its own for words of the text so far. Softmax + C + Mi"),
    "cpr": (
        "CPR head",
        "Vectors of their own for words of the text so far and for likely words. Softmax + CPR + Mi",
    ),
}
SHOWN = ("before", "softmax", "cpr")  # the models whose bars are drawn
TOKENS = {  # groups of tokens of the demo
    "names": "names",
    "context": "words used before",
    "all": "all words",
    "new": "new words",
}
TOKEN_TIPS = {
    "names": "Names of the text, as of persons, functions or classes",
    "context": "Words that occur earlier in the same text",
    "all": "Every word of the held-out text",
    "new": "Words that do not occur earlier in the same text",
}
PERPLEXITY = "How many words the model hesitates between, so to speak: exp of the mean loss. Lower is better."


def headline(result: Json) -> str:
    """The result in one sentence."""
    models = result["contexts"]["models"]
    softmax, cpr = (fmean(run["answers"] for run in models[name]) for name in ("softmax", "cpr"))
    shares = f"the usual softmax gives them {softmax:.0%} of the probability, a CPR head {cpr:.0%}"
    return f"Two words could come next: {shares}"


def demo_sections(result: Json) -> list[Section]:
    """Of `unbottle demo`."""
    contexts, groups = result["contexts"], result["groups"]
    measured = {name: result[name] for name in ("verdict", "models", "model", "text", "training", "methods")}
    return [
        _section("The problem", "demo_bars", **word_bars(contexts)),
        _section(
            "Many such sentences",
            "demo_contexts",
            chart=context_chart(contexts["models"]),
            numbers=context_table(contexts["models"]),
            train=contexts["train"],
            test=contexts["test"],
            perplexity=tip("perplexity", PERPLEXITY),
        ),
        _section(
            "Real text: names, all words, and what it loses",
            "demo_text",
            what=result["text"]["what"],
            perplexity=tip("Perplexity", PERPLEXITY),
            chart=change_chart(groups),
            numbers=group_table(groups),
        ),
        sentences_section(result["sentences"]),
        _section(
            "What it costs",
            "demo_cost",
            machine=result["machine"],
            numbers=head_table(result),
            times=cost_table(result["cost"]) if result["cost"] else None,
        ),
        _section("The verdict, and what to do next", "demo_end", **measured),
    ]


def word_bars(contexts: Json) -> Json:
    """The probabilities of four words before and after training, first seed."""
    entries = {
        name: {
            "title": MODELS[name][0],
            "tip": MODELS[name][1],
            "pale": name == "before",
            "colour": COLOURS[name].css,
        }
        for name in SHOWN
    }
    panels = []
    for panel, shown in enumerate(contexts["shown"]):
        words = []
        for place, word in enumerate(shown["words"]):
            values = {name: contexts["models"][name][0]["shown"][panel][place] for name in SHOWN}
            bars = [{**entry, "value": values[name]} for name, entry in entries.items()]
            words.append({"text": word, "note": "possible" if place < 2 else "not mentioned", "bars": bars})
        panels.append({"prompt": shown["prompt"], "words": words})
    return {"key_entries": [*entries.values()], "panels": panels}


def context_chart(models: Mapping[str, Sequence[Json]]) -> dict[str, object]:
    """Perplexity of the two words, from 2, which is perfect. Ranges: over seeds, or over contexts with one seed."""
    dots = []
    for name, runs in models.items():
        values = [run["perplexity"] for run in runs]
        low, high = (min(values), max(values)) if len(values) > 1 else runs[0]["interval"] or (None, None)
        title, explanation = MODELS[name]
        mean, colour = fmean(values), COLOURS[name].css
        dots.append(
            Dot(label=title, tip=explanation, value=mean, text=f"{mean:.1f}", low=low, high=high, colour=colour)
        )
    over = "lowest and highest of all seeds" if len(models["cpr"]) > 1 else "95 % interval over sentences"
    caption = f"Perplexity of the two words, on a logarithmic axis. Dashed: 2, the best possible. Pale: {over}."
    return dot_chart(dots, reference=2.0, caption=caption, log=True)


def context_table(models: Mapping[str, Sequence[Json]]) -> Table:
    """What the probability is spent on."""
    between_tip = tip("the words between", "queen and man, if it is king or woman")
    rows = []
    for name, runs in models.items():
        answers, between = (fmean(run[key] for run in runs) for key in ("answers", "between"))
        shares = (answers, between, max(0.0, 1 - answers - between))
        rows.append([tip(*MODELS[name]), *(f"{share:.0%}" for share in shares)])
    return Table(["probability of", "the two words", between_tip, "anything else"], rows)


def change_chart(groups: Mapping[str, Json]) -> dict[str, object]:
    """Perplexity with the CPR head relative to the softmax head, in percent: differences as differences."""
    dots = []
    for name in (name for name in TOKENS if name in groups):
        change, low, high = (groups[name][key] for key in ("change", "low", "high"))
        colour = COLOURS["cpr" if change < 0 else "softmax"].css
        label, explanation = TOKENS[name], TOKEN_TIPS[name]
        dots.append(
            Dot(label=label, tip=explanation, value=change, text=f"{change:+.1%}", low=low, high=high, colour=colour)
        )
    caption = (
        "Perplexity with the CPR head compared with the softmax head. Dashed: no difference; left of it, CPR is "
        "better. Pale: 95 % intervals."
    )
    return dot_chart(dots, reference=0.0, caption=caption)


def group_table(groups: Mapping[str, Json]) -> Table:
    """Perplexity and first guesses, for each group of tokens."""
    rows = []
    for name in (name for name in TOKENS if name in groups):
        models, share = groups[name]["models"], groups[name]["share"]
        perplexities = [Estimate.of(models[model]["perplexity"]).show(1) for model in SHOWN]
        guesses = [f"{100 * fmean(models[model]['accuracy']):.1f}" for model in ("softmax", "cpr")]
        rows.append(
            [
                tip(TOKENS[name], f"{TOKEN_TIPS[name]}: {share:.0%} of the tokens"),
                *perplexities,
                " → ".join(guesses) + " %",
            ]
        )
    header = [tip("perplexity of", PERPLEXITY), "as it is", "softmax", "CPR", tip("first guess right", "softmax → CPR")]
    return Table(header, rows)


def head_table(result: Json) -> Table:
    """Parameters and training time of both heads."""
    rows = [
        [
            tip(*MODELS[name]),
            f"{head['parameters'] / 1e6:.1f} M",
            f"{head['parameters'] / result['model']['parameters']:+.0%}",
            f"{head['seconds']:.0f} s",
        ]
        for name, head in result["heads"].items()
    ]
    return Table(["", "parameters", "of the model", "to train"], rows)


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


def document_section(title: str, text: Path, image: Path) -> Section:
    """A Markdown file and its picture."""
    picture = base64.b64encode(image.read_bytes()).decode("ascii") if image.exists() else ""
    blocks = markdown_blocks(text.read_text(encoding="utf-8"))
    return _section(title, "document", blocks=blocks, alt=title, picture=picture)


def perplexity_section(title: str, models: Mapping[str, Json]) -> Section:
    """Of `unbottle eval perplexity`: perplexity by where the true token was, as a table and as bars."""
    first = next(iter(models.values()))
    names = {name: GROUPS.get(name, name).format(k=first["k"]) for name in first["groups"]}
    rows = [
        [model, *map(number, (run["perplexity"], *(run["groups"][name]["perplexity"] for name in names)))]
        for model, run in models.items()
    ]
    rows.append(["share of the tokens", "100%", *(f"{group['share']:.0%}" for group in first["groups"].values())])
    columns = zip(*(_losses(run, names) for run in models.values()), strict=True)
    best = [(row, column) for column, losses in enumerate(columns, start=1) if (row := _lowest(losses)) is not None]
    numbers = Table(["model", "perplexity", *names.values()], rows, best)
    return _section(title, "perplexity", numbers=numbers, chart=_differences(models, names))


def _differences(models: Mapping[str, Json], names: Mapping[str, str]) -> dict[str, object] | None:
    """Perplexities relative to those of the first model; None if there is no other."""
    (first, baseline), *others = models.items()
    dots: list[Dot] = []
    for place, (model, run) in enumerate(others):
        colour = SERIES[place % len(SERIES)].css
        losses = zip(["all tokens", *names.values()], _losses(run, names), _losses(baseline, names), strict=True)
        for heading, own, base in losses:
            if own is not None and base is not None:
                change = exp(own - base) - 1
                label = heading if len(others) == 1 else f"{model}, {heading}"
                dots.append(Dot(label=label, value=change, text=f"{change:+.1%}", colour=colour))
    caption = f"Perplexity compared with {first}. Dashed: no difference; left of it is better."
    return dot_chart(dots, reference=0.0, caption=caption) if dots else None


def _losses(run: Json, names: Iterable[str]) -> list[float | None]:
    """The loss of all tokens, and of each group; None of a group without tokens."""
    return [run["loss"], *(run["groups"][name]["loss"] for name in names)]


def _lowest(losses: Sequence[float | None]) -> int | None:
    """The row of the best model, if there are several and one has a loss."""
    values = [inf if loss is None else loss for loss in losses]
    return values.index(min(values)) if len(values) > 1 and min(values) < inf else None


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
    return [_section("Does the order of a list matter?", "order_bias", numbers=order_table(biases))]


def order_table(biases: Mapping[str, Json]) -> Table:
    """A row for each prompt and model; models of one prompt below each other."""
    header = ["options", "model", "orders", "listed", "should be", "evenness", "winner", "winner changes"]
    rows = [
        [
            ", ".join(row["options"]),
            name,
            str(row["orders"]),
            f"{row['mass']:.4f}",
            "1" if row["repeats"] else "0",
            f"{row['evenness']:.4f}",
            row["winner"],
            f"{row['winner_changes']:.0%}",
        ]
        for together in zip(*(bias["rows"] for bias in biases.values()), strict=True)
        for name, row in zip(biases, together, strict=True)
    ]
    return Table(header, rows)


def sentences_section(sentences: Mapping[str, Json]) -> Section:
    """The sentences in which CPR gains and loses most, in the colours of the partitions."""
    titles = {"gained": "Where it helps most", "lost": "Where it loses most"}
    shown = []
    for name, text in sentences.items():
        tokens = []
        for place, (token, partition) in enumerate(zip(text["tokens"], text["partitions"], strict=True)):
            values = [f"{MODELS[model][0]} {values[place]:.1%}" for model, values in text["probabilities"].items()]
            explanation = f"{colour_of(partition).meaning} ({partition}): {', '.join(values)}"
            tokens.append({"text": token, "partition": partition, "tip": explanation})
        changes = changed_words(text, gained=name == "gained")
        shown.append({"title": titles[name], "start": "".join(text["read"]), "tokens": tokens, "changes": changes})
    partitions = in_order(partition for text in sentences.values() for partition in text["partitions"])
    return _section("Two sentences of the held-out text", "demo_sentences", partitions=partitions, sentences=shown)


def changed_words(text: Json, *, gained: bool, most: int = 3) -> list[Json]:
    """The words of a sentence that gain most with CPR, or lose most: `before` and `after` are their probabilities."""
    if not {"softmax", "cpr"} <= {*text["probabilities"]}:
        return []
    changes: list[tuple[float, str, str, float, float]] = []
    for start, end in whole_words(text["tokens"]):
        before, after = (prod(text["probabilities"][name][start:end]) for name in ("softmax", "cpr"))
        word, partition = "".join(text["tokens"][start:end]).strip(), text["partitions"][start]
        better = after > before
        if better == gained and before != after and max(before, after) >= VISIBLE:
            ratio = max(after, VISIBLE) / max(before, VISIBLE)
            changes.append((ratio if gained else 1 / ratio, word, partition, before, after))
    changes.sort(key=lambda change: -change[0])
    return [dict(zip(("text", "partition", "before", "after"), change[1:], strict=True)) for change in changes[:most]]


def whole_words(tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Where the words of a text are: first token and end. Punctuation is no word."""
    places: list[tuple[int, int]] = []
    for place, token in enumerate(tokens):
        if not PIECE.fullmatch(token):
            continue
        if places and places[-1][1] == place and not token[0].isspace():
            places[-1] = (places[-1][0], place + 1)
        else:
            places.append((place, place + 1))
    return places


def cost_table(rows: Sequence[Json]) -> Table:
    """Milliseconds, and ratios to the plain model; memory if it was measured."""
    header = ["", "head", "ms", "time", "peak MB", "memory"]
    lines = []
    for row in rows:
        memory = row["memory"]
        time = [f"{1000 * row['wall']['median']:.1f}", f"{row['wall']['ratio']:.2f}x"]
        space = [f"{memory['peak_mb']:.0f}", f"{memory['ratio']:.2f}x"] if memory else ["", ""]
        lines.append([MEASURES[row["measure"]].format(**row), row["method"], *time, *space])
    shown = len(header) if any(line[-1] for line in lines) else 4
    return Table(header[:shown], [line[:shown] for line in lines])


def _interval(score: Json) -> tuple[str, str]:
    low, high = score["low"], score["high"]
    return number(score["value"]), "" if low is None or high is None else f"{low:.2f} to {high:.2f}"


COMMANDS: dict[str, Callable[[Json], list[Section]]] = {  # the command that wrote result.json
    "demo": demo_sections,
    "eval perplexity": lambda result: [perplexity_section("Perplexity", result["models"])],
    "eval probe": next_word_sections,
    "eval summaries": summary_sections,
}
FILES: dict[str, Callable[[Path], Section]] = {  # a file that a command writes, and what is shown of its folder
    "bench.json": lambda folder: document_section("Time and memory", folder / "bench.md", folder / "bench.png"),
    "results.json": lambda folder: document_section(
        f"The paper's experiment {folder.name}", folder / "table.md", folder / "plot.png"
    ),
}
KNOWN = f"{', '.join(COMMANDS)}, bench, reproduce"
