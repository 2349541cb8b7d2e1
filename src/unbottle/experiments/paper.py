"""The numbers of the paper, shown beside our own. They are in paper.tsv; methods are spelled canonically."""

from __future__ import annotations

from importlib.resources import files

Numbers = dict[str, tuple[float, ...]]  # method -> a number for each column


def _tables(name: str) -> dict[str, dict[str, Numbers]]:
    """The numbers of a table: data set -> model -> method -> numbers."""
    tables: dict[str, dict[str, Numbers]] = {}
    for line in files(__package__).joinpath("paper.tsv").read_text(encoding="utf-8").splitlines():
        table, data, model, method, *numbers = line.split("\t")
        if table == name:
            tables.setdefault(data, {}).setdefault(model, {})[method] = tuple(map(float, numbers))
    return tables


# tb:perplexity: size (millions), time of a batch (ms), test perplexity on OpenWebText and on Wikipedia 2021
PERPLEXITY_COLUMNS = ("Size", "Time", "OWT", "Wiki")
PERPLEXITY_SMALL, PERPLEXITY_MEDIUM = _tables("perplexity")[""].values()

# tb:reranker: validation perplexity on Wikipedia 2021 after 0.15 epochs
RERANKER_COLUMNS = ("Wiki",)
RERANKER = _tables("reranker")[""]["GPT-2 Small"]

# tb:gpt2_gen_other; tb:dynamic_partition_rouge_1 is a part of it
COMPLETION_COLUMNS = ("R1", "R1C", "R1P", "R1PC", "R2", "P Ratio", "CIDEr", "NIST")
COMPLETION = _tables("completion")[""]["GPT-2 Small"]

# tb:context_example: these four methods
EXAMPLE_METHODS = ("softmax+mi", "mos+mi", "ps+mi", "softmax+cpr:20,100+mi")

# tb:analogy: perplexity, diagonal then edge: valid, capital-common, capital-world, city-in-state, family
ANALOGY_COLUMNS = tuple(
    f"{kind} {relation}"
    for kind in ("diagonal", "edge")
    for relation in ("valid", "capital-common", "capital-world", "city-in-state", "family")
)
ANALOGY = _tables("analogy")[""]["GPT-2 Small"]

# Title, columns, rows: the tables above
TABLES = (
    ("perplexity, GPT-2 Small", PERPLEXITY_COLUMNS, PERPLEXITY_SMALL),
    ("perplexity, GPT-2 Medium", PERPLEXITY_COLUMNS, PERPLEXITY_MEDIUM),
    ("validation perplexity after a short training", RERANKER_COLUMNS, RERANKER),
    ("text completion", COMPLETION_COLUMNS, COMPLETION),
    ("ambiguous contexts", ANALOGY_COLUMNS, ANALOGY),
)

# tb:summarization, tb:summarization_other_news, tb:summarization_other_types: size (millions), time of a sample (ms),
# loss, R1 and R2 (percent), R1P (a share), P Ratio, CIDEr, NIST, FactCC, MAUVE
SUMMARY_COLUMNS = ("Size", "Time", "Loss", "R1", "R2", "R1P", "P Ratio", "CIDEr", "NIST", "FactCC", "MAUVE")
SUMMARIES = _tables("summaries")
