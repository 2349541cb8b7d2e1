"""The numbers of the paper, shown beside our own. They are in paper.tsv; methods are spelled canonically."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from unbottle.tables import Table

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
EXAMPLE_WORDS = Table(
    ["Method", "plates, keys, ...", "John, Alex, ...", "tennis, baseball, ..."],
    [
        [
            "Softmax + Mi",
            "**keys** 0.108, **pieces** 0.045, key 0.036, phone 0.020, **balloons** 0.019",
            "**John** 0.108, the 0.102, them 0.095, him 0.045, my 0.032",
            "tennis 0.089, baseball 0.075, **football** 0.041, basketball 0.036, **I** 0.032",
        ],
        [
            "MoS + Mi",
            "**keys** 0.085, phone 0.035, key 0.031, **pieces** 0.029, **balloons** 0.016",
            "**John** 0.099, the 0.097, them 0.083, **Alex** 0.055, **Mary** 0.040",
            "baseball 0.076, basketball 0.062, tennis 0.059, golf 0.037, **bad** 0.035",
        ],
        [
            "PS + Mi",
            "**keys** 0.091, **plates** 0.079, **scissors** 0.050, **balloons** 0.034, **toys** 0.033",
            "**John** 0.130, the 0.105, **Alex** 0.076, them 0.076, **Mary** 0.037",
            "tennis 0.095, golf 0.050, baseball 0.043, **I** 0.038, **other** 0.038",
        ],
        [
            "Softmax + CPR:20,100 + Mi",
            "**keys** 0.077, **balloons** 0.052, **plates** 0.036, **toys** 0.030, **pieces** 0.030",
            "the 0.106, **John** 0.099, my 0.060, **Alex** 0.057, them 0.044",
            "**football** 0.075, **volleyball** 0.058, **soccer** 0.056, **I** 0.047, **bad** 0.038",
        ],
    ],
)  # tb:context_example
SMALL, MEDIUM = "GPT-2 Small", "GPT-2 Medium"
TABLES = {  # those of language models, by title
    "perplexity, GPT-2 Small": PERPLEXITY[ANY][SMALL],
    "perplexity, GPT-2 Medium": PERPLEXITY[ANY][MEDIUM],
    "validation perplexity after a short training": RERANKER[ANY][SMALL],
    "text completion": COMPLETION[ANY][SMALL],
    "ambiguous contexts": ANALOGY[ANY][SMALL],
}
