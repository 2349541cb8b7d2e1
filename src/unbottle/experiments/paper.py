"""The numbers of the paper, shown beside our own. They are in paper.tsv; methods are spelled canonically."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

PaperNumbers = Mapping[str, Mapping[str, Mapping[str, float]]]  # model -> method -> column -> number
RELATIONS = ("valid", "capital-common", "capital-world", "city-in-state", "family")
COLUMNS = {  # of each table, in the order of paper.tsv
    # tb:perplexity: size (millions), time of a batch (ms), test perplexity on OpenWebText and on Wikipedia 2021
    "perplexity": ("Size", "Time", "OWT", "Wiki"),
    # tb:reranker: validation perplexity on Wikipedia 2021 after 0.15 epochs
    "reranker": ("Wiki",),
    # tb:gpt2_gen_other; tb:dynamic_partition_rouge_1 is a part of it
    "completion": ("R1", "R1C", "R1P", "R1PC", "R2", "P Ratio", "CIDEr", "NIST"),
    # tb:analogy: perplexity
    "analogy": tuple(f"{kind} {relation}" for kind in ("diagonal", "edge") for relation in RELATIONS),
    # tb:summarization, tb:summarization_other_news, tb:summarization_other_types: size (millions), time of a sample
    # (ms), loss, R1 and R2 (percent), R1P (a share), P Ratio, CIDEr, NIST, FactCC, MAUVE
    "summaries": ("Size", "Time", "Loss", "R1", "R2", "R1P", "P Ratio", "CIDEr", "NIST", "FactCC", "MAUVE"),
}
ANY = ""  # the data set of tables that are not of one


def _table(name: str) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """The numbers of a table: data set -> model -> method -> column -> number."""
    table: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for line in files(__package__).joinpath("paper.tsv").read_text(encoding="utf-8").splitlines():
        of_table, data, model, method, *numbers = line.split("\t")
        if of_table == name:
            row = dict(zip(COLUMNS[name], map(float, numbers), strict=True))
            table.setdefault(data, {}).setdefault(model, {})[method] = row
    return table


PERPLEXITY, RERANKER, COMPLETION, ANALOGY, SUMMARIES = map(_table, COLUMNS)
EXAMPLE_METHODS = ("softmax+mi", "mos+mi", "ps+mi", "softmax+cpr:20,100+mi")  # of tb:context_example
SMALL, MEDIUM = "GPT-2 Small", "GPT-2 Medium"
TABLES = {  # those of language models, by title
    "perplexity, GPT-2 Small": PERPLEXITY[ANY][SMALL],
    "perplexity, GPT-2 Medium": PERPLEXITY[ANY][MEDIUM],
    "validation perplexity after a short training": RERANKER[ANY][SMALL],
    "text completion": COMPLETION[ANY][SMALL],
    "ambiguous contexts": ANALOGY[ANY][SMALL],
}
