"""What `unbottle demo` prints: the numbers, and what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unbottle.cli.aligned import aligned
from unbottle.report.numbers import Estimate

GROUPS = ("context", "top", "elsewhere")
MEASURES = {"forward": "forward pass, {length} words", "decode": "step of decoding after {context}"}


def document(found: Mapping[str, Any]) -> str:
    """All parts, below each other."""
    return "\n\n".join(
        [
            about(found),
            "Perplexity of text that was not trained on, by where the next word was (lower is better)\n"
            + perplexities(found),
            found["verdict"]["said"],
            "The next word after a prompt, and the partition that set it\n" + next_words(found["words"]),
            "Lists in different orders: probability of all listed words, evenness among them, how often another wins\n"
            + orders(found["order"]),
            "What it costs beside the plain model\n" + costs(found["cost"]),
        ]
    )


def about(found: Mapping[str, Any]) -> str:
    model, text, training = found["model"], found["text"], found["training"]
    licence = f" ({model['licence']})" if model["licence"] else ""
    parts = [f"{text[part]['tokens']:,} tokens of {text[part]['files']} files" for part in ("train", "test")]
    return "\n".join(
        [
            f"Model: {model['title']}{licence}, {model['parameters'] / 1e6:.1f} M parameters, frozen; {model['about']}",
            f"Text:  {text['what']} ({text['licence']}): {parts[0]} to train on, {parts[1]} held out",
            f"Heads: {' and '.join(found['methods'].values())}, same hidden states, same order, one pass, "
            f"learning rate {training['lr']:g}; form: {training['form']}",
        ]
    )


def perplexities(found: Mapping[str, Any]) -> str:
    measured = found["perplexity"]
    names = {"before": "before training"} | {name: f"{method}" for name, method in found["methods"].items()}
    first = measured["before"][0]
    header = ["", "all words", "in the context", f"in W({first['k']})", "elsewhere"]
    rows = [
        [names[name], *(_show(each) for each in (_all(runs), *(_of(runs, group) for group in GROUPS)))]
        for name, runs in measured.items()
    ]
    rows.append(["share of the words", "100%", *(f"{first['groups'][group]['share']:.0%}" for group in GROUPS)])
    seeds = len(measured["cpr"])
    return aligned(header, rows) + (f"\n(mean of {seeds} seeds ± its standard error)" if seeds > 1 else "")


def next_words(words: Mapping[str, Any]) -> str:
    from unbottle.eval.probe import Probe, Probed, ProbedWord

    found = [
        Probed(**{**probed, "words": tuple(ProbedWord(**word) for word in probed["words"])})
        for probed in words["found"]
    ]
    return str(Probe(found=tuple(found)))


def orders(biases: Mapping[str, Any]) -> str:
    rows = [
        (
            ", ".join(row["options"]),
            name,
            f"{row['mass']:.3f}",
            "1" if row["repeats"] else "0",
            f"{row['evenness']:.3f}",
            f"{row['winner_changes']:.0%}",
        )
        for together in zip(*(bias["rows"] for bias in biases.values()), strict=True)
        for name, row in zip(biases, together, strict=True)
    ]
    return aligned(("list", "model", "listed", "should be", "evenness", "winner changes"), rows)


def costs(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        (
            MEASURES[row["measure"]].format(**row),
            row["method"],
            f"{1000 * row['wall']['median']:.1f}",
            f"{row['wall']['ratio']:.2f}",
            f"{row['memory']['ratio']:.2f}" if row["memory"] else "",
        )
        for row in rows
    ]
    if not any(line[-1] for line in lines):
        return aligned(("", "head", "ms", "time ratio"), [line[:-1] for line in lines])
    return aligned(("", "head", "ms", "time ratio", "memory ratio"), lines)


def _all(runs: Sequence[Mapping[str, Any]]) -> list[float]:
    return [run["perplexity"] for run in runs]


def _of(runs: Sequence[Mapping[str, Any]], group: str) -> list[float]:
    return [value for run in runs if (value := run["groups"][group]["perplexity"]) is not None]


def _show(values: Sequence[float]) -> str:
    return Estimate.of(values).show() if values else ""
