"""Tables of perplexity: table 1 (tb:perplexity), table 2 (tb:reranker) and the size curve (fig:gpt_loss_size)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from unbottle.eval import perplexity
from unbottle.recipes import paper
from unbottle.recipes.experiment import Column, Experiment, Row, every_size
from unbottle.recipes.lab import Lab
from unbottle.recipes.medians import cpu_medians
from unbottle.recipes.variant import Variant

CURVE = ("softmax", "softmax+mi", "mos+mi", "ps+mi", "softmax+cpr:20,100+mi")
WHERE = ("context", "top", "elsewhere")


def measure(lab: Lab, method: str, seed: int, size: str, *, part: str, share: float = 1.0) -> dict[str, Any]:
    """Train, then the perplexity of a part. Groups are those of the plain backbone, the same for all methods."""
    limit = lab.preset.test_tokens if part == "test" else lab.preset.reranker_tokens
    model = lab.load(lab.trained(method, seed, size=size, share=share))
    found = perplexity(model, lab.windows(part, limit), reference=lab.load(Path(lab.base(size)))).to_dict()
    groups = {name: found["groups"][name]["perplexity"] for name in WHERE}
    return {
        "size": sum(parameter.numel() for parameter in model.parameters()) / 1e6,
        "loss": found["loss"],
        "perplexity": found["perplexity"],
        "tokens": found["tokens"],
        **groups,
        "windows": found["windows"],
    }


def times(lab: Lab, rows: Sequence[Row]) -> dict[str, Any]:
    """Time of a forward pass of a batch, all methods in turns, as a ratio to the first one."""
    seed = rows[0].seed
    size = rows[0].size
    models = {row.method: lab.load(lab.trained(row.method, seed, size=size)) for row in rows if row.seed == seed}
    length, batch = lab.preset.rows.length, lab.preset.rows.batch
    ids = torch.from_numpy(lab.corpus.test[: length * batch].astype("int64")).view(-1, length)

    def forward(model: Any) -> None:
        with torch.no_grad():
            model(input_ids=ids, use_cache=False)

    medians = cpu_medians({method: partial(forward, model) for method, model in models.items()})
    first = medians[rows[0].method]
    return {method: {"time": seconds / first} for method, seconds in medians.items()}


def dots(rows: Sequence[Row], path: Path, *, mark: str = "Softmax + Mi") -> None:
    from unbottle.report import Estimate
    from unbottle.report.plot import dots as draw

    values: dict[str, list[float]] = {}
    for row in rows:
        if "perplexity" in row.found:  # or its training broke
            values.setdefault(Variant.parse(row.method).title, []).append(row.found["perplexity"])
    draw({name: Estimate.of(each) for name, each in values.items()}, path, label="perplexity", mark=mark)


def curve(rows: Sequence[Row], path: Path) -> None:
    from unbottle.report import Estimate
    from unbottle.report.plot import curves

    points: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        line = points.setdefault(Variant.parse(row.method).title, {})
        line.setdefault(row.found["size"], []).append(row.found["loss"])
    lines = {name: [(size, Estimate.of(each)) for size, each in sorted(line.items())] for name, line in points.items()}
    curves(lines, path, x="parameters (millions)", y="loss on the test text")


TABLE1 = Experiment(
    name="table1",
    title="Test perplexity of output layers on the same backbone (tb:perplexity)",
    methods=tuple(paper.PERPLEXITY_SMALL),
    measure=partial(measure, part="test"),
    columns=(
        Column("Size", "size"),
        Column("Time ratio", "time"),
        Column("Perplexity", "perplexity"),
        Column("in context", "context"),
        Column("in W(100)", "top"),
        Column("elsewhere", "elsewhere"),
    ),
    paper_columns=paper.PERPLEXITY_COLUMNS,
    paper={"GPT-2 Small": paper.PERPLEXITY_SMALL, "GPT-2 Medium": paper.PERPLEXITY_MEDIUM},
    finish=times,
    plot=dots,
    note="Perplexity in context, in W(100), elsewhere: by where the true next token was. W(100) is that of the plain "
    "backbone, so that all rows are split the same way. Time: CPU time of a forward pass, in turns, "
    "as a ratio to the first row.",
)
TABLE2 = Experiment(
    name="table2",
    title="Word-by-word reranker, validation perplexity after a short training (tb:reranker)",
    methods=tuple(paper.RERANKER),
    measure=lambda lab, method, seed, size: measure(
        lab, method, seed, size, part="valid", share=lab.preset.reranker_share
    ),
    columns=(Column("Size", "size"), Column("Perplexity", "perplexity")),
    paper_columns=paper.RERANKER_COLUMNS,
    paper={"GPT-2 Small": paper.RERANKER},
    plot=dots,
)
SIZE_CURVE = Experiment(
    name="size-curve",
    title="Loss against size (fig:gpt_loss_size)",
    methods=CURVE,
    measure=partial(measure, part="test"),
    columns=(Column("Size", "size"), Column("Loss", "loss", 3)),
    sizes=every_size,
    plot=curve,
    note="The paper shows this as a figure without numbers: its lines fall with size, CPR's lies below those of MoS.",
)
